"""YAML from outside as JSON values, and JSON values as YAML.

YAML from clients becomes the values of the same document in JSON, by a loader that knows no tags
but those of JSON's types; replies become YAML as upstream prints it.

Holds: the result consists of dict, list, str, int, float, bool and None only; a document with more
than `NODES_MAX` values, with aliases that expand to more of them or to `LETTERS_MAX` letters, or
nested deeper than the stack has room for, is refused before it is composed.

Mirrors  sigs.k8s.io/yaml v1.2 over go-yaml v2 (YAML 1.1: y, n, on and off are booleans; times stay
         text): resolve.go, and encode.go (texts that would be read as another type are quoted).
"""

from __future__ import annotations

import base64
import json
import re
from io import BytesIO
from math import isfinite
from typing import Any

import yaml

from sim.api.go.printing import ANY, go_number, go_syntax
from sim.nesting import bounds_exceeded
from sim.patterns import pattern
from sim.wire.stack import room

# Values of one body.  An object is stored up to 1.5 MiB, and those of kinds that grow so large
# (definitions, lists of addresses, recorded ownership) take more than 30 bytes a value.
NODES_MAX = 50_000
LETTERS_MAX = 4_000_000
SHALLOW = 100  # nested deeper, a document is composed here: the library calls itself level by level
TOO_DEEP = "exceeded max depth of 10000"  # upstream's words, which allows more

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class YamlError(Exception):
    """The document is not YAML, or not such that it can be JSON."""


class NoJsonError(Exception):
    """The document is YAML, but a value of it has no form in JSON."""


class YamlTooLarge(YamlError):
    """The document holds more than `NODES_MAX` values."""


class _Loader(_Base):  # type: ignore[misc]
    """A loader without the tables of its base. Merged keys are counted when they are copied."""

    merged = 0

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """The tag of an untagged node, as the base finds it, without its look-up of path resolvers."""
        return _resolved(_IMPLICIT, kind, value, implicit)

    def flatten_mapping(self, node: Any) -> None:
        """Copies merged keys, within the bounds."""
        merged: list[Any] = []
        own: list[Any] = []
        pairs, node.value = node.value, []  # a map may merge itself
        for key, value in pairs:
            if key.tag != _MERGE_TAG:
                own.append((key, value))
                continue
            maps = value.value if isinstance(value, yaml.SequenceNode) else [value]
            if not all(isinstance(each, yaml.MappingNode) for each in maps):
                raise ValueError("map merge requires map or sequence of maps as the value")
            for each in reversed(maps):
                self.flatten_mapping(each)
                self.merged += 1 + len(each.value)
                if self.merged > NODES_MAX:
                    raise ValueError("document contains excessive aliasing")
                merged += each.value
        node.value = merged + own


_MERGE_TAG = "tag:yaml.org,2002:merge"
_STR, _SEQ, _MAP = (f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map"))
_JSON_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("null", "int", "float", "str", "seq", "map"))
_Loader.yaml_constructors = {tag: _Base.yaml_constructors[tag] for tag in (*_JSON_TAGS, None)}


def _boolean(loader: Any, node: Any) -> bool:
    return str(loader.construct_scalar(node)).lower() in ("y", "yes", "true", "on")


def _untagged(loader: Any, _: str, node: Any) -> Any:
    """A scalar under an application's tag, read as if it had none."""
    return loader.construct_scalar(node)


def _integer(loader: Any, node: Any) -> int | float | str:
    """A 64-bit integer; a longer one is a float, as Go reads it. A leading 0 alone means octal."""
    text = str(loader.construct_scalar(node)).replace("_", "").lower()
    digits = text.lstrip("+-")
    base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2], 8 if digits[:1] == "0" else 10)
    try:
        value = int(text, base)
    except ValueError:  # Python's bound of digits, or none at all
        return _float(loader, node)
    return value if -(1 << 63) <= value < 1 << 64 else _float(loader, node)


def _float(loader: Any, node: Any) -> float | str:
    """A float; text if it is too large or not a decimal number."""
    text = str(loader.construct_scalar(node))
    sign = "-" if text.startswith("-") else "+"
    if text.lstrip("+-").lower() in (".inf", ".nan"):
        raise NoJsonError(
            f"json: unsupported value: {f'{sign}Inf' if text.lower().endswith('inf') else 'NaN'}"
        )
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        if _resolved(_IMPLICIT, yaml.ScalarNode, text, (True, False)) != _STR:
            return text
        raise ValueError(f"cannot decode !!str `{text}` as a !!{node.tag.rpartition(':')[2]}") from None
    return go_number(value) if isfinite(value) else text


