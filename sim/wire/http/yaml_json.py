"""YAML from outside as JSON values, and JSON values as YAML.

Turns the YAML that clients send into what the same document is as JSON, by a loader that knows no tags but those
of JSON's types, and answers into YAML as upstream prints it.

Holds: nothing but dict, list, str, int, float, bool and None comes out; a document whose aliases unfold to more
than `NODES_MAX` nodes or `LETTERS_MAX` letters, or which is nested deeper than `DEPTH_MAX`, is refused.

Mirrors  sigs.k8s.io/yaml v1.2 over go-yaml v2 (YAML 1.1: y, n, on and off are booleans; times stay text).
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import yaml

from sim.nesting import nests_too_deep

# Far above what 3 MiB hold without aliases that multiply.
NODES_MAX = 2_000_000
LETTERS_MAX = 4_000_000
DEPTH_MAX = 100

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class YamlError(Exception):
    """The document is not YAML, or not such that it can be JSON."""


class _Loader(_Base):  # type: ignore[misc]
    """Without the tables of its base: only what is put in below.  Merged keys are counted as they are copied."""

    merged = 0

    def flatten_mapping(self, node: Any) -> None:
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
_JSON_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("null", "int", "float", "str", "seq", "map"))
_Loader.yaml_implicit_resolvers = {}
_Loader.yaml_constructors = {tag: _Base.yaml_constructors[tag] for tag in (*_JSON_TAGS, None)}


def _boolean(loader: Any, node: Any) -> bool:
    return str(loader.construct_scalar(node)).lower() in ("y", "yes", "true", "on")


def _untagged(loader: Any, _: str, node: Any) -> Any:
    """A value under a tag of somebody's own, as if it had none."""
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_mapping(node, deep=True)


def _integer(loader: Any, node: Any) -> int | float | str:
    """Of 64 bits; a longer one is a float, as Go reads it."""
    try:
        value = int(loader.construct_yaml_int(node))
    except ValueError:  # Python's bound of digits
        return _float(loader, node)
    return value if -(1 << 63) <= value < 1 << 64 else _float(loader, node)


def _float(loader: Any, node: Any) -> float | str:
    """Text where it is too large for one, or no decimal number."""
    text = str(loader.construct_scalar(node))
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        return text
    return value if isfinite(value) else text


_Loader.add_constructor("tag:yaml.org,2002:bool", _boolean)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)
_Loader.yaml_multi_constructors = {"!": _untagged}
for _tag, _pattern, _first in (
    ("bool", r"^(?:y|Y|n|N|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$", "yYnNtTfFoO"),
    ("int", r"^[-+]?(?:0b[01_]+|0[0-7_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+)$", "-+0123456789."),
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("merge", r"^(?:<<)$", "<"),
):  # fmt: skip
    first = [*_first.replace("\0", ""), *([""] if "\0" in _first else [])]
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), first)


def load_yaml(text: bytes) -> Any:
    """The first document as JSON values; what comes after it is not looked at.  Raises YamlError."""
    if nests_too_deep(text):
        raise YamlError(f"exceeded max depth of {DEPTH_MAX}")
    loader = None
    try:
        loader = _Loader(text)
        loaded = loader.get_data() if loader.check_data() else None
        return _checked(loaded, [NODES_MAX, LETTERS_MAX], 0)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise YamlError(str(error).split("\n")[0]) from None
    finally:
        if loader is not None:
            loader.dispose()


def duplicate_keys(text: bytes) -> list[str]:
    """What Go's strict reader says of keys that one map of the first document holds twice."""
    loader = _Loader(text)
    try:
        root = loader.get_node() if loader.check_node() else None
    except (yaml.YAMLError, RecursionError):
        return []  # which `load_yaml` tells
    finally:
        loader.dispose()
    return [f'line {line}: key "{key}" already set in map' for line, key in sorted(_twice(root))]


def _twice(root: Any) -> list[tuple[int, str]]:
    """Line and key of each; aliases are looked at once."""
    left: list[Any] = [root]
    met: dict[int, Any] = {}  # only asked whether they are there
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
        left += [each for each in below if id(each) not in met]
        met |= {id(each): each for each in below}
    return found


def _checked(value: Any, left: list[int], depth: int) -> Any:
    left[0] -= 1
    if isinstance(value, str):
        left[1] -= len(value)
    elif isinstance(value, dict):
        left[1] -= sum([len(key) for key in value if isinstance(key, str)])
    if min(left) < 0:
        raise ValueError("document contains excessive aliasing")
    if depth > DEPTH_MAX:
        raise ValueError(f"exceeded max depth of {DEPTH_MAX}")
    if isinstance(value, dict):
        return {_key(key): _checked(item, left, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_checked(item, left, depth + 1) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError(f"a value of type {type(value).__name__} cannot be JSON")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise ValueError("a key that is no scalar cannot be JSON")


class _Printer(_Dumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    if "\n" in text:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    plain = dumper.resolve(yaml.ScalarNode, text, (True, False)) == "tag:yaml.org,2002:str"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain and text else '"')


_Printer.add_representer(str, _text)


def dump_yaml(value: Any) -> bytes:
    """A JSON value as YAML, keys sorted."""
    text = yaml.dump(value, Dumper=_Printer, default_flow_style=False, allow_unicode=True, sort_keys=True)
    return str(text).encode()
