"""Documents of OpenAPI 2 of several servers as one.  Pure.

Turns documents into one that has the paths and definitions of all, and a document into the part
below some paths.

Holds: of two documents with one path the earlier one keeps it; of two different definitions with
one name the later one is renamed, with a number from 2 on.

Mirrors  kube-openapi pkg/aggregator/aggregator.go (FilterSpecByPathsWithoutSideEffects,
         MergeSpecsIgnorePathConflict), pkg/handler/default_pruning.go; kube-aggregator v1.25
         pkg/controllers/openapi/aggregator/{aggregator,priority}.go.
Quirk    versions of one group are in the order of their names, not of their priorities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sim.api.openapi.operations import METHODS
from sim.api.openapi.order import in_order, sorted_maps
from sim.api.openapi.schemas import V2
from sim.api.types import Obj

Body = dict[str, Any]

DEPTH_MAX = 100
_KINDS = "x-kubernetes-group-version-kind"
_OPERATION = (
    "description",
    "consumes",
    "produces",
    "schemes",
    "tags",
    "summary",
    "externalDocs",
    "operationId",
    "deprecated",
    "security",
    "parameters",
    "responses",
)
_PARAMETER = ("uniqueItems", "type", "format", "items", "collectionFormat", "default", "description")
_NAMED = ("name", "in", "required", "schema", "allowEmptyValue")


class Described(NamedTuple):
    """The document of the server behind an APIService.

    obj: the APIService
    """

    obj: Obj
    document: Body


def in_priority(described: Iterable[Described]) -> list[Described]:
    """The documents in the order in which they are merged."""
    found = list(described)
    ranks: dict[str, int] = {}
    for each in found:
        spec = each.obj["spec"]
        group, rank = spec.get("group") or "", int(spec.get("groupPriorityMinimum") or 0)
        ranks[group] = max(ranks.get(group, rank), rank)
    return sorted(
        found,
        key=lambda each: (-ranks[each.obj["spec"].get("group") or ""], each.obj["metadata"]["name"]),
    )


def merged(own: Body, described: Iterable[Described]) -> Body:
    """The document of this server with those of others."""
    paths, definitions = dict(own["paths"]), dict(own["definitions"])
    for each in in_priority(described):
        _merge(paths, definitions, each.document)
    return {
        **own,
        "paths": {path: paths[path] for path in sorted(paths)},
        "definitions": {name: definitions[name] for name in sorted(definitions)},
    }


def read(document: Any) -> Body | None:
    """A document as another server sent it, without defaults and with its members in order; None if
    it is no document, or one that nests too deep.
    """
    if not isinstance(document, dict) or not isinstance(document.get("paths", {}), dict):
        return None
    if _is_deep(document):
        return None
    paths, definitions = document.get("paths") or {}, document.get("definitions") or {}
    if not isinstance(definitions, dict):
        return None
    return {
        **document,
        "paths": {path: _item(item) for path, item in paths.items() if isinstance(item, dict)},
        "definitions": {
            name: in_order(schema) for name, schema in definitions.items() if isinstance(schema, dict)
        },
    }


def _is_deep(document: Body) -> bool:
    """True for a document that nests deeper than code that calls itself may go."""
    level: list[Any] = [document]
    for _ in range(DEPTH_MAX):
        below = (each.values() if isinstance(each, dict) else each for each in level)
        level = [value for values in below for value in values if isinstance(value, dict | list)]
        if not level:
            return False
    return True


def below(document: Body, prefixes: Sequence[str]) -> Body:
    """The part of a document below some paths, without definitions that only the rest uses."""
    paths = {path: item for path, item in document["paths"].items() if path.startswith(tuple(prefixes))}
    return _with_paths(document, paths)


def _with_paths(document: Body, paths: Body) -> Body:
    before, after = used(document, document["paths"]), used(document, paths)
    kept = {
        name: schema
        for name, schema in document["definitions"].items()
        if name in after or name not in before
    }
    return {**document, "paths": paths, "definitions": kept}


def used(document: Body, paths: Body) -> frozenset[str]:
    """The definitions that paths refer to, directly or indirectly."""
    seen: set[str] = set()
    todo = list(_references(paths))
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += _references(document["definitions"].get(name, {}))
    return frozenset(seen)


def _references(content: Any) -> list[str]:
    if isinstance(content, list):
        return [name for each in content for name in _references(each)]
    if not isinstance(content, dict):
        return []
    reference = content.get("$ref")
    own = [reference.removeprefix(V2)] if isinstance(reference, str) and reference.startswith(V2) else []
    return own + [name for each in content.values() for name in _references(each)]


# --- merging --------------------------------------------------------------------------------------


def _merge(paths: Body, definitions: Body, source: Body) -> None:
    """Add a document to paths and definitions."""
    kept = {path: item for path, item in source["paths"].items() if path not in paths}
    if not kept:
        return
    if len(kept) < len(source["paths"]):
        source = _with_paths(source, kept)
    own = {name: without_defaults(schema) for name, schema in source["definitions"].items()}
    names = _renames(definitions, own)
    for name in sorted(own):
        schema, known = _renamed(own[name], names), definitions.get(names.get(name, name))
        if known is None:
            definitions[names.get(name, name)] = schema
        else:
            definitions[names.get(name, name)] = _with_kinds(known, schema)
    paths.update(_renamed(kept, names))


def _renames(definitions: Body, own: Body) -> dict[str, str]:
    """The new names of definitions that differ from known ones of the same name."""
    taken = set(definitions)
    renames: dict[str, str] = {}
    for name in sorted(own):
        if name not in definitions or _alike(definitions[name], own[name]):
            continue
        number = 2
        while (other := f"{name}_v{number}") in definitions and not _alike(definitions[other], own[name]):
            number += 1
        if other not in definitions:
            while other in taken or other in own:
                number += 1
                other = f"{name}_v{number}"
            taken.add(other)
        renames[name] = other
    return renames


def _alike(one: Body, other: Body) -> bool:
    """True if definitions are equal but for the kinds that they belong to."""
    first, second = ({key: value for key, value in each.items() if key != _KINDS} for each in (one, other))
    return first == second


def _renamed(content: Any, names: Mapping[str, str]) -> Any:
    if not names:
        return content
    if isinstance(content, list):
        return [_renamed(each, names) for each in content]
    if not isinstance(content, dict):
        return content
    made = {key: _renamed(value, names) for key, value in content.items()}
    reference = made.get("$ref")
    if isinstance(reference, str) and reference.removeprefix(V2) in names and reference.startswith(V2):
        made["$ref"] = V2 + names[reference.removeprefix(V2)]
    return made


def _with_kinds(known: Body, other: Body) -> Body:
    """A definition with the kinds of another, equal one."""
    first, second = known.get(_KINDS) or [], other.get(_KINDS) or []
    added = [kind for kind in second if kind not in first]
    if not added:
        return known
    kinds = [*first, *added]
    ranked = sorted(kinds, key=lambda gvk: f"{gvk.get('group')}/{gvk.get('version')}.{gvk.get('kind')}")
    return in_order({**known, _KINDS: ranked if first else kinds})


def without_defaults(schema: Any) -> Any:
    """A schema without defaults, its own and those below."""
    if not isinstance(schema, dict):
        return schema
    made: Body = {}
    for key, value in schema.items():
        if key == "default":
            continue
        if key in ("properties", "patternProperties", "definitions") and isinstance(value, dict):
            made[key] = {name: without_defaults(each) for name, each in value.items()}
        elif key in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
            made[key] = [without_defaults(each) for each in value]
        elif key in ("items", "not", "additionalProperties", "additionalItems"):
            made[key] = without_defaults(value)
        else:
            made[key] = value
    return made


# --- the order of members -------------------------------------------------------------------------


def _item(item: Body) -> Body:
    made: Body = {
        method: _operation(item[method]) for method in METHODS if isinstance(item.get(method), dict)
    }
    if isinstance(item.get("parameters"), list):
        made["parameters"] = [_parameter(each) for each in item["parameters"]]
    return made


def _operation(given: Body) -> Body:
    made = {key: given[key] for key in _OPERATION if key in given}
    if isinstance(given.get("parameters"), list):
        made["parameters"] = [_parameter(each) for each in given["parameters"]]
    own = {key: sorted_maps(given[key]) for key in sorted(given) if key.startswith("x-")}
    return {**made, **own}


def _parameter(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    return {key: given[key] for key in (*_PARAMETER, *_NAMED, "$ref") if key in given}
