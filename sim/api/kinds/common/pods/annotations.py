"""Validation of the annotations that have a meaning for pods, and of what they say beside fields.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidatePodSpecificAnnotations and
         its updates, validateSeccompAnnotationsAndFields; pkg/registry/core/pod/strategy.go:
         applySeccompVersionSkew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sim.api.kinds.common.pods.affinity import tolerations
from sim.api.objects import with_field
from sim.api.schema.field_validation import go_kind
from sim.api.schema.json_text import go_quote, parse
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, forbidden, invalid
from sim.ident import NAMES, Names
from sim.units import parse_whole

MIRROR = tuple(names.annotation_mirror_pod for names in NAMES.values())
_DELETION_COST = tuple(names.annotation_pod_deletion_cost for names in NAMES.values())
_TOLERATIONS = tuple(f"scheduler.alpha.{names.domain}/tolerations" for names in NAMES.values())
_SECCOMP_POD = tuple(names.annotation_seccomp_pod for names in NAMES.values())
_SECCOMP_CONTAINER = tuple(names.annotation_seccomp_container_prefix for names in NAMES.values())
_APP_ARMOR = tuple(names.annotation_apparmor_prefix for names in NAMES.values())
_KINDS = ("initContainers", "containers", "ephemeralContainers")
_DEFAULT_PROFILES = ("runtime/default", "docker/default")
_LOCAL = "localhost/"
_TOLERATION_FIELDS = ("key", "operator", "value", "effect", "tolerationSeconds")


def annotation_errors(metadata: Obj, spec: Obj, field: str) -> Errors:
    """Errors of the annotations that have a meaning for pods."""
    given = metadata.get("annotations")
    if not given:
        return []
    errors: Errors = []
    for key in MIRROR:
        if key in given and not spec.get("nodeName"):
            detail = "must set spec.nodeName if mirror pod annotation is set"
            errors.append(invalid(f"{field}[{key}]", given[key], detail))
    for key in _TOLERATIONS:
        if given.get(key):
            errors += _toleration_errors(key, given[key], field)
    for key in _DELETION_COST:
        if key in given and not _is_int32(given[key]):
            errors.append(invalid(f"{field}[{key}]", given[key], "must be a 32bit integer"))
    for key, profile in given.items():
        if key in _SECCOMP_POD or key.startswith(_SECCOMP_CONTAINER):
            errors += _seccomp_errors(profile, f"{field}.{key}")
    for key, profile in given.items():
        if key.startswith(_APP_ARMOR):
            errors += _app_armor_errors(key, profile, spec, field)
    return errors


def _is_int32(value: str) -> bool:
    # ParseInt, and neither a plus sign nor a leading zero.
    return re.fullmatch(r"0|-?[1-9][0-9]*", value) is not None and parse_whole(value, 32) is not None


def _toleration_errors(key: str, written: str, field: str) -> Errors:
    """Errors of tolerations that an annotation holds as a JSON text."""
    try:
        listed = parse(written)
    except ValueError as error:
        return [invalid(field, key, str(error))]
    if listed is None:
        return []
    if not isinstance(listed, list):
        wrong, wanted = [listed], "[]core.Toleration"
    else:
        wrong, wanted = [each for each in listed if not isinstance(each, dict | None)], "core.Toleration"
    if wrong:
        kind = go_kind(wrong[0])
        return [invalid(field, key, f"json: cannot unmarshal {kind} into Go value of type {wanted}")]
    return tolerations([_toleration(item or {}) for item in listed], f"{field}.{key}")


def _toleration(item: Obj) -> Obj:
    """The toleration of an item with field names in letters of any case."""
    given = {name.lower(): value for name, value in item.items()}
    found = {name: given.get(name.lower()) for name in _TOLERATION_FIELDS}
    return {name: value for name, value in found.items() if value is not None}


# --- seccomp --------------------------------------------------------------------------------------


def _seccomp_errors(profile: str, field: str) -> Errors:
    if profile in _DEFAULT_PROFILES or profile == "unconfined":
        return []
    if profile.startswith(_LOCAL):
        path = profile.removeprefix(_LOCAL)
        return checked(field, path, text.relative_path)
    return [invalid(field, profile, "must be a valid seccomp profile")]


def _profiles(annotations: Obj, spec: Obj, field: str) -> Iterator[tuple[str, Obj | None, str]]:
    """Each annotation about seccomp with the field of the same meaning, and its path."""
    for key in _SECCOMP_POD:
        if key in annotations:
            yield annotations[key], _profile_of(spec), f"{field}.securityContext.seccompProfile"
    for kind in _KINDS:
        for i, container in enumerate(spec.get(kind) or ()):
            for prefix in _SECCOMP_CONTAINER:
                written = annotations.get(prefix + container.get("name", ""))
                if written is not None:
                    at = f"{field}.{kind}[{i}].securityContext.seccompProfile"
                    yield written, _profile_of(container), at


def _profile_of(holder: Obj) -> Obj | None:
    profile: Obj | None = (holder.get("securityContext") or {}).get("seccompProfile")
    return profile


def seccomp_mismatches(metadata: Obj, spec: Obj, field: str) -> Errors:
    """Errors of annotations about seccomp that differ from the fields of the same meaning."""
    annotations = metadata.get("annotations")
    if not annotations:
        return []
    errors: Errors = []
    for written, profile, at in _profiles(annotations, spec, field):
        if profile is None:
            continue
        kind = profile.get("type")
        same = {
            "Unconfined": written == "unconfined",
            "RuntimeDefault": written in _DEFAULT_PROFILES,
            "Localhost": written.startswith(_LOCAL),
        }.get(kind or "", True)
        if not same:
            errors.append(forbidden(f"{at}.type", "seccomp type in annotation and field must match"))
        elif kind == "Localhost" and profile.get("localhostProfile") != written.removeprefix(_LOCAL):
            detail = "seccomp profile in annotation and field must match"
            errors.append(forbidden(f"{at}.localhostProfile", detail))
    return errors


def with_seccomp_fields(pod: Obj, names: Names) -> Obj:
    """The new pod with the fields that its annotations about seccomp stand for."""
    annotations = (pod.get("metadata") or {}).get("annotations")
    if not annotations:
        return pod
    spec = pod.get("spec") or {}
    made = _with_profile(spec, annotations.get(names.annotation_seccomp_pod))
    for kind in _KINDS:
        listed = spec.get(kind) or ()
        prefix = names.annotation_seccomp_container_prefix
        changed = [_with_profile(each, annotations.get(prefix + each.get("name", ""))) for each in listed]
        if any(new is not old for new, old in zip(changed, listed, strict=True)):
            made = {**made, kind: changed}
    return pod if made is spec else {**pod, "spec": made}


def _with_profile(holder: Obj, written: str | None) -> Obj:
    if written is None or _profile_of(holder) is not None:
        return holder
    if written == "unconfined":
        profile = {"type": "Unconfined"}
    elif written in _DEFAULT_PROFILES:
        profile = {"type": "RuntimeDefault"}
    elif written.startswith(_LOCAL) and written != _LOCAL:
        profile = {"type": "Localhost", "localhostProfile": written.removeprefix(_LOCAL)}
    else:
        return holder
    security = {**(holder.get("securityContext") or {}), "seccompProfile": profile}
    return with_field(holder, "securityContext", security)


# --- AppArmor and updates -------------------------------------------------------------------------


def _app_armor_errors(key: str, profile: str, spec: Obj, field: str) -> Errors:
    container = next(key.removeprefix(prefix) for prefix in _APP_ARMOR if key.startswith(prefix))
    errors: Errors = []
    if not any(each.get("name") == container for kind in _KINDS for each in spec.get(kind) or ()):
        errors.append(invalid(f"{field}[{key}]", container, "container not found"))
    if profile and profile not in ("runtime/default", "unconfined") and not profile.startswith(_LOCAL):
        detail = f"invalid AppArmor profile name: {go_quote(profile)}"
        errors.append(invalid(f"{field}[{key}]", profile, detail))
    return errors


def annotation_changes(new: Obj, old: Obj, spec: Obj) -> Errors:
    """Errors of changed AppArmor profiles and mirror pod annotations, and those of the new ones.

    new, old: metadata of the pod; spec: the new one
    """
    after, before = new.get("annotations") or {}, old.get("annotations") or {}
    errors: Errors = []
    for key, value in before.items():
        at = f"metadata.annotations[{key}]"
        if after.get(key) == value:
            continue
        if key.startswith(_APP_ARMOR):
            errors.append(forbidden(at, "may not remove or update AppArmor annotations"))
        if key in MIRROR:
            errors.append(forbidden(at, "may not remove or update mirror pod annotation"))
    for key in after:
        at = f"metadata.annotations[{key}]"
        if key in before:
            continue
        if key.startswith(_APP_ARMOR):
            errors.append(forbidden(at, "may not add AppArmor annotations"))
        if key in MIRROR:
            errors.append(forbidden(at, "may not add mirror pod annotation"))
    return errors + annotation_errors(new, spec, "metadata.annotations")
