"""Values of a configuration file by their types, each with its path.

Turns a mapping and the types of its fields into the values that are given; collects what is wrong.

Mirrors  apimachinery v1.25 pkg/runtime/serializer/json (strict decoding: unknown fields);
         pkg/util/validation/field/errors.go (the forms of errors).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Type = Callable[[object], bool]


def boolean(value: object) -> bool:
    """A bool."""
    return isinstance(value, bool)


def whole(value: object) -> bool:
    """An int32."""
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 31


def number(value: object) -> bool:
    """A float32."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def text(value: object) -> bool:
    """A string."""
    return isinstance(value, str)


def mapping(value: object) -> bool:
    """An object."""
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def array(value: object) -> bool:
    """A list."""
    return isinstance(value, list)


def texts(value: object) -> bool:
    """A list of strings."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


class Reading:
    """What is wrong with one file.  problems: path of a field, and the problem"""

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []

    def wrong(self, path: str, problem: str) -> None:
        """Note a problem."""
        self.problems.append((path, problem))

    def invalid(self, path: str, value: object, why: str) -> None:
        """Note a value that is not allowed."""
        shown = f'"{value}"' if isinstance(value, str) else str(value)
        self.wrong(path, f"{path}: Invalid value: {shown}: {why}")

    def fields(self, value: object, path: str, types: Mapping[str, Type]) -> dict[str, Any]:
        """The fields of an object that are given with the right types."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.wrong(path, f"{path or 'the file'} is {value!r}, wanted a mapping")
            return {}
        result = {}
        for name, entry in value.items():
            here = f"{path}.{name}" if path else str(name)
            if name not in types:
                self.wrong(here, f'strict decoding error: unknown field "{here}"')
            elif entry is None:
                continue
            elif types[name](entry):
                result[name] = entry
            else:
                target = (types[name].__doc__ or "").rstrip(".").lower()
                self.wrong(here, f"{here} is {entry!r}, wanted {target}")
        return result

    def entries(
        self, value: object, path: str, types: Mapping[str, Type]
    ) -> list[tuple[str, dict[str, Any]]]:
        """The objects of a list, each with its path."""
        listed = value if isinstance(value, list) else []
        return [
            (f"{path}[{index}]", self.fields(each, f"{path}[{index}]", types))
            for index, each in enumerate(listed)
        ]
