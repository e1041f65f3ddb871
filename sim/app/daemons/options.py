"""The options of a daemon from the raw values of its command line.

Turns raw values into one options class at a time, with the content of the files that options name:
a client configuration, a policy, a cloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.errors import InputError
from sim.ident import Names
from sim.options.base import document, options_of, parse
from sim.scenario.read.option_file import OptionFile


def read_document(name: str, place: str) -> Mapping[str, Any]:
    """The YAML or JSON mapping in a file that an option names.  Raises InputError."""
    found = OptionFile("", name, place).document().value
    if not isinstance(found, Mapping):
        raise InputError("must be a mapping", name)
    return found


def with_documents(options: type[Any], values: Mapping[str, object], names: Names) -> dict[str, object]:
    """The values with the content of the files that options name.  Raises InputError."""
    found = dict(values)
    for option in options_of(options).values():
        name = option.spelled(names)
        value = found.get(name)
        if option.read is document and isinstance(value, str) and value:
            found[name] = read_document(value, f"--{name}")
    return found


def split(options: type[Any], values: Mapping[str, object], names: Names) -> dict[str, object]:
    """Of the values, those of one options class."""
    own = {option.spelled(names) for option in options_of(options).values()}
    return {name: value for name, value in values.items() if name in own}


def options_in(options: type[Any], values: Mapping[str, object], names: Names) -> Any:
    """The options of one class that the values give.  Raises InputError."""
    given = split(options, values, names)
    return parse(options, given, names=names, places={name: f"--{name}" for name in given})
