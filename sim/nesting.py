"""How deep a YAML text nests, told before what reads it recursively does.

libyaml's composer calls itself level by level, in C: some 30,000 open brackets end the process, and no exception tells
of it.  Its parser, which is asked here, keeps a stack of its own.
"""

from __future__ import annotations

from typing import Any, Literal

import yaml

DEPTH_MAX = 200  # composers, also the one in Python, go as deep as this without harm
_OPENING = "[{-?:"  # each level takes one of these to open
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def bounds_exceeded(text: bytes, depth_max: int, nodes_max: int) -> Literal["", "depth", "nodes"]:
    """Which bound a YAML document exceeds first, up to where the text stops being YAML; "" if none.

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


def nests_too_deep(text: str | bytes) -> bool:
    """Whether collections lie within each other deeper than `DEPTH_MAX`, up to where the text stops being YAML."""
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
        pass  # which whoever reads it tells
    return False
