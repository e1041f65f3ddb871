"""Custom resources: the shape of their schema, conversion between versions, validation.

A value becomes an object by its definition's schema; a stored object becomes one of the requested
version; a new or changed one is validated into field errors.

Holds: every shaped or stored object is pruned, defaulted and has well-typed metadata.

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/customresource_handler.go
         (crdConversionRESTOptionsGetter), pkg/registry/customresource/validator.go.
         Webhooks convert in `conversion_webhook`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import msgspec

from sim.api.crd.conversion_webhook import answered, question_of, version_of
from sim.api.crd.embedded import embedded_errors
from sim.api.crd.served import CustomResource, Scale
from sim.api.crd.structural import ANYTHING, Structural
from sim.api.crd.structural_check import schema_errors
from sim.api.crd.structural_values import (
    BadPart,
    defaulted,
    pruned,
    typed_metadata,
    with_typed_parts,
    without_nulls,
)
from sim.api.go.printing import ANY, GoValue
from sim.api.memo import IdentityMemo
from sim.api.patch.strategic_merge import go_print
from sim.api.refusals import internal
from sim.api.schema.field_validation import duplicate_fields
from sim.api.schema.json_text import go_quote, plain
from sim.api.store import Answer, Consult, Consulted, Op
from sim.api.types import Json, Obj
from sim.api.validation import text
from sim.api.validation.errors import REQUIRED, TOO_LONG, TOO_MANY, Errors, WrongType, duplicate, invalid
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.pauses import paced, spent, weight_us

Preparing = Generator[Op, Answer, Callable[[Obj], Obj]]


# --- shapes ---------------------------------------------------------------------------------------


def shaped(resource: CustomResource, value: Obj) -> tuple[Obj, list[str]]:
    """An object in the shape of its schema, and messages about unknown and duplicate fields. Raises
    BadPart.

    Quirk: the schema is that of the version that the object names; in an unknown version, no field
    is known.
    """
    us = weight_us(value)
    problems = duplicate_fields(value)
    spent(us)
    obj, unknown = typed_metadata(plain(value) if problems else value)
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    if group == resource.group and obj.get("kind") == resource.kind:
        structure: Structural = resource.schemas.get(version, ANYTHING)
        obj, fields = pruned(structure, obj)
        spent(us)
        obj = without_nulls(structure, obj)
        spent(us)
        obj, parts = with_typed_parts(structure, obj)
        spent(us)
        unknown = [*unknown, *fields, *parts]
        obj = defaulted(structure, obj)
    return obj, problems + [f"unknown field {go_quote(path)}" for path in unknown]


def with_defaults(resource: CustomResource, obj: Obj) -> Obj:
    """The object with defaults for absent fields, as upstream applies them after admission and
    apply.
    """
    out: Obj = defaulted(resource.structure, obj)
    return out


# --- versions -------------------------------------------------------------------------------------

_shown: IdentityMemo[Obj] = IdentityMemo()


def shown(resource: CustomResource, obj: Obj) -> Obj:
    """A stored object in the requested version; the same object if there is nothing to convert."""
    us = weight_us(obj)  # work that rests does so whether another request has made it or not
    known = None if us else _shown.get(resource, obj)
    if known is not None:
        return known
    return _shown.put(_converted(resource, obj, resource.version, us), resource, obj)


def stored(resource: CustomResource, obj: Obj) -> Obj:
    """An object of the requested version in stored form."""
    spent(us := weight_us(obj))
    made = _go_numbers(obj)
    spent(us)
    return _converted(resource, made, resource.stored, us)


def _converted(resource: CustomResource, obj: Obj, wanted: str, us: int) -> Obj:
    """The object in another version. us: of processor time that one pass over it takes"""
    given = version_of(obj)
    if given != wanted:
        _check_version(resource, obj)
        if resource.webhook:
            raise internal(f"conversion webhook for {obj.get('apiVersion')}, Kind={resource.kind} not called")
    obj = _decoded(resource, obj, us)
    if given != wanted:
        obj = _coerced(resource, {**obj, "apiVersion": f"{resource.group}/{wanted}"}, wanted)
    return obj


def _check_version(resource: CustomResource, obj: Obj) -> None:
    if version_of(obj) not in resource.schemas:
        raise internal(f"request to convert CR from an invalid group/version: {obj.get('apiVersion')}")


def _decoded(resource: CustomResource, obj: Obj, us: int = 0) -> Obj:
    """An object as its own version has it."""
    structure: Structural | None = resource.schemas.get(version_of(obj))
    if structure is not None:
        spent(us)
        obj, _ = pruned(structure, obj)
        spent(us)
        obj = without_nulls(structure, obj)
        spent(us)
        obj = defaulted(structure, obj)
        spent(us)
    return obj


def _coerced(resource: CustomResource, obj: Obj, wanted: str) -> Obj:
    after: Structural | None = resource.schemas.get(wanted)
    if after is None:
        return obj
    try:
        return with_typed_parts(after, without_nulls(after, pruned(after, obj)[0]))[0]
    except BadPart as error:
        raise internal(str(error)) from None


def prepared(resource: CustomResource, objects: Sequence[Obj], store: bool) -> Preparing:
    """Have the webhook convert objects; return the function that gives each in its new version.

    store: True for the stored version, False for the requested one
    """
    wanted = resource.stored if store else resource.version
    made: dict[int, Obj] = {}
    for obj in objects:
        if version_of(obj) == wanted:
            continue
        _check_version(resource, obj)
        sent = _decoded(resource, _go_numbers(obj) if store else obj)
        question = question_of(resource, sent, wanted)
        answer = yield Consult((question,))
        assert isinstance(answer, Consulted)
        ((_, said, failure),) = answer.answers
        made[id(obj)] = _coerced(resource, answered(resource, question, said, failure), wanted)
    plain = stored if store else shown

    def converted(obj: Obj) -> Obj:
        return made[id(obj)] if id(obj) in made else plain(resource, obj)

    return converted


INTEGER_MAX = 1 << 63


def _go_numbers(value: Any) -> Any:
    """A value after its way through the storage: whole numbers are integers, as Go writes them, and
    integers that do not fit into 64 bits are floating point.
    """
    if isinstance(value, dict):
        made = {key: _go_numbers(given) for key, given in value.items()}
        return value if all(made[key] is value[key] for key in value) else made
    if isinstance(value, list):
        items = [_go_numbers(item) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, float) and value.is_integer() and abs(value) < INTEGER_MAX:
        return int(value)
    if isinstance(value, int) and not -INTEGER_MAX <= value < INTEGER_MAX:
        return float(value)
    return value


# --- validation -----------------------------------------------------------------------------------


def type_errors(resource: CustomResource, obj: Obj) -> Errors:
    """Errors of an object of the wrong kind or version; if there are any, its metadata and its
    schema are not checked.
    """
    errors: Errors = []
    for field, wanted in (("kind", resource.kind), ("apiVersion", resource.api_version)):
        if obj.get(field) != wanted:
            errors.append(invalid(field, obj.get(field) or "", f"must be {wanted}"))
    return errors


def create_errors(resource: CustomResource, obj: Obj) -> Errors:
    """Errors of a new object."""
    errors = object_meta(obj["metadata"], resource.namespaced, text.subdomain, core=False)
    return errors + _value_errors(resource, obj, None)


def update_errors(resource: CustomResource, new: Obj, old: Obj) -> Errors:
    """Errors of an update."""
    return object_meta_update(new["metadata"], old["metadata"], core=False) + _value_errors(
        resource, new, old
    )


def status_errors(resource: CustomResource, new: Obj, old: Obj) -> Errors:
    """Errors of an update of the status.

    Quirk: embedded objects and duplicate items are not checked.
    """
    errors = object_meta_update(new["metadata"], old["metadata"], core=False)
    errors += schema_errors(resource.structure.raw, new)
    scale = resource.scale
    errors += [] if scale is None else _shown_errors(scale, new)
    return errors + _rule_errors(resource, new, old, errors)


def _value_errors(resource: CustomResource, obj: Obj, old: Obj | None) -> Errors:
    structure, scale = resource.structure, resource.scale
    errors = schema_errors(structure.raw, obj)
    if scale is not None:
        errors += _number_errors(scale.replicas, obj) + _shown_errors(scale, obj)
    return errors + structure_errors(resource, obj, old, errors)


def structure_errors(resource: CustomResource, obj: Obj, old: Obj | None, found: Errors) -> Errors:
    """Errors of embedded objects, of lists and of rules, which are looked for in all objects.

    found: the errors so far
    """
    structure = resource.structure
    errors: Errors = []
    spent(us := weight_us(obj))
    embedded_errors(structure, obj, "", False, errors)
    spent(us)
    # Duplicates from before the list type was declared may stay (strategy.go, ValidateUpdate).
    if old is None or not list_errors(structure, old):
        errors += list_errors(structure, obj)
    return errors + _rule_errors(resource, obj, old, [*found, *errors])


_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors "
    "to complete validation"
)


def _rule_errors(resource: CustomResource, obj: Obj, old: Obj | None, found: Errors) -> Errors:
    """Errors of the rules of the schema, which are not run on values of a wrong type or size."""
    if not resource.has_rules:
        return []
    if any(isinstance(error, WrongType) or error.type in (REQUIRED, TOO_LONG, TOO_MANY) for error in found):
        return [invalid("<nil>", None, _UNCHECKED)]
    # A late import, because few definitions have rules.
    from sim.api.crd.cel.rules import rule_errors

    return rule_errors(resource.structure, obj, old)


def at_path(obj: Obj, path: str) -> Any:
    """The value at a simple path such as ".spec.replicas"; None if absent."""
    found: Any = obj
    for name in path.removeprefix(".").split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _shown_errors(scale: Scale, obj: Obj) -> Errors:
    """Errors in the status fields that a scale shows."""
    errors = _number_errors(scale.status_replicas, obj)
    if scale.selector and (odd := _not_of(str, obj, scale.selector)):
        errors.append(invalid(scale.selector, "", odd))
    return errors


def _number_errors(path: str, obj: Obj) -> Errors:
    """Errors of a field that a scale shows as a number; it may be absent."""
    odd = _not_of(int, obj, path)
    if odd:
        return [invalid(path, 0, odd)]
    found = at_path(obj, path) or 0
    if found < 0:
        return [invalid(path, found, "should be a non-negative integer")]
    if found >= 1 << 31:
        return [invalid(path, found, f"should be less than or equal to {(1 << 31) - 1}")]
    return []


_GO_TYPES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    type(None): "<nil>",
}


def _not_of(wanted: type, obj: Obj, path: str) -> str:
    """Go's error for a path that does not lead to a value of this type; "" if it does, or to
    nothing.
    """
    found: Any = obj
    names = path.removeprefix(".").split(".")
    for depth, name in enumerate(names):
        if not isinstance(found, dict):
            return (
                "" if found is None else _accessor_error(names[: depth + 1], found, "map[string]interface {}")
            )
        if name not in found:
            return ""
        found = found[name]
    return "" if type(found) is wanted else _accessor_error(names, found, _GO_TYPES[wanted])


def _accessor_error(names: list[str], found: Any, wanted: str) -> str:
    kind = _GO_TYPES.get(type(found), "map[string]interface {}")
    wanted = wanted.replace(" ", "")  # Quirk: without the space of Go's type
    return f".{'.'.join(names)} accessor error: {go_print(found)} is of the type {kind}, expected {wanted}"


def list_errors(schema: Structural, obj: Obj) -> Errors:
    """Duplicate items in lists of type set and map."""
    errors: Errors = []
    _repeated(schema, obj, "", errors)
    return errors


def _repeated(schema: Structural, value: Json, at: str, errors: Errors) -> None:
    if isinstance(value, dict):
        for key, given in value.items():
            below = schema.below(key) if isinstance(given, dict | list) else None
            if below is not None:
                _repeated(below, given, schema.place(at, key), errors)
    elif isinstance(value, list):
        if schema.list_type in ("set", "map"):
            errors += _duplicates(schema, value, at)
        for i, item in enumerate(paced(value, 1)) if schema.items is not None else ():
            assert schema.items is not None
            if isinstance(item, dict | list):
                _repeated(schema.items, item, f"{at}[{i}]", errors)


def _duplicates(schema: Structural, value: list[Json], at: str) -> Errors:
    """The duplicate items of one list (schema/listtype/validation.go).

    Quirk: an item that occurs three times is reported once, at its second position; a null item of
    a keyed list counts as one without keys.
    """
    seen: dict[bytes, int] = {}
    errors: Errors = []
    if schema.list_type == "map":
        for i, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                detail = "must be an object for an array of list-type map"
                return [invalid(f"{at}[{i}]", GoValue(ANY, item), detail)]
    for i, item in enumerate(paced(value, 3)):
        what = item
        if schema.list_type == "map":
            keys = item if isinstance(item, dict) else {}
            what = {key: keys[key] for key in schema.map_keys if key in keys}
        text_of = msgspec.json.encode(what, order="deterministic")
        count = seen[text_of] = seen.get(text_of, 0) + 1
        if count == 2:
            shown = GoValue(ANY, what)
            errors.append(duplicate(f"{at}[{i}]", shown))
    return errors
