"""Options of daemons: text from a command line, or values from YAML, become one frozen, typed value
per daemon.

A daemon's options are a frozen dataclass with fields made by `option(...)`: each field knows the
name of its option in the specification and how its text is read; `effects.txt` says what it
affects. `parse` makes
the value; it refuses unknown options and those without an effect in this program, and names the
place.

Holds: a parsed value is complete and valid; defaults are written as in the specification and pass
through the same reader as a user's text. Durations are microseconds, their fields end in `_us`.

Mirrors  the flag types of k8s.io/component-base and spf13/pflag as the daemons use them.
Differs  YAML may give a native number, boolean or list where the command line gives text.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from sim.errors import InputError, Problems, suggestion
from sim.ident import NAMES, Names
from sim.patterns import pattern
from sim.texts import rows
from sim.units import format_duration, parse_duration_us

Reader = Callable[[object], Any]
Options = TypeVar("Options")
_SPEC = "option"
_EFFECTS, _REFUSALS = (Path(__file__).with_name(name) for name in ("effects.txt", "refusals.txt"))


# --- readers of values: a ValueError names the expected form --------------------------------------


def duration(value: object) -> int:
    """Microseconds of "1m30s", never below zero; a bare 0 is allowed, other bare numbers lack their
    unit.
    """
    if isinstance(value, str):
        try:
            microseconds = parse_duration_us(value)
        except ValueError:
            microseconds = -1
        if microseconds >= 0:
            return microseconds
    elif value == 0 and not isinstance(value, bool):
        return 0
    raise ValueError('a duration such as "40s" or "5m0s"')


_DIGITS = pattern(r"[+-]?[0-9a-fA-FxXoO_]{1,80}")
_OCTAL = pattern(r"[+-]?0[0-9_]+")
_NUMBER = pattern(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def integer(value: object, bits: int = 32) -> int:
    """A signed number of `bits` bits; text as Go reads it without a given base: 0x1f, 0o17,
    017, 1_000.
    """
    result: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        result = value
    elif isinstance(value, str) and _DIGITS.fullmatch(value):
        try:
            result = int(value, 8 if _OCTAL.fullmatch(value) else 0)
        except ValueError:
            pass
    if result is None:
        raise ValueError("a whole number")
    if not -(1 << bits - 1) <= result < 1 << bits - 1:
        raise ValueError(f"a whole number of {bits} bits")
    return result


def long_integer(value: object) -> int:
    """A signed number of 64 bits."""
    return integer(value, 64)


def number(value: object) -> float:
    """A finite number."""
    is_text = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
    if is_text or (isinstance(value, int | float) and not isinstance(value, bool)):
        try:
            result = float(value)  # type: ignore[arg-type]  # a number or the text of one
        except OverflowError:
            result = math.nan
        if math.isfinite(result):
            return result
    raise ValueError("a number")


def boolean(value: object) -> bool:
    """True or false, in Go's spellings."""
    if isinstance(value, bool):
        return value
    # the texts that Go's strconv.ParseBool takes
    if isinstance(value, str) and value in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if isinstance(value, str) and value in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise ValueError("true or false")


def string(value: object) -> str:
    """A text."""
    if isinstance(value, str):
        return value
    raise ValueError("a text")


def file_name(value: object) -> str:
    """The name of a file that the daemon reads; a scenario's is relative to its folder."""
    return string(value)


BEGIN_PEM = "-----BEGIN "  # how a block of PEM begins


def certificates(value: object) -> str:
    """The name of a file of certificates, as `file_name`, or the certificates themselves in PEM."""
    return string(value)


def strings(value: object) -> tuple[str, ...]:
    """A comma-separated text or a list of texts."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise ValueError("a list such as a,b")


def file_names(value: object) -> tuple[str, ...]:
    """Names of files, as a text with commas or a list; a scenario's are relative to its folder."""
    return strings(value)


def mapping(value: object) -> Mapping[str, str]:
    """ "key=value,key=value" or a mapping."""
    if isinstance(value, Mapping):
        if all(isinstance(entry, str | int | float) for entry in value.values()):
            return {str(key): _plain(entry) for key, entry in value.items()}
    elif isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part]
        if all(equals for _, equals, _ in pairs):
            return {key.strip(): entry.strip() for key, _, entry in pairs}
    raise ValueError("pairs such as key=value,key=value")


def document(value: object) -> Mapping[str, object]:
    """The content of a file that an option names, "" for none; a scenario's files are read during
    its planning.
    """
    if value == "":
        return {}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {str(key): entry for key, entry in value.items()}
    raise ValueError("the content of the file, as a mapping")


