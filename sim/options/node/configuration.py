"""The configuration file of the node agent: fields of its kind become options.

Turns the content of a file and the flags beside it into the flags of an agent.  `fields.txt` names
the option of each field; the option itself says what its value may be.

Holds: a flag wins over the file, and one that is not given does not reset the file's field; of
feature gates each flag wins by itself.  A zero of a field that is no pointer upstream counts as not
given.  A text for a map or a list takes the form of the option's text.

Mirrors  kubernetes v1.25 cmd/kubelet/app/server.go: NewKubeletCommand, loadConfigFile,
         kubeletConfigFlagPrecedence; cmd/kubelet/app/options/options.go: AddKubeletConfigFlags;
         kubelet config/v1beta1/types.go and pkg/kubelet/apis/config/v1beta1/defaults.go.
Differs  an unknown or double field ends the start, where upstream reads the file again without
         strictness, with a line in its log. v1beta1 is the only version (as upstream's, of fields).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sim.errors import InputError, Problems, suggestion
from sim.ident import NAMES, Names
from sim.options.base import duration, mapping, options_of, raw_option
from sim.options.features.gates import FEATURE_GATES
from sim.options.node.agent import NodeAgentOptions
from sim.texts import rows
from sim.units import format_duration

CONFIG = "config"
_FIELDS = Path(__file__).with_name("fields.txt")
# options.go: applyLegacyDefaults; without a file the flags have other defaults.
_DEFAULTS: Mapping[str, object] = {
    "anonymous-auth": False,
    "authentication-token-webhook": True,
    "authorization-mode": "Webhook",
    "read-only-port": 0,
}
_UPDATES, _REPORTS = "node-status-update-frequency", "node-status-report-frequency"
Path_ = tuple[str, ...]
Place = Callable[[Path_], str]


class Field(NamedTuple):
    """One field.  pointer: True if a zero counts as given"""

    option: str
    type: str
    pointer: bool


def fields_of(content: Mapping[str, Any], names: Names, place: str = "") -> dict[str, Field]:
    """The fields of a file by their paths, with dots between the parts.  Raises InputError.

    names: those of the options, which may not be those in which the file is written
    """
    theirs = _naming(content, place)
    found = {}
    for path, text in rows(_FIELDS)["fields"].items():
        option, _, kind = text.partition(" ")
        spelled = option.format(short=names.short)
        found[path.format(short=theirs.short)] = Field(spelled, kind.removesuffix("*"), kind.endswith("*"))
    return found


def options_of_file(names: Names) -> set[str]:
    """The options that a file can say too."""
    return {text.partition(" ")[0].format(short=names.short) for text in rows(_FIELDS)["fields"].values()}


def with_configuration(
    flags: Mapping[str, Any], names: Names, place: str = "", places: Mapping[str, str] | None = None
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The flags of an agent with those that its configuration file gives, and the place of each.

    The place of a field is in `places` as `config.FIELD`.  Raises InputError.
    """
    known = places or {}
    content = raw_option(flags, CONFIG)
    if not isinstance(content, Mapping) or not content:
        return flags, known
    of_file = known.get(CONFIG) or known.get(f"--{CONFIG}") or place

    def place_of(path: Path_) -> str:
        while path:
            if (found := known.get(".".join((CONFIG, *path)))) is not None:
                return found
            path = path[:-1]
        return of_file

    found, at = _flags_of(content, names, place_of)
    given = {name.removeprefix("--") for name in flags}
    merged = {name: value for name, value in found.items() if name not in given}
    if FEATURE_GATES in given and FEATURE_GATES in found:
        name = FEATURE_GATES if FEATURE_GATES in flags else f"--{FEATURE_GATES}"
        try:
            flags = {**flags, name: {**found[FEATURE_GATES], **mapping(flags[name])}}
        except ValueError:
            pass  # the flag is refused when the options are read
    return {**merged, **flags}, {**at, **known}


def _flags_of(
    content: Mapping[str, Any], names: Names, place_of: Place
) -> tuple[dict[str, Any], dict[str, str]]:
    """The options that a file gives, each with its place."""
    fields = fields_of(content, names, place_of(("apiVersion",)))
    problems = Problems()
    found: dict[str, Any] = {}
    at: dict[str, str] = {}
    for path, value in _leaves(content, fields, (), place_of, problems):
        field = fields[".".join(path)]
        try:
            read, is_zero = _READERS[field.type](value)
        except ValueError as wanted:
            problems.add(InputError(f"{'.'.join(path)} is {value!r}, wanted {wanted}", place_of(path)))
            continue
        if field.pointer or not is_zero:
            found[field.option], at[field.option] = read, place_of(path)
    problems.report()
    if _UPDATES in found and _REPORTS not in found:
        found[_REPORTS], at[_REPORTS] = found[_UPDATES], at[_UPDATES]
    options = {option.spelled(names) for option in options_of(NodeAgentOptions).values()}
    return {name: value for name, value in _DEFAULTS.items() if name in options} | found, at


def _naming(content: Mapping[str, Any], place: str) -> Names:
    """The naming set in which a file is written.  Raises InputError."""
    wanted = []
    for names in NAMES.values():
        version, kind = api_version(names), kind_of(names)
        if content.get("apiVersion") == version and content.get("kind") == kind:
            return names
        wanted.append(f"{kind} of {version}")
    given = f"{content.get('kind')!r} of {content.get('apiVersion')!r}"
    raise InputError(f"is a {given}, wanted a {' or a '.join(wanted)}", place)


