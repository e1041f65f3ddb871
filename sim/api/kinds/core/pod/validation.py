"""Validation of pods.

Holds: a spec that was found valid is known by identity, because the pods of a template share it.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidatePodCreate,
         ValidatePodUpdate, ValidatePodStatusUpdate, ValidatePodEphemeralContainersUpdate.
"""

from __future__ import annotations

from typing import Any

from sim.api.go.differences import difference
from sim.api.go.printing import GoValue
from sim.api.kinds.common.pods.affinity import tolerations
from sim.api.kinds.common.pods.annotations import annotation_changes, annotation_errors, seccomp_mismatches
from sim.api.kinds.common.pods.containers import image_space
from sim.api.kinds.common.pods.spec import pod_spec
from sim.api.memo import IdentityMemo
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    INTERNAL,
    Errors,
    FieldError,
    checked,
    duplicate,
    forbidden,
    invalid,
    required,
)
from sim.api.validation.metadata import object_meta, object_meta_update

_UPDATE_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`,"
    " `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations) or"
    " `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_FREE = ("activeDeadlineSeconds", "tolerations")  # fields with rules of their own


# --- create ---------------------------------------------------------------------------------------

_sound: IdentityMemo[bool] = IdentityMemo()


def validate_pod_create(obj: Obj) -> Errors:
    """Errors of a new pod."""
    spec = obj.get("spec") or {}
    if _sound.get(spec):
        metadata = obj["metadata"]
        errors = object_meta(metadata, True, text.subdomain)
        errors += annotation_errors(metadata, spec, "metadata.annotations")
        return errors + seccomp_mismatches(metadata, spec, "spec")
    errors = _whole(obj, spec)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    errors += seccomp_mismatches(obj["metadata"], spec, "spec")
    if not errors and not any("ephemeral" in volume for volume in spec.get("volumes") or ()):
        _sound.put(True, spec)  # it is valid for every name of the pod
    return errors


def _whole(obj: Obj, spec: Obj) -> Errors:
    metadata = obj["metadata"]
    errors = object_meta(metadata, True, text.subdomain)
    errors += annotation_errors(metadata, spec, "metadata.annotations")
    errors += pod_spec(spec, "spec")
    return errors + _pod_only(spec) + _claims(metadata, spec)


def _claims(metadata: Obj, spec: Obj) -> Errors:
    """Errors of volumes that mount the claim of an ephemeral volume, which is named after the
    pod.
    """
    given = spec.get("volumes") or ()
    made = [f"{metadata.get('name', '')}-{v.get('name', '')}" for v in given if "ephemeral" in v]
    if not made:
        return []
    detail = "must not reference a PVC that gets created for an ephemeral volume"
    return [
        invalid(f"spec.volumes[{i}].persistentVolumeClaim.claimName", name, detail)
        for i, volume in enumerate(given)
        if (name := (volume.get("persistentVolumeClaim") or {}).get("claimName")) in made
    ]


_only: IdentityMemo[tuple[Errors]] = IdentityMemo()


def _pod_only(spec: Obj) -> Errors:
    """Errors by rules that hold for pods but not for templates."""
    known = _only.get(spec)
    if known is None:
        known = _only.put((_find_pod_only(spec),), spec)
    return known[0]


def _find_pod_only(spec: Obj) -> Errors:
    errors: Errors = []
    if not spec.get("serviceAccountName"):
        for i, volume in enumerate(spec.get("volumes") or ()):
            for j, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if "serviceAccountToken" in source:
                    at = f"spec.volumes[{i}].projected.sources[{j}].serviceAccountToken"
                    detail = "must not be specified when serviceAccountName is not set"
                    errors.append(forbidden(at, detail))
    for kind in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            errors += image_space(container.get("image", ""), f"spec.{kind}[{i}].image")
    return errors


# --- update ---------------------------------------------------------------------------------------


def _images(given: Any, field: str) -> Errors:
    """Errors of images, the one part of a container that an update may change."""
    errors: Errors = []
    for i, container in enumerate(given):
        image, at = container.get("image", ""), f"{field}[{i}].image"
        errors += image_space(image, at) if image else [required(at)]
    return errors


