"""CustomResourceDefinitions.

Mirrors  apiextensions-apiserver v1.25 pkg/registry/customresourcedefinition/strategy.go.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.api.crd import definition_form
from sim.api.crd.definition_form import schemas_in
from sim.api.kinds.apiextensions.custom_resource_definition import lifecycle as definition_lifecycle
from sim.api.kinds.apiextensions.custom_resource_definition.validation import (
    create_definition,
    status_definition,
    update_definition,
)
from sim.api.objects import get_in, is_deleting, replace_in
from sim.api.schema.kind import STATUS, Deletion, Kind, Row, Strategy
from sim.api.types import Obj
from sim.ident import Names
from sim.options.features.gates import EXPRESSIONS, is_on


def _mark(old: Obj, marked: Obj, names: Names, now_text: str) -> Obj:
    """The first DELETE of a definition marks it in its own way."""
    if is_deleting(old):
        return marked
    return definition_lifecycle.marked(old, names.finalizer_crd_cleanup, now_text)


def _drop_disabled(new: Obj, old: Obj, _: Names, gates: Collection[str]) -> Obj:
    """The definition without rules in CEL, if that feature is off and the stored one has none."""
    if is_on(gates, EXPRESSIONS) or _has_rules(old):
        return new
    return replace_in(new, _VERSIONS, [_without_rules(each) for each in get_in(new, _VERSIONS) or ()])


def _has_rules(definition: Obj) -> bool:
    schemas = (get_in(each, _SCHEMA) for each in get_in(definition, _VERSIONS) or ())
    return any(definition_form.RULES in part for top in schemas if top for part in schemas_in(top))


def _without_rules(version: Obj) -> Obj:
    schema = get_in(version, _SCHEMA)
    return replace_in(version, _SCHEMA, definition_form.without_rules(schema)) if schema else version


_VERSIONS, _SCHEMA = ("spec", "versions"), ("schema", "openAPIV3Schema")

KIND = Kind(
    rows=(
        Row(
            "apiextensions",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            namespaced=False,
            short=("crd", "crds"),
            categories=("api-extensions",),
            subs=(STATUS,),
            stored_version="v1beta1",
        ),
    ),
    deletion=Deletion(compares_itself=True, mark=_mark),
    strategy=Strategy(
        status=True,
        generation="spec",
        unconditional=False,
        prepare_create=definition_form.prepare_create,
        prepare_update=definition_form.prepare_update,
    ),
    defaults=definition_form.definition,
    drop_disabled=_drop_disabled,
    validate_create=create_definition,
    validate_update={"": update_definition, "status": status_definition},
)
