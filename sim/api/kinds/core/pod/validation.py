"""Validation of pods.

Holds: a spec that was found valid is known by identity, because the pods of a template share it.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidatePodCreate,
         ValidatePodUpdate, ValidatePodStatusUpdate, ValidatePodEphemeralContainersUpdate.
"""

from __future__ import annotations

from typing import Any

from sim.api.kinds.common import text
from sim.api.kinds.common.errors import Errors, forbidden, invalid, required
from sim.api.kinds.common.metadata import object_meta, object_meta_update
from sim.api.kinds.common.pods.affinity import tolerations
from sim.api.kinds.common.pods.spec import MIRROR, annotation_errors, pod_spec
from sim.api.memo import IdentityMemo
from sim.api.types import Obj
from sim.ident import NAMES

_UPDATE_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`,"
    " `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations) or"
    " `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)

_APP_ARMOR = tuple(f"container.apparmor.security.beta.{names.domain}/" for names in NAMES.values())


# --- create ---------------------------------------------------------------------------------------

_sound: IdentityMemo[bool] = IdentityMemo()


def validate_pod_create(obj: Obj) -> Errors:
    """Errors of a new pod."""
    spec = obj.get("spec") or {}
    if _sound.get(spec):
        metadata = obj["metadata"]
        errors = object_meta(metadata, True, text.subdomain)
        return errors + annotation_errors(metadata, spec, "metadata.annotations")
    errors = _whole(obj, spec)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
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
            errors += _image_space(container.get("image", ""), f"spec.{kind}[{i}].image")
    return errors


def _image_space(image: str, field: str) -> Errors:
    if image == image.strip():
        return []
    return [invalid(field, image, "must not have leading or trailing whitespace")]


# --- update ---------------------------------------------------------------------------------------


def _images(given: Any, field: str) -> Errors:
    """Errors of images, the one part of a container that an update may change."""
    errors: Errors = []
    for i, container in enumerate(given):
        image, at = container.get("image", ""), f"{field}[{i}].image"
        errors += _image_space(image, at) if image.strip() else [required(at)]
    return errors


def validate_pod_update(new: Obj, old: Obj) -> Errors:
    """Errors of a changed pod."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec is before and new["metadata"] is old["metadata"]:
        return errors
    errors += _whole(new, spec) + _annotations_update(new["metadata"], old["metadata"])
    if spec is before:
        return errors
    return errors + _spec_update(spec, before)


def _annotations_update(new: Obj, old: Obj) -> Errors:
    """Errors of changed AppArmor profiles and mirror pod annotations."""
    after, before = new.get("annotations") or {}, old.get("annotations") or {}
    if after is before:
        return []
    errors: Errors = []
    for key in (k for k in before if k.startswith(_APP_ARMOR)):
        if after.get(key) != before[key]:
            detail = "may not remove or update AppArmor annotations"
            errors.append(forbidden(f"metadata.annotations[{key}]", detail))
    for key in (k for k in after if k.startswith(_APP_ARMOR)):
        if key not in before:
            errors.append(forbidden(f"metadata.annotations[{key}]", "may not add AppArmor annotations"))
    for key in MIRROR:
        if after.get(key) == before.get(key):
            continue
        what = (
            "may not add mirror pod annotation"
            if key not in before
            else "may not remove or update mirror pod annotation"
        )
        errors.append(forbidden(f"metadata.annotations[{key}]", what))
    return errors


def _spec_update(spec: Obj, before: Obj) -> Errors:
    errors: Errors = []
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind) or ()) != len(before.get(kind) or ()):
            errors.append(forbidden(f"spec.{kind}", "pod updates may not add or remove containers"))
            return errors
        errors += _images(spec.get(kind) or (), f"spec.{kind}")
    errors += _deadline_update(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    errors += _tolerations_update(spec.get("tolerations") or [], before.get("tolerations") or [])
    if _fixed(spec, before) != _fixed(before, before):
        errors.append(forbidden("spec", _UPDATE_FORBIDDEN))
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
    """The spec without what an update may change, and with the images of `before`."""
    out = {k: v for k, v in spec.items() if k not in ("activeDeadlineSeconds", "tolerations")}
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            out[kind] = [
                {**c, "image": b.get("image")}
                for c, b in zip(spec[kind], before.get(kind) or (), strict=False)
            ]
    grace = before.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        out["terminationGracePeriodSeconds"] = grace
    return out


def validate_ephemeral(new: Obj, old: Obj) -> Errors:
    """Errors of a write to /ephemeralcontainers, which may only add containers."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += _whole(new, spec)
    now = {c.get("name"): c for c in spec.get("ephemeralContainers") or ()}
    field = "spec.ephemeralContainers"
    for container in before.get("ephemeralContainers") or ():
        name = container.get("name")
        if name not in now:
            errors.append(forbidden(field, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif now[name] != container:
            errors.append(forbidden(field, f'existing ephemeral containers "{name}" may not be changed\n'))
    return errors


# --- status ---------------------------------------------------------------------------------------


def validate_pod_status(new: Obj, old: Obj) -> Errors:
    """Errors of a write to /status of a pod."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec.get("nodeName") != before.get("nodeName"):
        errors.append(forbidden("status.nodeName", "may not be changed directly"))
    status, was = new.get("status") or {}, old.get("status") or {}
    if status is was:
        return errors
    nominated = status.get("nominatedNodeName")
    if nominated:
        errors += [invalid("status.nominatedNodeName", nominated, p) for p in text.subdomain(nominated)]
    policy = spec.get("restartPolicy")
    for kind, field_policy in (
        ("containerStatuses", policy),
        ("initContainerStatuses", "OnFailure" if policy == "Always" else policy),
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
        errors += [invalid(f"{field}[{i}]", address, problem) for problem in text.ip(address)]
    if len(addresses) > 1:
        families = [":" in address for address in addresses]
        if len(addresses) > 2 or families[0] == families[1]:
            detail = "may specify no more than one IP for each IP family"
            errors.append(invalid(field, addresses, detail))
    return errors
