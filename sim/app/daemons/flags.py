"""Command lines of daemons, by pflag's rules.

Turns words into the raw values of options: `--name=value`, `--name value`, `--name` alone for a
boolean; an option that is given several times is a list where its reader takes lists, and otherwise
the last one counts.

Mirrors  spf13/pflag v1.0.5 flag.go (parseLongArg, parseSingleShortArg, unknownFlag), and the flag
         types of component-base: only `help` and `v` have a short form.
Differs  a word that is no flag is refused, as cobra.NoArgs of upstream's commands does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sim.options.base import Option, Reader, boolean, file_names, mapping, strings
from sim.options.groups.listening import named_pairs


class FlagError(Exception):
    """The command line is wrong, with pflag's words."""


class Parsed(NamedTuple):
    """What a command line gives.

    values: raw values by the name of the option, in the order of their first mention
    asked: "help", "version" or ""
    """

    values: dict[str, object]
    asked: str


# Several values of these add up, with what is between them.
ADDED: Mapping[Reader, str] = {strings: ",", file_names: ",", mapping: ",", named_pairs: ";"}
SHORT = {"h": "help", "v": "v"}
HELP, VERSION = "help", "version"


def parse_flags(words: Sequence[str], known: Mapping[str, Option]) -> Parsed:
    """Read a command line.  Raises FlagError.

    known: the options of the program by name; `help` and `version` are known always
    """
    values: dict[str, object] = {}
    request, rest = "", list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            raise FlagError(f'unknown command "{word}"')
        if word == "--":
            if rest:
                raise FlagError(f'unknown command "{rest[0]}"')
            break
        name, value = _split(word)
        if name in (HELP, VERSION):
            if value not in ("false", "0"):
                request = request or name
            continue
        option = known.get(name)
        if option is None:
            raise FlagError(f"unknown flag: --{name}")
        if value is None and option.read is boolean:
            value = "true"
        elif value is None:
            if not rest:
                raise FlagError(f"flag needs an argument: --{name}")
            value = rest.pop(0)
        _put(values, option, name, value)
    return Parsed(values, request)


def _split(word: str) -> tuple[str, str | None]:
    """Name and value of a word that begins with a dash."""
    if not word.startswith("--"):
        name, value = SHORT.get(word[1:2]), word[2:].removeprefix("=") or None
        if name is None:
            raise FlagError(f"unknown shorthand flag: {word[1:2]!r} in {word}")
        return name, value
    name, equals, text = word[2:].partition("=")
    if not name or name.startswith("-"):
        raise FlagError(f"bad flag syntax: {word}")
    return name.replace("_", "-"), text if equals else None


def _put(values: dict[str, object], option: Option, name: str, value: str) -> None:
    earlier = values.get(name)
    both = isinstance(earlier, str) and option.read in ADDED
    values[name] = f"{earlier}{ADDED[option.read]}{value}" if both else value
