"""Apply by schema: checks a configuration, merges it into an object, and removes fields.

Results are upstream's list of type errors of a configuration, the merged object, and an object
without a set of fields, all by path copy.

Holds: an item of a keyed list or a set is identified by its path element
(`differences.path_element`), as in ownership. A container that removals make empty becomes null,
which the object's decoder drops.

Mirrors  structured-merge-diff v4.2.3 typed/{validate,merge,remove,helpers}.go, fieldpath/set.go
         (EnsureNamedFieldsAreMembers).
Differs  fields are checked in the order of the text; Go's maps have none.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from sim.api.go.printing import ANY, go_syntax, go_value
from sim.api.ownership.differences import path_element
from sim.api.ownership.field_sets import LEAF, SELF, Tree, intern, is_member
from sim.api.schema.field_schemas import SchemaNode
from sim.api.types import Json, Obj
from sim.pauses import paced, spent
from sim.remembered import cached

_NUMBERS = ("integer", "number")
# Adds the errors of a value at a place to the last argument.
Check = Callable[[SchemaNode, Json, str, list[str]], None]


def is_list(node: SchemaNode) -> bool:
    """True for lists with separately owned items."""
    return node.type == "array" and node.list_type != "atomic"


def is_map(node: SchemaNode) -> bool:
    """True for objects and maps with separately owned fields."""
    return node.type in ("object", "map") and node.map_type != "atomic"


# --- types ----------------------------------------------------------------------------------------


def type_errors(node: SchemaNode, value: Json) -> list[str]:
    """The type errors that upstream finds in a configuration, each with its path."""
    found: list[str] = []
    _check(node, value, "", found)
    return found


def name_errors(node: SchemaNode, value: Json) -> list[str]:
    """Those type errors that an object of a Go type can have: items without a name, or with one
    name.
    """
    found: list[str] = []
    if not _is_named(node, value):
        _check_names(node, value, "", found)
    return found


def _is_named(node: SchemaNode, value: Json) -> bool:
    """True if `_check_names` finds no error, decided without texts for names: the usual case."""
    if type(value) is dict:
        known = node.properties
        for key, part in value.items():
            schema = known.get(key) or node.values
            if part and schema is not None and _holds_names(schema) and not _is_named(schema, part):
                return False
        return True
    below = node.items
    if type(value) is not list or below is None:
        return True
    spent(2 * len(value))
    if is_list(node):
        keys, defaults = node.list_map_keys, node.key_defaults
        seen = set()
        for item in value:
            if keys and type(item) is dict:
                name = tuple([item.get(key, defaults.get(key)) for key in keys])
            else:
                name = (None,) if keys else (item,)
            for each in name:
                if type(each) is not str and type(each) is not int:
                    return False
            seen.add(name)
        if len(seen) < len(value):
            return False
    if _holds_names(below):
        for item in value:
            if not _is_named(below, item):
                return False
    return True


def _check_names(node: SchemaNode, value: Json, at: str, found: list[str]) -> None:
    """As `_check` for well-typed values, of which only those that hold named items are visited."""
    if isinstance(value, list):
        if node.items is not None:
            _check_items(node, value, at, found, _check_names)
    elif isinstance(value, dict):
        known = node.properties
        for key, below in value.items():
            schema = known.get(key) or node.values
            if below and schema is not None and _holds_names(schema):
                _check_names(schema, below, f"{at}.{key}", found)


@cached(16384)
def _holds_names(node: SchemaNode) -> bool:
    """True if a list below this place, or at it, has items that are owned separately."""
    seen: set[SchemaNode] = set()
    todo: list[SchemaNode | None] = [node]
    while todo:
        each = todo.pop()
        if each is None or each in seen:
            continue
        if is_list(each):
            return True
        seen.add(each)
        todo += (*each.properties.values(), each.values, each.items)
    return False


def _check(node: SchemaNode, value: Json, at: str, found: list[str]) -> None:
    if value is None or (node.values is node and not isinstance(value, dict)):
        return  # null, or of unknown type
    # Quirk: a scalar without a type (a quantity, a time) accepts maps and lists (validateScalar).
    wrong = ""
    if node.type in ("object", "map"):
        if isinstance(value, dict):
            _check_fields(node, value, at, found)
        else:
            wrong = f"expected map, got &{{{go_value(value)}}}"
    elif node.type == "array":
        if isinstance(value, list):
            _check_items(node, value, at, found, _check)
        else:
            wrong = f"expected list, got &{{{go_value(value)}}}"
    elif node.type == "string":
        if not isinstance(value, str):
            wrong = f"expected string, got &value.valueUnstructured{{Value:{go_syntax(ANY, value)}}}"
    elif node.type == "boolean":
        if not isinstance(value, bool):
            wrong = f"expected boolean, got &{{{go_value(value)}}}"
    elif node.type in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            wrong = f"expected numeric (int or float), got {_go_type(value)}"
    if wrong:
        found.append(f"{at}: {wrong}" if at else wrong)


def _check_fields(node: SchemaNode, value: Obj, at: str, found: list[str]) -> None:
    if not node.properties and node.values is None:
        return  # of any form
    for key, below in paced(value.items(), 2):
        schema = node.properties.get(key) or node.values
        if schema is None:
            found.append(f"{at}.{key}: field not declared in schema")
            return
        _check(schema, below, f"{at}.{key}", found)


def _check_items(node: SchemaNode, value: list[Json], at: str, found: list[str], check: Check) -> None:
    below = node.items
    if below is None:
        return
    deeper = check is _check or _holds_names(below)
    if not is_list(node):
        for i, item in enumerate(paced(value, 2)):
            check(below, item, f"{at}[{i}]", found)
        return
    seen: set[str] = set()
    are_texts = below.type == "string" and not node.list_map_keys
    for i, item in enumerate(paced(value, 5)):
        if are_texts and type(item) is str:
            name = path_element(node, item)
            if name in seen:
                found.append(f"{at}: duplicate entries for key {element_text(name)}")
            seen.add(name)
            continue
        wrong = _misnamed(node, item)
        if wrong:
            found.append(f"{at}: element {i}: {wrong}")
            return
        name = path_element(node, item)
        if name in seen:
            found.append(f"{at}: duplicate entries for key {element_text(name)}")
        seen.add(name)
        if deeper:
            check(below, item, at + element_text(name), found)


def _misnamed(node: SchemaNode, item: Json) -> str:
    """Why an item of a keyed list or set has no path element; "" if it has one."""
    if not node.list_map_keys:
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        if isinstance(item, dict):
            return "associative list without keys has an element that's a map type"
        return "associative list without keys has an element that's an explicit null" if item is None else ""
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    for key in node.list_map_keys:
        if key not in item and key not in node.key_defaults:
            return (
                f'associative list with keys has an element that omits key field "{key}" '
                "(and doesn't have default value)"
            )
    return ""


def _go_type(value: Json) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    return "map[string]interface {}" if isinstance(value, dict) else "[]interface {}"


def element_text(name: str) -> str:
    """A path element as conflicts and errors show it: .spec, [name="c"], [="x"]."""
    kind, rest = name[0], name[2:]
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = json.loads(rest)
        return f"[{','.join(f'{key}={_key_text(value)}' for key, value in keys.items())}]"
    return f"[={rest}]" if kind == "v" else f"[{rest}]"


def _key_text(value: Json) -> str:
    """A value of a key (value.go: ToString). Quirk: a map has no brackets."""
    if isinstance(value, dict):
        return "".join(f"{key}={_key_text(value[key])}" for key in sorted(value))
    if isinstance(value, list):
        return f"[{','.join(map(_key_text, value))}]"
    return json.dumps(value, ensure_ascii=False)


# --- merging --------------------------------------------------------------------------------------

_ABSENT: Any = object()


def merge(node: SchemaNode, live: Json, given: Json) -> Json:
    """The live value with the configuration merged in: scalars and atomic values replaced, others
    item by item.

    A list or map that is null or empty in the configuration changes nothing.
    """
    if given is _ABSENT:
        return live
    if live is _ABSENT:
        live = None
    if node.values is node and not (isinstance(live, dict) and isinstance(given, dict)):
        return given  # of unknown type: only maps are merged
    if is_map(node) and (live or given):
        return _merge_fields(node, live or {}, given or {})
    if is_list(node) and (live or given):
        return _merge_items(node, live or [], given or [])
    return given


def _merge_fields(node: SchemaNode, live: Obj, given: Obj) -> Obj:
    out = dict(live)
    for key, value in paced(given.items(), 1):
        below = node.properties.get(key) or node.values
        out[key] = value if below is None else merge(below, live.get(key, _ABSENT), value)
    return out


def _merge_items(node: SchemaNode, live: list[Json], given: list[Json]) -> list[Json]:
    """Items in an order that agrees with both sides if possible, otherwise with the
    configuration's.
    """
    below = node.items
    assert below is not None
    mine = {path_element(node, item): item for item in paced(live, 3)}
    theirs = {path_element(node, item): item for item in paced(given, 3)}
    left, right = list(mine), list(theirs)
    if left == right and below.type == "string":
        return list(theirs.values())
    if not live:
        return [merge(below, _ABSENT, item) for item in paced(theirs.values(), 3)]
    shared = deque([name for name in right if name in mine])
    taken: set[str] = set()
    out: list[Json] = []

    def take(name: str) -> None:
        spent(4)
        out.append(merge(below, mine.get(name, _ABSENT), theirs.get(name, _ABSENT)))
        taken.add(name)
        if shared and shared[0] == name:
            shared.popleft()

    i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right):
            name = left[i]
            if name == right[j]:
                take(name)
                i, j = i + 1, j + 1
                continue
            if name in theirs and shared and shared[0] != name:
                i += 1  # shared: it follows in the configuration's order
                continue
        if i < len(left):
            name = left[i]
            if name not in theirs:
                take(name)
                i += 1
                continue
            if name in taken:
                i += 1
        if j < len(right):
            take(right[j])
            j += 1
    return out


def given_nulls(node: SchemaNode, live: Obj, given: Obj) -> Tree:
    """Fields of a Go type that are null in a configuration and absent in the object."""
    return (_nulls(node, live, given) or LEAF) if node.typed else LEAF


def _nulls(node: SchemaNode, live: Any, given: Any) -> Tree | None:
    out: Tree = {}
    if is_list(node):
        assert node.items is not None
        if not is_list(node.items) and not is_map(node.items):
            return None
        mine = {path_element(node, item): item for item in live}
        for item in given:
            name = path_element(node, item)
            below = _nulls(node.items, mine[name], item) if name in mine else None
            if below is not None:
                out[name] = below
    elif is_map(node):
        for key, value in given.items():
            schema = node.properties.get(key) or node.values
            if value is None and key not in live:
                out[f"f:{key}"] = LEAF
            elif isinstance(value, dict | list) and schema and value and type(live.get(key)) is type(value):
                below = _nulls(schema, live[key], value)
                if below is not None:
                    out[f"f:{key}"] = below
    return intern(out) if out else None


# --- removal --------------------------------------------------------------------------------------


def without(node: SchemaNode, value: Json, fields: Tree) -> Json:
    """The value without these members and all below them; a container that becomes empty becomes
    null.
    """
    if not fields or not value:
        return value
    if is_map(node) and isinstance(value, dict):
        return _without_fields(node, value, fields)
    if is_list(node) and isinstance(value, list):
        return _without_items(node, value, fields)
    return value


def _without_fields(node: SchemaNode, value: Obj, fields: Tree) -> Obj | None:
    out: Obj = {}
    for key, below in paced(value.items(), 1):
        gone = fields.get(f"f:{key}")
        schema = node.properties.get(key) or node.values
        if gone is None or schema is None:
            out[key] = below
        elif not is_member(gone):
            out[key] = without(schema, below, gone)
    return out or None


def _without_items(node: SchemaNode, value: list[Json], fields: Tree) -> list[Json] | None:
    below = node.items
    assert below is not None
    out: list[Json] = []
    for item in paced(value, 4):
        gone = fields.get(path_element(node, item))
        if gone is None:
            out.append(item)
        elif not is_member(gone):
            out.append(without(below, item, gone))
    return out or None


def with_named(node: SchemaNode, fields: Tree) -> Tree:
    """The set with every known field on the path to a member as a member."""
    out: Tree = {}
    for name, below in paced(fields.items(), 2):
        if name == SELF:
            out[name] = LEAF
            continue
        schema = node.items if name[0] != "f" else node.properties.get(name[2:]) or node.values
        deeper = with_named(schema, below) if schema is not None and below else below
        if deeper and name[0] == "f" and name[2:] in node.properties:
            deeper = intern({SELF: LEAF, **deeper})
        out[name] = deeper
    return intern(out)