def _binary(loader: Any, node: Any) -> str:
    try:
        read = base64.b64decode(str(loader.construct_scalar(node)).replace("\n", ""), validate=True)
    except ValueError:
        raise ValueError("!!binary value contains invalid base64 data") from None
    return read.decode("utf-8", "replace")


_Loader.add_constructor("tag:yaml.org,2002:binary", _binary)
_Loader.add_constructor("tag:yaml.org,2002:bool", _boolean)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)
_Loader.yaml_multi_constructors = {"!": _untagged}
# By the first letter of a scalar: what it may be but text.
_Rules = dict[str, list[tuple[str, re.Pattern[str]]]]
_IMPLICIT: _Rules = {}
for _tag, _pattern, _first in (
    ("bool", r"^(?:y|Y|n|N|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$", "yYnNtTfFoO"),
    ("int", r"^[-+]?(?:0[bB][01_]+|0[oO][0-7_]+|0[0-7_]*|0[xX][0-9a-fA-F_]+|[1-9][0-9_]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:0[0-9_]+|[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+)$", "-+0123456789."),
    ("float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.nan|\.NaN|\.NAN)$", "-+."),
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("merge", r"^(?:<<)$", "<"),
):  # fmt: skip
    for _letter in _first:
        _IMPLICIT.setdefault(_letter.strip("\0"), []).append(
            (f"tag:yaml.org,2002:{_tag}", re.compile(_pattern))
        )


# What else is no plain text where it is printed: times, numbers to the base of 60, and what is no
# number.
_DATE = "[0-9]{4}-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|[12][0-9]|3[01])"
_HOUR = r"[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]*)?"
_QUOTED: _Rules = {letter: [*rules] for letter, rules in _IMPLICIT.items()}
for _pattern, _first in (
    (rf"^{_DATE}(?:[Tt]{_HOUR}(?:Z|[-+][0-9]{{2}}:[0-9]{{2}})| {_HOUR})?$", "0123456789"),
    (r"^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$", "-+0123456789"),
):
    for _letter in _first:
        _QUOTED[_letter].append(("tag:yaml.org,2002:timestamp", re.compile(_pattern)))


def _resolved(rules: _Rules, kind: Any, value: Any, implicit: Any) -> str:
    """The tag of a node: by the form of a plain scalar, or by its kind."""
    if kind is not yaml.ScalarNode:
        return _SEQ if kind is yaml.SequenceNode else _MAP
    if implicit[0]:
        for tag, pattern in rules.get(value[:1], ()):
            if pattern.match(value):
                return tag
    return _STR


_OPENING = (b"[", b"{", b"-", b"?", b":")  # each level takes one of these to open


def _nodes_at_most(text: bytes) -> int:
    """An upper bound of the nodes: each value but the first follows one of these marks, keys have
    colons.
    """
    return 1 + 2 * sum(map(text.count, (b":", b"?", b",", b"{"))) + text.count(b"[") + text.count(b"-")


