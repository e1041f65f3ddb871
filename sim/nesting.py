"""The nesting depth and the size of a YAML text, checked before recursive code reads it.

libyaml's composer calls itself level by level, in C: some 30,000 open brackets end the process
without an exception. Its parser, which this check uses, has a stack of its own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import yaml

DEPTH_MAX = 200  # composers, also the one in Python, go as deep as this without harm
_OPENING = "[{-?:"  # each level takes one of these to open
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def bounds_exceeded(text: bytes, depth_max: int, nodes_max: int) -> Literal["", "depth", "nodes"]:
    """The bound that a YAML document exceeds first, up to where the text stops being YAML; "" if
    none.

    nodes_max: of scalars (keys among them), collections and aliases
    """
    depth = nodes = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.NodeEvent):
                nodes += 1
                if isinstance(event, yaml.CollectionStartEvent):
                    depth += 1
                    if depth > depth_max:
                        return "depth"
                if nodes > nodes_max:
                    return "nodes"
            elif isinstance(event, yaml.DocumentEndEvent):
                break
    except yaml.YAMLError:
        pass  # which the reader reports
    return ""


def holds_too_many(text: str, values_max: int) -> bool:
    """True if the YAML documents of a text hold more values than a bound, before aliases are
    expanded, up to where the text stops being YAML.

    Keys are counted too, so the bound on what is counted is twice that on values; a document counts
    as a value of its own.
    """
    if sum(text.count(mark) for mark in ("\n", ",", ":", "[", "{")) <= values_max:
        return False  # each value but the first follows one of these marks
    count = 0
    with suppress(yaml.YAMLError):  # which the reader reports
        for event in yaml.parse(text, Loader=_LOADER):
            count += isinstance(event, yaml.NodeEvent | yaml.DocumentStartEvent)
            if count > 2 * values_max:
                return True
    return False


def nests_too_deep(text: str | bytes) -> bool:
    """True if collections nest deeper than `DEPTH_MAX`, up to where the text stops being YAML."""
    if isinstance(text, str):
        opened = sum(text.count(mark) for mark in _OPENING)
    else:
        opened = sum(text.count(mark.encode()) for mark in _OPENING)
    if opened <= DEPTH_MAX:
        return False
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEPTH_MAX:
                    return True
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError:
        pass  # its reader raises the error
    return False
