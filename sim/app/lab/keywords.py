"""Errors for misspelt arguments: `lab.run(duraton="1m")` names the argument that was meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from sim.errors import suggestion_or_all

_Class = TypeVar("_Class", bound=type)


def suggests_keywords(cls: _Class) -> _Class:
    """The class, of which `__init__` and the public methods raise a TypeError that suggests the
    most similar argument for an unknown one.
    """
    for name, method in vars(cls).copy().items():
        if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
            shown = cls.__name__ if name == "__init__" else f"{cls.__name__}.{name}"
            setattr(cls, name, _suggesting(shown, method))
    return cls


def _suggesting(shown: str, method: Callable[..., Any]) -> Callable[..., Any]:
    known = [*inspect.signature(method).parameters][1:]

    @wraps(method)
    def checked(*args: Any, **keywords: Any) -> Any:
        for word in keywords:
            if word not in known:
                raise TypeError(f"{shown}() has no argument {word!r} ({suggestion_or_all(word, known)})")
        return method(*args, **keywords)

    return checked
