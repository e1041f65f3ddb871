"""CustomResourceDefinitions.

Mirrors  apiextensions-apiserver v1.25 pkg/registry/customresourcedefinition/strategy.go.
"""

from __future__ import annotations

from sim.api.crd import definition_form, definition_lifecycle
from sim.api.kinds.apiextensions.custom_resource_definition.validation import (
    create_definition,
    status_definition,
    update_definition,
)
from sim.api.kinds.kind import STATUS, Deletion, Kind, Row, Strategy
from sim.api.objects import is_deleting
from sim.api.types import Obj
from sim.ident import Names


def _mark(old: Obj, marked: Obj, names: Names, now_text: str) -> Obj:
    """The first DELETE of a definition marks it in its own way."""
    if is_deleting(old):
        return marked
    return definition_lifecycle.marked(old, names.finalizer_crd_cleanup, now_text)


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
    validate_create=create_definition,
    validate_update={"": update_definition, "status": status_definition},
)