def switches(value: object) -> Mapping[str, str]:
    """ "key=value,key" or a mapping; a key alone is true."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part]
        return {key.strip(): entry.strip() if equals else "true" for key, equals, entry in pairs}
    return mapping(value)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- checks: an error text or None ----------------------------------------------------------------

Check = Callable[[Any], str | None]


def at_least(low: float) -> Check:
    """A check of a lower bound."""
    return lambda value: None if value >= low else f"must be at least {low}"


def more_than(low: float) -> Check:
    """A check of an exclusive lower bound."""
    return lambda value: None if value > low else f"must be more than {low}"


def not_faster(low_us: int, zero: bool = False) -> Check:
    """A check that a period is no busy loop. zero: True if 0 is allowed and means none."""
    text = f"must be {'0 or ' if zero else ''}at least {format_duration(low_us)}"
    return lambda value: None if value >= low_us or (zero and not value) else text


def within(low: float, high: float) -> Check:
    """A check of both bounds."""
    return lambda value: None if low <= value <= high else f"must be between {low} and {high}"


def one_of(*allowed: str) -> Check:
    """A check of allowed values."""
    return lambda value: None if value in allowed else f"must be one of {', '.join(allowed)}"


# --- declaring ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One option as the specification names it; `{short}` in name or default is the naming set's
    short name.

    effect: "" if `effects.txt` has it
    """

    name: str
    read: Reader
    default: object
    check: Check | None
    effect: str

    def spelled(self, names: Names) -> str:
        """The option's name in a naming set."""
        return self.name.format(short=names.short)

    def value(self, raw: object, names: Names) -> Any:
        """The typed form of a raw value; raises ValueError with the problem."""
        if isinstance(raw, str):
            raw = raw.replace("{short}", names.short)
        try:
            value = self.read(raw)
        except ValueError as wanted:
            raise ValueError(f"is {raw!r}, wanted {wanted}") from None
        problem = self.check(value) if self.check is not None else None
        if problem is not None:
            raise ValueError(f"is {raw!r}, {problem}")
        return value


def option(name: str, read: Reader, default: object, *, check: Check | None = None, effect: str = "") -> Any:
    """A dataclass field that is an option.  `default` is written as a user would write it.

    effect: given if it is computed; others have a row in `effects.txt`
    """
    spec = Option(name, read, default, check, effect)
    return dataclasses.field(
        default_factory=lambda: spec.value(spec.default, NAMES["orch"]), metadata={_SPEC: spec}
    )


def with_default(group: type[Any], field: str, default: object) -> Any:
    """An option of a group that several daemons have, with the default of one of them."""
    spec = options_of(group)[field]
    return option(spec.name, spec.read, default, check=spec.check, effect=spec.effect)


def options_of(daemon: type[Any]) -> dict[str, Option]:
    """Field name to option of a daemon's options class."""
    return {f.name: f.metadata[_SPEC] for f in dataclasses.fields(daemon) if _SPEC in f.metadata}


def effects_of(daemon: type[Any], *, alone: bool = False) -> dict[str, str]:
    """Option name to what the option acts on, of a daemon's options class and its bases.

    alone: as a process, where some act on something else (the sections `Alone`)
    """
    texts = rows(_EFFECTS)
    own, instead = (
        {
            name: row
            for base in reversed(daemon.__mro__)
            for name, row in texts.get(base.__name__ + suffix, {}).items()
        }
        for suffix in ("", _ALONE)
    )
    stated = {spec.name: spec.effect for spec in options_of(daemon).values() if spec.effect}
    return own | stated | (instead if alone else {})


_ALONE = "Alone"  # ends the names of sections about processes that run alone
_IDLE = "nothing: "  # begins the row of an option that is taken without an effect


def idle_reason(effect: str) -> str:
    """Why an option that is taken has no effect; "" if it has one.  effect: as of `effects_of`"""
    return effect.removeprefix(_IDLE) if effect.startswith(_IDLE) else ""


def refusals_of(daemon: str, *, alone: bool = False) -> dict[str, str]:
    """The reason why an option, or a feature gate, has no effect in this program, by its name.

    daemon: the name of an options class, or "gates"; alone: as of `effects_of`
    """
    sections = (daemon, daemon + _ALONE) if alone else (daemon,)
    entry = [pair for each in sections for pair in rows(_REFUSALS).get(each, {}).items()]
    return {name: reason for names, reason in entry for name in names.split()}


# --- parsing --------------------------------------------------------------------------------------


def parse(
    daemon: type[Options],
    given: Mapping[str, object],
    *,
    names: Names = NAMES["orch"],
    place: str = "",
    places: Mapping[str, str] | None = None,
) -> Options:
    """The options of a daemon from option names (with or without `--`) to texts or YAML values.

    place, places: where the options come from, as a whole and per option, for errors
    """
    specs = options_of(daemon)
    fields = {spec.spelled(names): field for field, spec in specs.items()}
    values = {field: spec.value(spec.default, names) for field, spec in specs.items()}
    problems = Problems()
    for raw_name, raw in given.items():
        name = raw_name.removeprefix("--")
        where = (places or {}).get(raw_name, place)
        field = fields.get(name)
        if name != raw_name and name in given:
            problems.add(InputError(f"option {name} is given twice", where, "leave one out"))
        elif field is None:
            reasons = refusals_of(daemon.__name__)
            refused = {
                entry.format(short=names.short, product=names.product): why for entry, why in reasons.items()
            }
            problems.add(_refusal(name, fields, refused, where))
        else:
            try:
                values[field] = specs[field].value(raw, names)
            except ValueError as problem:
                problems.add(InputError(f"option {name} {problem}", where))
    problems.report()
    try:
        return daemon(**values)
    except ValueError as problem:  # a rule between several options, from the class's __post_init__
        at = next((raw for raw in given if raw.removeprefix("--") in str(problem)), "")
        raise InputError(str(problem), (places or {}).get(at, place)) from None


def raw_option(flags: Mapping[str, Any], name: str) -> Any:
    """The raw value of one option, before all are parsed; None if it is absent."""
    return flags.get(name, flags.get(f"--{name}"))


def _refusal(name: str, fields: Iterable[str], known: Mapping[str, str], place: str) -> InputError:
    if name in known:
        return InputError(f"option {name} has no effect here: {known[name]}", place, "leave it out")
    return InputError(f"unknown option {name}", place, suggestion(name, sorted(fields)))
