"""Jobs.

Mirrors  kubernetes v1.25 pkg/registry/batch/job/strategy.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from sim.api.kinds.batch.job.defaults import job
from sim.api.kinds.batch.job.validation import create_job, status_job, tracking_marks, update_job
from sim.api.kinds.common.cells import AGE, NAME, SELECTOR, WIDE, age, template_cells
from sim.api.kinds.common.pods.defaults import fill_template
from sim.api.kinds.common.pods.warnings import template_warnings
from sim.api.objects import name_of, remove_in, with_metadata
from sim.api.schema.kind import (
    NOTHING,
    STATUS,
    Cells,
    Create,
    Deletion,
    GatedField,
    Kind,
    Row,
    Strategy,
    Update,
)
from sim.api.selectors import format_selector
from sim.api.types import Obj
from sim.ident import Names
from sim.options.features.gates import FAILURE_POLICY, JOB_SCHEDULING, JOB_TRACKING, is_on
from sim.units import human_duration, parse_time


def _prepare_create(obj: Obj, names: Names) -> Obj:
    """The Job with a selector of its own uid, unless it has manualSelector."""
    meta, spec = obj["metadata"], obj.get("spec") or NOTHING
    given = ((spec.get("template") or NOTHING).get("metadata") or NOTHING).get("labels")
    if not spec.get("manualSelector"):
        uid = meta["uid"]
        template = spec.get("template") or NOTHING
        about = template.get("metadata") or NOTHING
        labels = {"job-name": meta.get("name", ""), "controller-uid": uid, **(about.get("labels") or NOTHING)}
        selector = spec.get("selector") or NOTHING
        if "controller-uid" not in (selector.get("matchLabels") or NOTHING):
            selector = {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or NOTHING), "controller-uid": uid},
            }
        template = {**template, "metadata": {**about, "labels": labels}}
        spec = {**spec, "selector": selector, "template": template}
    own = meta.get("labels")
    if not own or own is given:
        # Quirk: labels that defaulting took from the template are the same object, so generated
        # labels appear in both.
        own = ((spec.get("template") or NOTHING).get("metadata") or NOTHING).get("labels")
    return with_metadata({**obj, "spec": spec}, labels=own)


_GENERATED = {"controller-uid", "job-name"}


def _has_labels_by_read(obj: Obj) -> bool:
    """True if a new Job got its labels by defaulting, from a template with generated labels alone."""
    labels, spec = obj["metadata"].get("labels") or NOTHING, obj["spec"]
    generated = labels.keys() == _GENERATED and not spec.get("manualSelector")
    return generated and labels == spec["template"]["metadata"]["labels"]


def _mark_tracked(new: Obj, old: Obj, names: Names, gates: Collection[str]) -> Obj:
    """A new Job with the annotation that says that a finalizer tracks its pods; without it while
    that feature is off, unless the stored Job has it.
    """
    annotations, key = new["metadata"].get("annotations") or NOTHING, names.annotation_job_tracking
    if is_on(gates, JOB_TRACKING):
        return new if old else with_metadata(new, annotations={**annotations, key: ""})
    if key not in annotations or (old and tracking_marks(old)):
        return new
    kept = {k: v for k, v in annotations.items() if k != key}
    return with_metadata(new, annotations=kept) if kept else remove_in(new, ("metadata", "annotations"))


def _gated_rules(gates: Collection[str]) -> tuple[Create, Mapping[str, Update]]:
    reschedules = is_on(gates, JOB_SCHEDULING)
    return create_job, {"": partial(update_job, reschedules=reschedules), "status": status_job}


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    parallelism, succeeded = spec.get("parallelism", 0), status.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    else:
        completions = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    duration = ""
    if status.get("startTime"):
        end = status.get("completionTime")
        duration = human_duration((parse_time(end) if end else now_us) - parse_time(status["startTime"]))
    selector = format_selector(spec.get("selector"))
    return [name_of(obj), completions, duration, age(obj, now_us), *template_cells(spec), selector]


# registry/batch/job/storage/storage.go: Delete.
_ORPHANED_PODS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)

KIND = Kind(
    rows=(Row("batch", "v1", "jobs", "Job", categories=("all",), subs=(STATUS,)),),
    deletion=Deletion(warning=_ORPHANED_PODS),
    strategy=Strategy(
        status=True,
        generation="spec",
        default_propagation="Orphan",
        prepare_create=_prepare_create,
        completed_by_read=_has_labels_by_read,
    ),
    defaults=job(fill_template),
    validate_create=create_job,
    validate_update={"": update_job, "status": status_job},
    pod_spec=("spec", "template", "spec"),
    drop_disabled=_mark_tracked,
    gated_rules=_gated_rules,
    gated_fields=(GatedField(FAILURE_POLICY, ("spec", "podFailurePolicy")),),
    columns=(NAME, "Completions=status.succeeded", "Duration", AGE, *WIDE, SELECTOR),
    cells=_cells,
    client_warnings=partial(template_warnings, path=("spec", "template")),
)
