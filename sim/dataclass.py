"""`dataclass` as that of the standard library, for a fifth of its cost when a class is defined.

The standard library writes and compiles six functions for each class, of which most are never
called: 1 ms a class, a third of the start of a command.  Here representation, comparison, hash,
copying and the refusal of assignments are functions that all classes share or closures, and the
constructor is compiled when the first instance is made.

Holds: for the arguments that it takes, a class behaves as one of the standard library; `fields`,
       `replace` and `asdict` take it.  A class with InitVar, with an order or with a base from the
       standard library's decorator needs that decorator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a checker of types knows what this one does by that one's rules
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, kw_only=False):
        """The decorator, with or without arguments."""
        if cls is None:
            return lambda one: dataclass(one, frozen=frozen, slots=slots, eq=eq, kw_only=kw_only)
        own = cls.__dict__
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # the standard library would make up a signature
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
        if "__init__" not in own:
            made.__init__ = _first_init(made, frozen)
        if "__repr__" not in own:
            made.__repr__ = _repr
        if eq:
            _add_comparison(made, own, frozen)
        if frozen:
            _refuse_changes(made)
            if slots and "__getstate__" not in own:
                made.__getstate__, made.__setstate__ = _state, _set_state
        return made


def _first_init(cls: type, frozen: bool) -> Callable[..., None]:
    """The constructor until the first call, which puts the compiled one in its place."""

    def __init__(self: object, *arguments: Any, **named: Any) -> None:
        init = _compiled_init(cls, frozen)
        cls.__init__ = init  # type: ignore[misc]
        init(self, *arguments, **named)

    return __init__


def _compiled_init(cls: Any, frozen: bool) -> Callable[..., None]:
    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
    parameters: dict[Any, list[str]] = {False: [], True: []}  # by whether they have to be named
    body = []
    for one in dataclasses.fields(cls):
        value = one.name
        if one.default_factory is not dataclasses.MISSING:
            known[f"_make_{one.name}"] = one.default_factory
            value = f"_make_{one.name}()"
            if one.init:
                parameters[one.kw_only].append(f"{one.name}=_missing")
                value = f"{value} if {one.name} is _missing else {one.name}"
        elif not one.init:
            if one.default is dataclasses.MISSING:
                continue
            known[f"_default_{one.name}"] = one.default
            value = f"_default_{one.name}"
        elif one.default is not dataclasses.MISSING:
            known[f"_default_{one.name}"] = one.default
            parameters[one.kw_only].append(f"{one.name}=_default_{one.name}")
        else:
            parameters[one.kw_only].append(one.name)
        body.append(f"_set(self, {one.name!r}, {value})" if frozen else f"self.{one.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    named = ["*", *parameters[True]] if parameters[True] else []
    head = f"def __init__({', '.join(['self', *parameters[False], *named])}):"
    exec("\n ".join([head, *(body or ["pass"])]), known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr]
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _add_comparison(cls: Any, own: Any, frozen: bool) -> None:
    names = [one.name for one in dataclasses.fields(cls) if one.compare]
    # Of one attribute, the getter gives the value itself, which compares and hashes as well.
    get: Callable[[Any], Any] = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: Any, other: Any) -> bool:
        return get(self) == get(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(get(self))

    if "__eq__" not in own:
        cls.__eq__ = __eq__
    if "__hash__" not in own:
        cls.__hash__ = __hash__ if frozen else None


def _refuse_changes(cls: Any) -> None:
    names = frozenset(one.name for one in dataclasses.fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
