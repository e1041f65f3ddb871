"""Validation of Jobs.

Mirrors  kubernetes v1.25 pkg/apis/batch/validation/validation.go: ValidateJob and its updates,
         pkg/registry/batch/job/strategy.go (an update checks the spec twice: its causes appear
         twice).
"""

from __future__ import annotations

from typing import Any

from sim.api.go.printing import LABEL_SELECTOR, STRING_MAP, GoValue
from sim.api.kinds.batch.job.failure_policy import failure_policy
from sim.api.kinds.common.pods.spec import template
from sim.api.kinds.common.workloads import MISMATCH, spec_of
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    IMMUTABLE,
    Errors,
    among,
    at_least_zero,
    duplicate,
    forbidden,
    immutable,
    invalid,
    required,
    unsupported,
)
from sim.api.validation.metadata import is_sound, label_selector, matches, object_meta, object_meta_update
from sim.ident import NAMES

_TRACKING = tuple(names.annotation_job_tracking for names in NAMES.values())
INDEXED_PARALLELISM_MAX = 100_000  # maxParallelismForIndexedJob

_NUMBERS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")

_ENDING = 'valid values: "OnFailure", "Never"'

# Of the template, what may change while the Job is suspended and has never run.
_SCHEDULING = ("nodeSelector", "tolerations")


def tracking_marks(job: Obj) -> list[str]:
    """The annotations of a Job that say that a finalizer tracks its pods."""
    annotations = job["metadata"].get("annotations") or {}
    return [key for key in _TRACKING if key in annotations]


def work_errors(spec: Obj, field: str) -> Errors:
    """What a Job and a CronJob's template share."""
    errors = [e for name in _NUMBERS for e in at_least_zero(f"{field}.{name}", spec.get(name))]
    mode = spec.get("completionMode")
    errors += among(f"{field}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        if spec.get("completions") is None:
            errors.append(required(f"{field}.completions", "when completion mode is Indexed"))
        if (spec.get("parallelism") or 0) > INDEXED_PARALLELISM_MAX:
            detail = (
                f"must be less than or equal to {INDEXED_PARALLELISM_MAX} when completion mode is Indexed"
            )
            errors.append(invalid(f"{field}.parallelism", spec["parallelism"], detail))
    policed = spec.get("podFailurePolicy") is not None
    if policed:
        errors += failure_policy(spec, field)
    made = spec.get("template") or {}
    errors += template(made, f"{field}.template")
    policy = (made.get("spec") or {}).get("restartPolicy", "")
    at = f"{field}.template.spec.restartPolicy"
    if policy in ("", "Always"):
        errors.append(required(at, _ENDING))
    elif policy not in ("OnFailure", "Never"):
        errors.append(unsupported(at, policy, ("OnFailure", "Never")))
    elif policed and policy != "Never":
        errors.append(invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    return errors


def _labels_of(spec: Obj) -> Any:
    return ((spec.get("template") or {}).get("metadata") or {}).get("labels")


def _job_spec(spec: Obj) -> Errors:
    errors = work_errors(spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += label_selector(selector, "spec.selector")
    if is_sound(selector) and not matches(selector, _labels_of(spec)):
        errors.append(
            invalid("spec.template.metadata.labels", GoValue(STRING_MAP, _labels_of(spec)), MISMATCH)
        )
    return errors


def _generated(obj: Obj) -> Errors:
    """Errors of generated selectors and labels that were changed."""
    spec, meta = spec_of(obj), obj["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    given = _labels_of(spec) or {}
    wanted = {"controller-uid": meta.get("uid", ""), "job-name": meta.get("name", "")}
    errors: Errors = []
    for key, value in wanted.items():
        at = f"spec.template.metadata.labels[{key}]"
        if key not in given:
            errors.append(required(at, f"must be '{value}'"))
        elif given[key] != value:
            errors.append(invalid(at, GoValue(STRING_MAP, given), f"must be '{value}'"))
    if is_sound(spec["selector"]) and not matches(spec["selector"], wanted):
        errors.append(
            invalid(
                "spec.selector", GoValue(LABEL_SELECTOR, spec["selector"]), "`selector` not auto-generated"
            )
        )
    return errors


def create_job(obj: Obj, tracks: bool = True) -> Errors:
    """Errors of a new Job.  tracks: True if the annotation about tracked pods is allowed"""
    spec, name = spec_of(obj), obj["metadata"].get("name", "")
    errors = object_meta(obj["metadata"], True, text.subdomain) + _generated(obj) + _job_spec(spec)
    for key in () if tracks else tracking_marks(obj):
        errors.append(forbidden(f"metadata.annotations[{key}]", "cannot add this annotation"))
    count = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and count > 0:
        host = f"{name}-{count - 1}"
        if text.label(host):
            detail = f"will not able to create pod with invalid DNS label: {host}"
            errors.append(invalid("metadata.name", name, detail))
    return errors


def update_job(new: Obj, old: Obj, reschedules: bool = True) -> Errors:
    """Errors of a changed Job.  reschedules: True if JobMutableNodeSchedulingDirectives is on"""
    if new["metadata"] is old["metadata"] and spec_of(new) is spec_of(old):
        return []
    spec, before = spec_of(new), spec_of(old)
    tracks = bool(tracking_marks(old))
    errors = create_job(new, tracks) + object_meta_update(new["metadata"], old["metadata"]) + _job_spec(spec)
    for name in ("completions", "selector"):
        shown = GoValue(LABEL_SELECTOR, spec.get(name)) if name == "selector" else None
        errors += immutable(f"spec.{name}", spec.get(name), before.get(name), shown)
    fresh = reschedules and bool(before.get("suspend")) and not (old.get("status") or {}).get("startTime")
    now, was = spec.get("template") or {}, before.get("template") or {}
    if _fixed(now, fresh) != _fixed(was, fresh):
        errors.append(invalid("spec.template", GoValue("core.PodTemplateSpec", now), IMMUTABLE))
    errors += immutable("spec.completionMode", spec.get("completionMode"), before.get("completionMode"))
    policy = GoValue("*batch.PodFailurePolicy", spec.get("podFailurePolicy"))
    return errors + immutable(
        "spec.podFailurePolicy", spec.get("podFailurePolicy"), before.get("podFailurePolicy"), policy
    )


def _fixed(made: Obj, fresh: bool) -> Obj:
    """The part of a template that may not change."""
    if not fresh:
        return made
    spec = {k: v for k, v in (made.get("spec") or {}).items() if k not in _SCHEDULING}
    affinity = {k: v for k, v in (spec.pop("affinity", None) or {}).items() if k != "nodeAffinity"}
    given = made.get("metadata") or {}
    metadata = {k: v for k, v in given.items() if k not in ("labels", "annotations")}
    return {"metadata": metadata, "spec": {**spec, "affinity": affinity}}


def status_job(new: Obj, old: Obj) -> Errors:
    """Errors of a write to /status of a Job."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    status = new.get("status") or {}
    for name in ("active", "succeeded", "failed", "ready"):
        errors += at_least_zero(f"status.{name}", status.get(name))
    known: dict[str, None] = {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    for name in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(name) or ()):
            at = f"status.uncountedTerminatedPods.{name}[{index}]"
            if not uid:
                errors.append(invalid(at, uid, "must not be empty"))
            elif uid in known:
                errors.append(duplicate(at, uid))
            known[uid] = None
    return errors
