"""PodTemplates.

Mirrors  kubernetes v1.25 pkg/registry/core/podtemplate/strategy.go,
         pkg/apis/core/validation/validation.go: ValidatePodTemplate.
"""

from __future__ import annotations

from functools import partial

from sim.api.kinds.common.cells import NAME
from sim.api.kinds.common.fill import present, within
from sim.api.kinds.common.pods.defaults import fill_template
from sim.api.kinds.common.pods.spec import template
from sim.api.kinds.common.pods.warnings import template_warnings
from sim.api.objects import get_in, name_of
from sim.api.schema.kind import Cells, Deletion, Kind, Row, Strategy
from sim.api.selectors import format_labels
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names


def _fill_defaults(obj: Obj) -> Obj:
    return within(present(obj, {"template": {}}), "template", fill_template)


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + template(
        obj.get("template") or {}, "template"
    )


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    return errors + template(new.get("template") or {}, "template")


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    template = obj.get("template") or {}
    found = get_in(template, ("spec", "containers"), [])
    names, images = ",".join(c["name"] for c in found), ",".join(c.get("image", "") for c in found)
    return [name_of(obj), names, images, format_labels(get_in(template, ("metadata", "labels")))]


KIND = Kind(
    rows=(Row("", "v1", "podtemplates", "PodTemplate"),),
    deletion=Deletion(returns_object=True),
    strategy=Strategy(generation="template"),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    pod_spec=("template", "spec"),
    columns=(NAME, "Containers", "Images", "Pod Labels"),
    cells=_cells,
    client_warnings=partial(template_warnings, path=("template",)),
)