def load_yaml(text: bytes, twice: list[str] | None = None, depth_max: int | None = None) -> Any:
    """The first document as JSON values; later ones are ignored. Raises YamlError.

    twice: receives the messages of Go's strict reader about duplicate keys in a map
    depth_max: levels that are read, where that are fewer than the stack has room for; the time of
        libyaml's scanner grows with the square of the depth
    """
    many, levels = _nodes_at_most(text) > NODES_MAX, SHALLOW
    if many or sum(map(text.count, _OPENING)) > SHALLOW:
        exceeded = bounds_exceeded(text, SHALLOW, 2 * NODES_MAX)  # a key is a node, too
        if exceeded == "depth":
            levels = room() if depth_max is None else min(room(), depth_max)
            if depth_max is not None and bounds_exceeded(text, levels, 2 * NODES_MAX) == "depth":
                raise YamlError(f"yaml: {TOO_DEEP}")
            exceeded = "nodes" if many and bounds_exceeded(text, levels, 2 * NODES_MAX) == "nodes" else ""
        if exceeded:
            raise YamlTooLarge(f"more than {NODES_MAX} values")
    found = _read_json(text, levels)
    if found is not None:
        return found
    loader = None
    try:
        loader = _Loader(text)
        if levels > SHALLOW:
            root = _composed(loader, levels)
        else:
            root = loader.get_node() if loader.check_node() else None
        if twice is not None:
            twice += [f'line {line}: key "{key}" already set in map' for line, key in _twice(root)]
        return None if root is None else _value(loader, root, [NODES_MAX, LETTERS_MAX, levels], 0)
    except NoJsonError as error:
        raise YamlError(str(error)) from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise YamlError(f"yaml: {_worded(error, text)}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _worded(error: Exception, text: bytes) -> str:
    """An error of the reader in go-yaml's words (decode.go: parser.fail).

    Quirk: lines of the scanner count from 1, those of the parser from 0, and no message names the
    first.
    """
    if not isinstance(error, yaml.MarkedYAMLError):
        return str(getattr(error, "reason", "") or error).partition("\n")[0]
    at, begin = error.problem_mark, error.context_mark
    if isinstance(error, yaml.composer.ComposerError) and error.problem == _NO_ANCHOR:
        letters = text.decode("utf-8", "replace")[at.index if at is not None else 0 :]
        name = _ALIAS.match(letters)
        return f"unknown anchor '{name[1] if name is not None else ''}' referenced"
    line = 0
    if at is not None and at.line:
        line = at.line + isinstance(error, yaml.scanner.ScannerError)
    elif begin is not None:
        line = begin.line
    problem = str(error.problem or "unknown problem parsing YAML content")
    return f"line {line}: {problem}" if line else problem


_NO_ANCHOR = "found undefined alias"  # PyYAML's words
_ALIAS = pattern(r"\s*\*?([\w-]*)")


# What JSON may hold and YAML may not, or reads otherwise: characters that are not printed or break
# lines, and escapes of halves of them; a colon that is not on its key's line, and a key of more
# letters than YAML looks ahead for its colon.
_NO_YAML = pattern("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|\\\\u|\n *:")
_KEY_MAX = 1000


class _NoJson(ValueError):
    """The text must be read as YAML."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs) or max(map(len, found), default=0) > _KEY_MAX:
        raise _NoJson
    return found


def _float_or_text(text: str) -> float | str:
    value = float(text)
    return go_number(value) if isfinite(value) else text


def _int_or_float(text: str) -> int | float | str:
    value = int(text) if len(text) <= len(str(1 << 64)) else 1 << 64
    return value if -(1 << 63) <= value < 1 << 64 else _float_or_text(text)


_json = json.JSONDecoder(
    object_pairs_hook=_pairs,
    parse_float=_float_or_text,
    parse_int=_int_or_float,
    parse_constant=_float_or_text,
)


def _composed(loader: Any, levels: int) -> Any:
    """The first document, as the library composes it, without a call for each level."""
    anchors: dict[str, Any] = {}
    root: Any = None
    opened: list[list[Any]] = []  # collections and, in a map, the key that waits for its value
    while not loader.check_event(yaml.DocumentEndEvent, yaml.StreamEndEvent):
        event: Any = loader.get_event()
        if isinstance(event, yaml.CollectionEndEvent):
            opened.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                mark: Any = event.start_mark
                raise yaml.composer.ComposerError(None, None, _NO_ANCHOR, mark)
            node = anchors[event.anchor]
        else:
            node = _node_of(loader, event)
            if event.anchor is not None:
                anchors[event.anchor] = node
        if not opened:
            root = node
        else:
            around = opened[-1]
            if isinstance(around[0], yaml.SequenceNode):
                around[0].value.append(node)
            elif len(around) == 1:
                around.append(node)
            else:
                around[0].value.append((around.pop(), node))
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append([node])
            if len(opened) > levels:
                raise ValueError(TOO_DEEP)
    return root


def _node_of(loader: Any, event: Any) -> Any:
    """The node that an event begins."""
    kind = {
        yaml.ScalarEvent: yaml.ScalarNode,
        yaml.SequenceStartEvent: yaml.SequenceNode,
        yaml.MappingStartEvent: yaml.MappingNode,
    }[type(event)]
    text = event.value if kind is yaml.ScalarNode else None
    tag = event.tag
    if tag is None or tag == "!":
        tag = loader.resolve(kind, text, event.implicit)
    return kind(tag, text if kind is yaml.ScalarNode else [], event.start_mark, event.end_mark)


def _read_json(text: bytes, levels: int) -> Any:
    """The map in a JSON text, much faster; None if YAML might read any part of it differently."""
    try:
        letters = text.decode()
        if not letters.startswith("{") or _NO_YAML.search(letters):
            return None
        found = _json.decode(letters)
    except (ValueError, RecursionError):
        return None
    level = [found]
    for _ in range(levels):
        below = [each.values() if isinstance(each, dict) else each for each in level]
        level = [each for values in below for each in values if isinstance(each, dict | list)]
        if not level:
            return found
    return None


def _twice(root: Any) -> list[tuple[int, str]]:
    """Line and key of each duplicate, in order; aliases are visited once."""
    left: list[Any] = [root]
    met: dict[int, Any] = {}  # collections; only asked whether they are there
    found: list[tuple[int, str]] = []
    while left:
        node = left.pop()
        if isinstance(node, yaml.SequenceNode):
            below = list(node.value)
        elif isinstance(node, yaml.MappingNode):
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            known: dict[str, None] = {}
            for key in keys:
                if key.value in known:
                    found.append((key.start_mark.line + 1, str(key.value)))
                known[key.value] = None
            below = [value for _, value in node.value]
        else:
            continue
        fresh = [e for e in below if not isinstance(e, yaml.ScalarNode) and id(e) not in met]
        left += fresh
        met.update({id(each): each for each in fresh})
    return sorted(dict.fromkeys(found))


def _value(loader: Any, node: Any, left: list[int], depth: int) -> Any:
    """A node as JSON; aliases are expanded while nodes, letters and levels are left."""
    left[0] -= 1
    if depth > left[2]:
        raise ValueError(TOO_DEEP)
    if isinstance(node, yaml.ScalarNode):
        value = node.value if node.tag == _STR else loader.construct_object(node)
        if isinstance(value, str):
            left[1] -= len(value)
    elif isinstance(node, yaml.SequenceNode) and _is_plain(node, _SEQ):
        value = [_value(loader, each, left, depth + 1) for each in node.value]
    elif isinstance(node, yaml.MappingNode) and _is_plain(node, _MAP):
        if any(key.tag == _MERGE_TAG for key, _ in node.value):
            loader.flatten_mapping(node)
        value = {}
        for key, below in node.value:
            name = _key(loader, key, left)
            found = _value(loader, below, left, depth + 1)
            if name is None:
                raise NoJsonError(
                    f"Unsupported map key of type: %!s(<nil>), key: <nil>, value: {go_syntax(ANY, found)}"
                )
            value[name] = found
    else:
        value = loader.construct_object(node, deep=True)  # which raises the error about its tag
    if left[0] < 0 or left[1] < 0:
        raise ValueError("document contains excessive aliasing")
    return value


def _is_plain(node: Any, tag: str) -> bool:
    """True if a collection has its default tag, or an application's tag, which counts as none."""
    return bool(node.tag == tag or node.tag.startswith("!"))


def _key(loader: Any, node: Any, left: list[int]) -> str | None:
    """The text of a key; None for a null."""
    if not isinstance(node, yaml.ScalarNode):
        shown = go_syntax(ANY, _value(loader, node, left, 0)).replace("map[string]", "map[interface {}]")
        raise ValueError(f"invalid map key: {shown}")
    key = node.value if node.tag == _STR else loader.construct_object(node)
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        return None
    left[1] -= len(node.value)
    return str(key)


class _Printer(_Dumper):  # type: ignore[misc]
    """Prints nodes without aliases: no node occurs twice."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """The tag of a scalar, by upstream's rules."""
        return _resolved(_QUOTED, kind, value, implicit)


def _node(printer: Any, value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        pairs = [(_text(key), _node(printer, below)) for key, below in sorted(value.items())]
        return yaml.MappingNode(_MAP, pairs, flow_style=False)
    if isinstance(value, list | tuple):
        return yaml.SequenceNode(_SEQ, [_node(printer, below) for below in value], flow_style=False)
    return printer.represent_data(value)


def _text(text: str) -> Any:
    if "\n" in text:
        return yaml.ScalarNode(_STR, text, style="|")
    plain = text and _resolved(_QUOTED, yaml.ScalarNode, text, (True, False)) == _STR
    return yaml.ScalarNode(_STR, text, style=None if plain else '"')


def dump_yaml(value: Any) -> bytes:
    """A JSON value as YAML, keys sorted."""
    stream = BytesIO()
    printer = _Printer(stream, encoding="utf-8", default_flow_style=False, allow_unicode=True)
    try:
        printer.open()
        printer.serialize(_node(printer, value))
        printer.close()
    finally:
        printer.dispose()
    return stream.getvalue()