def validate_pod_update(new: Obj, old: Obj) -> Errors:
    """Errors of a changed pod."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec is before and new["metadata"] is old["metadata"]:
        return errors
    errors += _whole(new, spec) + annotation_changes(new["metadata"], old["metadata"], spec)
    if spec is before:
        return errors
    return errors + _spec_update(spec, before)


def _spec_update(spec: Obj, before: Obj) -> Errors:
    errors: Errors = []
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind) or ()) != len(before.get(kind) or ()):
            errors.append(forbidden(f"spec.{kind}", "pod updates may not add or remove containers"))
            return errors
        errors += _images(spec.get(kind) or (), f"spec.{kind}")
    deadline = spec.get("activeDeadlineSeconds")
    wrong = _deadline_update(deadline, before.get("activeDeadlineSeconds"))
    if wrong and deadline is not None:
        return errors + wrong
    errors += wrong
    errors += _tolerations_update(spec.get("tolerations") or [], before.get("tolerations") or [])
    kept = _fixed(before, before)
    if (now := _fixed(spec, before)) != kept:
        free = {key: before[key] for key in _FREE if key in before}
        changes = difference("core.PodSpec", before, {**now, **free})
        errors.append(forbidden("spec", _UPDATE_FORBIDDEN + changes))
    return errors


def _deadline_update(new: Any, old: Any) -> Errors:
    field = "spec.activeDeadlineSeconds"
    if new is not None:
        if not 0 <= new <= 2147483647:
            return [invalid(field, new, "must be between 0 and 2147483647, inclusive")]
        if old is not None and new > old:
            return [invalid(field, new, "must be less than or equal to previous value")]
        return []
    return (
        [] if old is None else [invalid(field, None, "must not update from a positive integer to nil value")]
    )


def _tolerations_update(new: list[Obj], old: list[Obj]) -> Errors:
    """Errors of removed tolerations; their seconds may change, and new ones may be added."""
    field = "spec.tolerations"

    def rest(toleration: Obj) -> Obj:
        return {k: v for k, v in toleration.items() if k != "tolerationSeconds"}

    left = [rest(t) for t in new]
    for toleration in old:
        if rest(toleration) not in left:
            return [forbidden(field, "existing toleration can not be modified except its tolerationSeconds")]
    return tolerations(new, field)


def _fixed(spec: Obj, before: Obj) -> Obj:
    """The spec without what an update may change, and with the images of `before`.

    Upstream collects the containers in new lists, so that an empty list becomes none.
    """
    out = {k: v for k, v in spec.items() if k not in _FREE}
    for kind in ("containers", "initContainers"):
        given = zip(out.pop(kind, None) or (), before.get(kind) or (), strict=False)
        if containers := [{**c, "image": b.get("image")} for c, b in given]:
            out[kind] = containers
    grace = before.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        out["terminationGracePeriodSeconds"] = grace
    return out


def validate_ephemeral(new: Obj, old: Obj) -> Errors:
    """Errors of a write to /ephemeralcontainers, which may only add containers."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += _whole(new, spec) + annotation_changes(new["metadata"], old["metadata"], spec)
    now = {c.get("name"): c for c in spec.get("ephemeralContainers") or ()}
    field = "spec.ephemeralContainers"
    for container in before.get("ephemeralContainers") or ():
        name = container.get("name")
        if name not in now:
            errors.append(forbidden(field, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif now[name] != container:
            changes = difference("core.EphemeralContainer", container, now[name])
            detail = f'existing ephemeral containers "{name}" may not be changed\n{changes}'
            errors.append(forbidden(field, detail))
    return errors


# --- status ---------------------------------------------------------------------------------------


_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")


def validate_pod_status(new: Obj, old: Obj) -> Errors:
    """Errors of a write to /status of a pod."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if new["metadata"] is not old["metadata"]:
        errors += annotation_changes(new["metadata"], old["metadata"], spec)
    status, was = new.get("status") or {}, old.get("status") or {}
    if status.get("conditions") is not was.get("conditions"):
        for i, condition in enumerate(status.get("conditions") or ()):
            # Quirk: the path is one of the metadata.
            kind, at = condition.get("type", ""), f"metadata.conditions[{i}].Type"
            if kind not in _SYSTEM_CONDITIONS:
                errors += checked(at, kind, text.qualified_name)
    if spec.get("nodeName") != before.get("nodeName"):
        errors.append(forbidden("status.nodeName", "may not be changed directly"))
    if status is was:
        return errors
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != was.get("nominatedNodeName"):
        errors += checked("status.nominatedNodeName", nominated, text.subdomain)
    policy = before.get("restartPolicy")
    for kind, field_policy in (
        ("containerStatuses", policy),
        ("initContainerStatuses", policy),
        ("ephemeralContainerStatuses", "Never"),
    ):
        if status.get(kind) is not was.get(kind):
            errors += _transitions(status.get(kind), was.get(kind), f"status.{kind}", field_policy)
    if status.get("podIPs") is not was.get("podIPs"):
        errors += _pod_ips(status.get("podIPs"), "status.podIPs")
    return errors


def _transitions(new: Any, old: Any, field: str, policy: Any) -> Errors:
    """Errors of containers that run again although they ended for good."""
    if policy == "Always" or not old:
        return []
    errors: Errors = []
    for i, before in enumerate(old):
        ended = (before.get("state") or {}).get("terminated")
        if not ended or (policy == "OnFailure" and ended.get("exitCode")):
            continue
        for after in new or ():
            if after.get("name") == before.get("name") and not (after.get("state") or {}).get("terminated"):
                detail = "may not be transitioned to non-terminated state"
                errors.append(forbidden(f"{field}[{i}].state", detail))
    return errors


def _pod_ips(given: Any, field: str) -> Errors:
    errors: Errors = []
    addresses = [item.get("ip", "") for item in given or ()]
    for i, address in enumerate(addresses):
        errors += checked(f"{field}[{i}]", address, text.ip)
    if len(addresses) < 2:
        return errors
    unread = [address for address in addresses if text.ip(address)]
    if unread:
        detail = "failed to check for dual stack with error:ip <nil> is invalid"
        errors.append(FieldError(field, INTERNAL, detail))
    families = [":" in address for address in addresses]
    if len(addresses) > 2 or families[0] == families[1] or unread:
        shown = GoValue("[]core.PodIP", given)
        errors.append(invalid(field, shown, "may specify no more than one IP for each IP family"))
    for i, address in enumerate(addresses):
        if address in addresses[:i]:
            errors.append(duplicate(f"{field}[{i}]", GoValue("core.PodIP", {"ip": address})))
    return errors