def api_version(names: Names) -> str:
    """The apiVersion of the file."""
    return f"{names.node_agent}.config.{names.group_domain}/v1beta1"


def kind_of(names: Names) -> str:
    """The kind of the file."""
    return f"{names.node_agent.capitalize()}Configuration"


def _leaves(
    value: Mapping[str, Any], known: Mapping[str, object], path: Path_, place_of: Place, problems: Problems
) -> Iterator[tuple[Path_, Any]]:
    """The values of known fields by their paths; other fields become problems."""
    for key, child in value.items():
        here = (*path, key)
        name = ".".join(here)
        if (not path and key in ("kind", "apiVersion")) or child is None:
            continue
        if name in known:
            yield here, child
        elif not any(field.startswith(f"{name}.") for field in known):
            above = "".join(f"{part}." for part in path)
            beside = {each[len(above) :].partition(".")[0] for each in known if each.startswith(above)}
            problems.add(
                InputError(f'unknown field "{name}"', place_of(here), suggestion(key, sorted(beside)))
            )
        elif isinstance(child, Mapping):
            yield from _leaves(child, known, here, place_of, problems)
        else:
            problems.add(InputError(f"{name} is {child!r}, wanted a mapping", place_of(here)))


# --- readers: the flag's value, and whether it is the zero of its type ----------------------------


def _plain(kind: type, wanted: str) -> Callable[[object], tuple[Any, bool]]:
    def read(value: Any) -> tuple[Any, bool]:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(wanted)
        return value, not value

    return read


def _whole(bits: int) -> Callable[[object], tuple[int, bool]]:
    def read(value: object) -> tuple[int, bool]:
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or not -(1 << bits - 1) <= value < 1 << bits - 1
        ):
            raise ValueError(f"a whole number of {bits} bits")
        return value, not value

    return read


def _duration(value: object) -> tuple[str, bool]:
    if not isinstance(value, str):
        raise ValueError('a duration such as "40s" or "5m0s"')
    return value, not duration(value)


def _nanoseconds(value: object) -> tuple[str, bool]:
    """The only duration that v1beta1 holds as a number."""
    number, is_zero = _whole(64)(value)
    return format_duration(number // 1000), is_zero


def _map(value: object) -> tuple[Mapping[str, str], bool]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError("a mapping of texts")
    return value, False


def _gates(value: object) -> tuple[Mapping[str, str], bool]:
    if not isinstance(value, Mapping) or not all(isinstance(each, bool) for each in value.values()):
        raise ValueError("a mapping of names to true or false")
    return mapping(value), False


def _strings(value: object) -> tuple[list[str], bool]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("a list of texts")
    return value, False


def _quantity(value: object) -> tuple[str, bool]:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError("a quantity")
    return str(value), str(value) == "0"


def _headers(value: object) -> tuple[str, bool]:
    if not isinstance(value, Mapping):
        raise ValueError("a mapping of names to lists of texts")
    return ",".join(f"{name}:{each}" for name, texts in value.items() for each in _strings(texts)[0]), False


def _entries(
    value: object, wanted: Mapping[str, type], optional: Mapping[str, type]
) -> list[Mapping[str, Any]]:
    """A list of mappings with these fields."""
    text = f"a list of mappings with {', '.join(wanted)}"
    if not isinstance(value, list):
        raise ValueError(text)
    types = {**wanted, **optional}
    for each in value:
        if not isinstance(each, Mapping) or not {*wanted} <= {*each} <= {*types}:
            raise ValueError(text)
        if not all(isinstance(each[name], types[name]) and each[name] is not True for name in each):
            raise ValueError(text)
    return value


def _taints(value: object) -> tuple[str, bool]:
    found = _entries(value, {"key": str, "effect": str}, {"value": str})
    return ",".join(f"{each['key']}={each.get('value', '')}:{each['effect']}" for each in found), False


def _priorities(value: object) -> tuple[Mapping[str, str], bool]:
    found = _entries(value, {"priority": int, "shutdownGracePeriodSeconds": int}, {})
    return {str(each["priority"]): f"{each['shutdownGracePeriodSeconds']}s" for each in found}, False


def _reservations(value: object) -> tuple[str, bool]:
    found = _entries(value, {"numaNode": int, "limits": Mapping}, {})
    limits = (",".join(f"{name}={text}" for name, text in each["limits"].items()) for each in found)
    return ";".join(f"{each['numaNode']}:{text}" for each, text in zip(found, limits, strict=True)), False


def _modules(value: object) -> tuple[str, bool]:
    found = _entries(value, {"filePattern": str, "verbosity": int}, {})
    return ",".join(f"{each['filePattern']}={each['verbosity']}" for each in found), False


_READERS: Mapping[str, Callable[[object], tuple[Any, bool]]] = {
    "bool": _plain(bool, "true or false"),
    "int32": _whole(32),
    "int64": _whole(64),
    "float": _plain(int | float, "a number"),  # type: ignore[arg-type]  # isinstance takes a union
    "string": _plain(str, "a text"),
    "duration": _duration,
    "nanoseconds": _nanoseconds,
    "map": _map,
    "gates": _gates,
    "strings": _strings,
    "quantity": _quantity,
    "headers": _headers,
    "taints": _taints,
    "priorities": _priorities,
    "reservations": _reservations,
    "modules": _modules,
}
