"""Defaults inside of schemas: each must be valid for its schema and hold no field that pruning
drops.

Turns a structural schema into the errors of its defaults.

Holds: a valid default is left unchanged by pruning, so that the objects that get it are valid.

Mirrors  apiextensions-apiserver v1.25
         pkg/apiserver/schema/defaulting/{validation,surroundingobject}.go.
Differs  the patterns of all defaults together share the work limit of one object.
"""

from __future__ import annotations

from sim.api.crd.cel.rules import BUDGET
from sim.api.crd.cel.rules import default_errors as rule_errors
from sim.api.crd.embedded import embedded_errors
from sim.api.crd.regexes import Budget
from sim.api.crd.structural import ABSENT, Structural, structural
from sim.api.crd.structural_check import schema_errors
from sim.api.crd.structural_values import BadPart, pruned, with_typed_parts
from sim.api.go.printing import ANY, GoValue
from sim.api.kinds.apiextensions.custom_resource_definition.structure import EMBEDDED, ERRORS_MAX, named
from sim.api.types import Json, Obj
from sim.api.validation.errors import INVALID, Errors, FieldError, invalid

_META = ("metadata", "apiVersion", "kind")
_HEAD: Obj = {"apiVersion": "validation/v1", "kind": "Validation"}
_ITEM = ""  # a step into a list; no field has this name


def default_errors(schema: Obj, at: str) -> Errors:
    """Errors of the defaults of a schema of whole objects."""
    walk = _Walk()
    walk.look(structural({**schema, EMBEDDED: True}), at, None)
    return walk.found


class _Whole:
    """An object with metadata, and the path in it to the value that is checked."""

    __slots__ = ("schema", "steps")

    def __init__(self, schema: Structural, steps: tuple[str, ...]) -> None:
        self.schema = schema
        self.steps = steps

    def around(self, value: Json) -> Obj:
        for step in reversed(self.steps):
            value = [value] if step == _ITEM else {step: value}
        return {**_HEAD, **value}


class _Walk:
    def __init__(self) -> None:
        self.found: Errors = []
        self._budget = Budget()
        self._rule_budget = BUDGET

    def look(self, schema: Structural, at: str, meta: _Whole | None) -> None:
        """Check a schema and those below it.

        meta: the object that has this schema as a part of its metadata; None elsewhere
        """
        if len(self.found) >= ERRORS_MAX or self._rule_budget < 0:
            return
        if schema.embedded:
            meta = None
        if schema.default is not ABSENT and schema.default is not None:
            found = _in_meta(schema, meta, at) if meta is not None else self._plain(schema, at)
            self.found += found or self._rules(schema, at)
        if schema.items is not None:
            inner = None if meta is None else _Whole(meta.schema, (*meta.steps, _ITEM))
            self.look(schema.items, f"{at}.items", inner)
        # Quirk: additionalProperties are not checked.
        for name, below in sorted(schema.properties.items()):
            inner = None if meta is None else _Whole(meta.schema, (*meta.steps, name))
            if schema.embedded and name in _META:
                inner = _Whole(schema, (name,))
            self.look(below, f"{at}.properties{named(name)}", inner)

    def _rules(self, schema: Structural, at: str) -> Errors:
        errors, self._rule_budget = rule_errors(schema, schema.embedded, f"{at}.default", self._rule_budget)
        return errors

    def _plain(self, schema: Structural, at: str) -> Errors:
        value, field = schema.default, f"{at}.default"
        holder, held = _held(schema, value)
        errors: Errors = []
        if pruned(holder, held)[1]:
            errors.append(invalid(field, _shown(value), "must not have unknown fields"))
        wrong: Errors = []
        try:
            with_typed_parts(holder, held)
            embedded_errors(schema, value, "", schema.embedded, wrong)
        except BadPart as error:
            where, _, said = str(error).partition(f": {INVALID}: ")
            wrong = [FieldError(where.removeprefix("default").removeprefix("."), INVALID, said)]
        wrong = wrong or schema_errors(schema.raw, value, self._budget, is_default=True)
        return errors + [_moved(error, field) for error in wrong]


def _held(schema: Structural, value: Json) -> tuple[Structural, Obj]:
    """The value as the field of an object, for functions that take objects."""
    holder = structural({})
    holder.properties = {"default": schema}
    return holder, {"default": value}


def _moved(error: FieldError, at: str) -> FieldError:
    field = error.field.removeprefix("<nil>").removeprefix(".")
    return type(error)(f"{at}.{field}" if field else at, error.type, error.detail, error.value)


def _shown(value: Json) -> GoValue | Json:
    return GoValue(ANY, value) if isinstance(value, dict | list) else value


def _in_meta(schema: Structural, whole: _Whole, at: str) -> Errors:
    """Errors of a default inside of metadata, found in an object that holds it."""
    value, field = schema.default, f"{at}.default"
    obj = whole.around(value)
    try:
        with_typed_parts(*_held(whole.schema, obj))
    except BadPart as error:
        said = str(error).removeprefix("default.")
        return [invalid(field, _shown(value), f"must result in valid metadata: {said}")]
    wrong: Errors = []
    embedded_errors(whole.schema, obj, "", True, wrong)
    if wrong:
        texts = list(dict.fromkeys(f"{e.field.removeprefix('.')}: {e.message}" for e in wrong))
        said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        return [invalid(field, _shown(value), f"must result in valid metadata: {said}")]
    return [_moved(error, field) for error in schema_errors(schema.raw, value, is_default=True)]
