"""Rules that the kinds with a selector and a pod template share.

Mirrors  kubernetes v1.25 pkg/apis/apps/{validation/validation,v1/defaults}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.api.go.printing import LABEL_SELECTOR, STRING_MAP, GoValue
from sim.api.kinds.common.fill import fill, within
from sim.api.kinds.common.pods.spec import template
from sim.api.schema.kind import Strategy
from sim.api.types import Obj
from sim.api.validation.errors import Errors, at_least_zero, forbidden, invalid, required, unsupported
from sim.api.validation.metadata import is_sound, label_selector, matches

WORKLOAD = Strategy(status=True, generation="spec")


# --- defaults -------------------------------------------------------------------------------------


def fill_rolling_update(spec: Obj, field: str, defaults: Mapping[str, Any]) -> Obj:
    """The spec with an update strategy, and with these defaults of a rolling update."""

    def amounts(rolling: Obj) -> Obj:
        # An empty text is a value of its own.
        missing = {k: v for k, v in defaults.items() if rolling.get(k) is None}
        return {**rolling, **missing} if missing else rolling

    def strategy(value: Obj) -> Obj:
        value = fill(value, {"type": "RollingUpdate"})
        if value["type"] != "RollingUpdate":
            return value
        return within(fill(value, {"rollingUpdate": {}}), "rollingUpdate", amounts)

    return within(fill(spec, {field: {}}), field, strategy)


# --- validation -----------------------------------------------------------------------------------

MISMATCH = "`selector` does not match template `labels`"


def spec_of(obj: Obj) -> Obj:
    """The spec of an object; {} if it is missing."""
    return obj.get("spec") or {}


def is_empty(selector: Obj) -> bool:
    """True if a selector selects everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selector_errors(spec: Obj, kind: str) -> Errors:
    """Errors of the selector of a workload."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = label_selector(selector, "spec.selector")
    if is_empty(selector):
        detail = f"empty selector is invalid for {kind}"
        errors.append(invalid("spec.selector", GoValue(LABEL_SELECTOR, selector), detail))
    return errors


def mismatch_errors(spec: Obj) -> Errors:
    """An error if the selector does not match the template.

    Quirk: an empty selector matches; a missing one does not.
    """
    selector = spec.get("selector")
    given = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if matches(selector, given):
        return []
    return [invalid("spec.template.metadata.labels", GoValue(STRING_MAP, given), MISMATCH)]


def always_running_errors(spec: Obj, kind: str) -> Errors:
    """Errors of a template with pods that do not restart for ever."""
    pod = (spec.get("template") or {}).get("spec") or {}
    errors: Errors = []
    policy = pod.get("restartPolicy", "")
    if policy != "Always":
        errors.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", detail))
    return errors


def read_only_disk_errors(spec: Obj, replicas: int) -> Errors:
    """Errors of disks that several pods would mount for writing."""
    if replicas <= 1:
        return []
    volumes = ((spec.get("template") or {}).get("spec") or {}).get("volumes") or ()
    detail = "must be true for replicated pods > 1; GCE PD can only be mounted on multiple machines if it is read-only"
    return [
        invalid(f"spec.template.spec.volumes[{i}].gcePersistentDisk.readOnly", False, detail)
        for i, volume in enumerate(volumes)
        if volume.get("gcePersistentDisk") and not volume["gcePersistentDisk"].get("readOnly")
    ]


def set_template_errors(spec: Obj) -> Errors:
    """Errors of the template of a ReplicaSet or Deployment."""
    if not is_sound(spec.get("selector")):
        return [invalid("spec.selector", GoValue(LABEL_SELECTOR, spec["selector"]), "invalid label selector")]
    errors = mismatch_errors(spec)
    errors += template(spec.get("template") or {}, "spec.template")
    return (
        errors
        + read_only_disk_errors(spec, spec.get("replicas") or 0)
        + always_running_errors(spec, "ReplicaSet")
    )


def counter_errors(status: Obj, keys: tuple[str, ...]) -> Errors:
    """An error for each negative counter of a status."""
    return [e for key in keys for e in at_least_zero(f"status.{key}", status.get(key))]


def bound_errors(status: Obj, keys: tuple[str, ...], by: str, detail: str) -> Errors:
    """An error for each counter of a status that exceeds the one named `by`."""
    bound = status.get(by, 0)
    return [
        invalid(f"status.{key}", status.get(key, 0), detail) for key in keys if status.get(key, 0) > bound
    ]


def collision_errors(status: Obj, was: Obj) -> Errors:
    """An error if the number of hash collisions decreases."""
    new, old = status.get("collisionCount"), was.get("collisionCount")
    if old is None or (new is not None and new >= old):
        return []
    shown = 0 if new is None else new
    return [invalid("status.collisionCount", shown, "cannot be decremented")]
