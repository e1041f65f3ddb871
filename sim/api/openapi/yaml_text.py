"""Values of any form as YAML, as the protobuf forms of OpenAPI documents hold them.

Holds: the members of a map stay in their order; every text ends with a line break.

Mirrors  gopkg.in/yaml.v3 encode.go (node), resolve.go, emitterc.go (increase_indent: four columns,
         two after the dash of a list), behind google/gnostic compiler/helpers.go (Marshal).
"""

from __future__ import annotations

from io import StringIO
from typing import Any, Final

import msgspec
from yaml.emitter import Emitter

from sim.patterns import pattern

_STEP: Final = 4
# Texts that would be read as another type: null, flags, numbers, times and merges.
_OTHER: Final = pattern(
    r"|~|null|Null|NULL|true|True|TRUE|false|False|FALSE|<<"
    r"|[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN"
    r"|[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?0[xX][0-9a-fA-F_]+|[-+]?0[oO]?[0-7_]+|[-+]?0[bB][01_]+"
    r"|\d{4}-\d\d?-\d\d?([Tt ].*)?"
)


def yaml_text(value: Any) -> str:
    """The YAML of a JSON value."""
    return "\n".join(_lines(value, 0)) + "\n"


def _lines(value: Any, indent: int) -> list[str]:
    """The lines of a value, without the indentation of the first."""
    pad = " " * indent
    if isinstance(value, dict) and value:
        made: list[str] = []
        for key, below in value.items():
            made += _member(pad if made else "", _scalar(key, indent), below, indent)
        return made
    if isinstance(value, list) and value:
        made = []
        for below in value:
            first, *rest = _lines(below, indent + 2)
            made += [f"{pad if made else ''}- {first}", *rest]
        return made
    if isinstance(value, dict | list):
        return ["{}" if isinstance(value, dict) else "[]"]
    return _scalar(value, indent).split("\n")


def _member(pad: str, key: str, value: Any, indent: int) -> list[str]:
    deeper = _STEP * ((indent + _STEP) // _STEP)
    if isinstance(value, dict | list) and value:
        first, *rest = _lines(value, deeper)
        return [f"{pad}{key}:", " " * deeper + first, *rest]
    first, *rest = _lines(value, indent)
    return [f"{pad}{key}: {first}", *rest]


def _scalar(value: Any, indent: int) -> str:
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if "\n" in value:
        deeper = " " * (_STEP * ((indent + _STEP) // _STEP))
        body = value.rstrip("\n")
        ends = value[len(body) :]
        head = "|-" if not ends else "|" if ends == "\n" else "|+"
        lines = [deeper + line if line else line for line in (body + ends[1:]).split("\n")]
        return "\n".join([head, *lines])
    if _OTHER.fullmatch(value):
        return msgspec.json.encode(value).decode()
    found = Emitter(StringIO(), allow_unicode=True).analyze_scalar(value)
    if not found.allow_single_quoted:
        return msgspec.json.encode(value).decode()
    return value if found.allow_block_plain else "'" + value.replace("'", "''") + "'"
