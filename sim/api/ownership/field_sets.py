"""Sets of field paths as FieldsV1 trees, and their algebra.

Paths become nested dicts with upstream's path elements as keys ("f:spec", `k:{"name":"c"}`,
`v:"x"`), so that a set is already its own JSON. A path is a member if its node is empty or holds
"."; the root never is.

Holds: trees are interned: two equal sets made here are one object (until the table is emptied at
its bound); keys are in upstream's order; a tree never changes. So thousands of similar objects
share their ownership records, and the results of the algebra are remembered by identity.

Mirrors  sigs.k8s.io/structured-merge-diff/v4 fieldpath/{set,serialize}.go.
Differs  items of map lists are ordered by the text of their keys, not key by key.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from sim import remembered
from sim.patterns import pattern

Tree = dict[str, Any]

LEAF: Tree = {}  # a member without members below it; as a root: the empty set
NOTHING = LEAF
SELF = "."

# A cluster has few sets (one per shape of object and writer); the bounds guard against unusual
# loads.
_TREES_MAX = 50_000
_FIELDS_MAX = 500_000  # of all trees and keys together: one body can have 50,000
_RESULTS_MAX = 50_000

_trees: dict[tuple[Any, ...], Tree] = {}
_results: dict[tuple[Any, int, int], tuple[Tree, Tree, Tree | None]] = {}


_fields_held = 0  # names in `_trees`, and in their keys


def _clear() -> None:
    global _fields_held
    _trees.clear()
    _results.clear()
    _fields_held = 0


remembered.register(_clear)


def intern(fields: Tree) -> Tree:
    """The shared tree equal to `fields`; its values must be interned already."""
    global _fields_held
    if not fields:
        return LEAF
    given = (*fields, *map(id, fields.values()))
    tree = _trees.get(given)
    if tree is not None:
        return tree
    names = sorted(fields)
    key = (*names, *[id(fields[name]) for name in names])
    tree = _trees.get(key)
    if tree is None:
        _fields_held += len(names)
        if len(_trees) >= _TREES_MAX or _fields_held > _FIELDS_MAX:
            _clear()
            _fields_held = len(names)
        tree = _trees[key] = {name: fields[name] for name in names}
    _fields_held += len(given)
    _trees[given] = tree  # a direct entry for the order that similar objects have
    return tree


def intern_deep(fields: Tree) -> Tree:
    """The shared tree equal to one from outside."""
    return intern({name: intern_deep(below) for name, below in fields.items()})


def read_tree(value: Any) -> Tree | None:
    """The set that a value from outside describes; None if it describes none.

    Quirk: elements of an unknown kind are ignored; a path with nothing else below it is a member.
    """
    if value is None:
        return LEAF
    if not isinstance(value, dict):
        return None
    out: Tree = {}
    for name, below in value.items():
        if name == SELF:
            out[SELF] = LEAF
            continue
        if name[1:2] != ":":
            return None
        if name[0] not in "fvki":
            continue
        element, tree = _read_element(name), read_tree(below)
        if element is None or tree is None:
            return None
        out[element] = tree
    return _node(out) or LEAF


def _read_element(name: str) -> str | None:
    """A path element in its canonical form (serialize-pe.go); None if it is malformed."""
    kind, text = name[0], name[2:]
    if kind == "f":
        return name
    if kind == "i":
        return f"i:{int(text)}" if _INDEX.fullmatch(text) else None
    try:
        read = json.loads(text)
    except ValueError:
        return None
    if kind == "k":
        if not isinstance(read, dict):
            return None
        read = {key: read[key] for key in sorted(read)}
    return f"{kind}:{json.dumps(read, separators=(',', ':'), ensure_ascii=False)}"


_INDEX = pattern(r"[+-]?[0-9]{1,18}")


def is_member(node: Tree) -> bool:
    """True if the path of the node is a member of the set."""
    return not node or SELF in node


def _remembered(
    operation: Callable[[Tree, Tree], Tree | None],
) -> Callable[[Tree, Tree], Tree | None]:
    def run(a: Tree, b: Tree) -> Tree | None:
        key = (operation, id(a), id(b))
        hit = _results.get(key)
        if hit is not None:
            return hit[2]
        result = operation(a, b)
        if len(_results) >= _RESULTS_MAX:
            _results.clear()
        _results[key] = (a, b, result)  # a reference to both keeps their ids unique
        return result

    return run


# The following take two nodes of one path; None means that no member is left.


def _union(a: Tree, b: Tree) -> Tree:
    if a is b:
        return a
    if not a or not b:
        other = a or b
        return other if is_member(other) else intern({SELF: LEAF, **other})
    out = dict(a)
    for name, below in b.items():
        mine = out.get(name)
        out[name] = below if mine is None or mine is below else _union(mine, below)
    return intern(out)


def _difference(a: Tree, b: Tree) -> Tree | None:
    if not a:
        return None if is_member(b) else LEAF
    out: Tree = {}
    for name, below in a.items():
        if name == SELF:
            if b and SELF not in b:
                out[SELF] = LEAF
            continue
        theirs = b.get(name)
        if theirs is below and not below:
            continue
        left = below if theirs is None else _difference(below, theirs)
        if left is not None:
            out[name] = left
    return _node(out)


def _intersection(a: Tree, b: Tree) -> Tree | None:
    out: Tree = {}
    if is_member(a) and is_member(b):
        out[SELF] = LEAF
    for name, below in a.items():
        theirs = b.get(name)
        if name == SELF or theirs is None:
            continue
        if theirs is below:
            out[name] = below
        else:
            both = _intersection(below, theirs)
            if both is not None:
                out[name] = both
    return _node(out)


def _outside(a: Tree, b: Tree) -> Tree | None:
    if is_member(b):
        return None
    if not a:
        return LEAF
    out: Tree = {}
    for name, below in a.items():
        theirs = b.get(name)
        left = below if theirs is None or name == SELF else _outside(below, theirs)
        if left is not None:
            out[name] = left
    return _node(out)


def _node(out: Tree) -> Tree | None:
    if not out:
        return None
    return LEAF if len(out) == 1 and SELF in out else intern(out)


_union_remembered = _remembered(_union)
_difference_remembered = _remembered(_difference)
_outside_remembered = _remembered(_outside)


def union(a: Tree, b: Tree) -> Tree:
    """Members of either set."""
    if not a or a is b:
        return b
    return (_union_remembered(a, b) or NOTHING) if b else a


def union_of(trees: list[Tree]) -> Tree:
    """Members of any of the sets; pairwise, so that few large sets are made."""
    while len(trees) > 1:
        trees = [union(a, b) for a, b in zip_longest(trees[::2], trees[1::2], fillvalue=NOTHING)]
    return trees[0] if trees else NOTHING


def difference(a: Tree, b: Tree) -> Tree:
    """Members of `a` that are not members of `b`."""
    if a is b:
        return NOTHING
    return (_difference_remembered(a, b) or NOTHING) if a and b else a


def intersection(a: Tree, b: Tree) -> Tree:
    """Members of both sets."""
    if a is b:
        return a
    return (_intersection(a, b) or NOTHING) if a and b else NOTHING


def outside(a: Tree, b: Tree) -> Tree:
    """Members of `a` that are neither in `b` nor below a member of it."""
    return (_outside_remembered(a, b) or NOTHING) if a and b else a


def of_paths(*paths: tuple[str, ...]) -> Tree:
    """The set of plain field paths: of_paths(("spec",), ("metadata", "labels"))."""
    out: Tree = NOTHING
    for path in paths:
        tree = LEAF
        for name in reversed(path):
            tree = intern({f"f:{name}": tree})
        out = union(out, tree)
    return out
