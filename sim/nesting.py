"""How deep a YAML text nests, told before what reads it recursively does.

libyaml's composer calls itself level by level, in C: some 30,000 open brackets end the process, and no exception tells
of it.  Its parser, which is asked here, keeps a stack of its own.
"""

from __future__ import annotations

from typing import Any

import yaml

DEPTH_MAX = 200  # composers, also the one in Python, go as deep as this without harm
_OPENING = "[{-?:"  # each level takes one of these to open
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
