"""Pods and pod templates: the whole spec, what an update may change, status.

Holds: a spec that was checked once under a path is known by identity: the pods of a template cost nothing more.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidatePodSpec, ValidatePodCreate,
         ValidatePodUpdate, ValidatePodStatusUpdate, ValidatePodTemplateSpec; pkg/registry/core/pod/strategy.go.
Differs  the Go diff that ends the message about forbidden changes is not written; no two releases agree on it.
"""

from __future__ import annotations

import re
from typing import Any

from sim.api.kinds.validation import text
from sim.api.kinds.validation.errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    one_of,
    required,
)
from sim.api.kinds.validation.meta import annotation_map, labels, object_meta, object_meta_update
from sim.api.kinds.validation.pods.affinity import affinity, spread_constraints, tolerations
from sim.api.kinds.validation.pods.containers import (
    containers,
    ephemeral_containers,
    init_containers,
    seccomp,
)
from sim.api.kinds.validation.pods.volumes import volumes
from sim.api.kinds.validation.pods.windows_options import host_processes, only_linux_knows, windows_options
from sim.api.memo import IdentityMemo
from sim.api.types import Obj
from sim.ident import NAMES
from sim.units import parse_whole

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SYSCTL_MAX = 253
# MaxDNSNameservers, MaxDNSSearchPaths, MaxDNSSearchListChars of this release (legacy limits).
_NAMESERVERS_MAX, _SEARCHES_MAX, _SEARCH_CHARS_MAX = 3, 6, 256
_UPDATE_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`,"
    " `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations) or"
    " `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_MIRROR = tuple(names.annotation_mirror_pod for names in NAMES.values())
_APP_ARMOR = tuple(f"container.apparmor.security.beta.{names.domain}/" for names in NAMES.values())
_DELETION_COST = tuple(names.annotation_pod_deletion_cost for names in NAMES.values())

_specs: dict[str, IdentityMemo[tuple[Errors]]] = {}


# --- the spec ---------------------------------------------------------------------------------------------


def pod_spec(spec: Obj, field: str) -> Errors:
    """Everything wrong with a spec, in upstream's order."""
    memo = _specs.get(field)
    if memo is None:
        memo = _specs[field] = IdentityMemo()
    known = memo.get(spec)
    if known is None:
        known = memo.put((_pod_spec(spec, field),), spec)
    return known[0]


def _pod_spec(spec: Obj, field: str) -> Errors:
    known, errors = volumes(spec.get("volumes"), f"{field}.volumes")
    main, host = spec.get("containers"), bool(spec.get("hostNetwork"))
    errors += containers(main, f"{field}.containers", known, host)
    errors += init_containers(spec.get("initContainers"), f"{field}.initContainers", main, known, host)
    errors += ephemeral_containers(
        spec.get("ephemeralContainers"), f"{field}.ephemeralContainers", spec, known
    )
    errors += one_of(f"{field}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    errors += one_of(f"{field}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    errors += labels(spec.get("nodeSelector"), f"{field}.nodeSelector")
    errors += _security(spec, field)
    for i, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            errors.append(required(f"{field}.imagePullSecrets[{i}].name"))
    errors += affinity(spec.get("affinity") or {}, f"{field}.affinity")
    errors += _dns(spec, field)
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        at, kind = f"{field}.readinessGates[{i}].conditionType", gate.get("conditionType", "")
        errors += [invalid(at, kind, problem) for problem in text.qualified_name(kind)]
    errors += spread_constraints(spec.get("topologySpreadConstraints"), f"{field}.topologySpreadConstraints")
    return errors + _scalars(spec, field)


def _scalars(spec: Obj, field: str) -> Errors:
    errors: Errors = []
    for key in ("serviceAccountName", "nodeName"):
        name = spec.get(key)
        if name:
            errors += [invalid(f"{field}.{key}", name, problem) for problem in text.subdomain(name)]
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= 2147483647:
        detail = "must be between 1 and 2147483647, inclusive"
        errors.append(invalid(f"{field}.activeDeadlineSeconds", seconds, detail))
    for key in ("hostname", "subdomain"):
        name = spec.get(key)
        if name:
            errors += [invalid(f"{field}.{key}", name, problem) for problem in text.label(name)]
    errors += tolerations(spec.get("tolerations"), f"{field}.tolerations")
    for alias in spec.get("hostAliases") or ():
        address = alias.get("ip", "")
        if text.ip(address):
            errors.append(invalid(f"{field}.hostAliases.ip", address, "must be valid IP address"))
        for name in alias.get("hostnames") or ():
            errors += [invalid(f"{field}.hostAliases.hostnames", name, p) for p in text.subdomain(name)]
    name = spec.get("priorityClassName")
    if name:
        errors += [invalid(f"{field}.priorityClassName", name, problem) for problem in text.subdomain(name)]
    name = spec.get("runtimeClassName")
    if name is not None:
        errors += [invalid(f"{field}.runtimeClassName", name, problem) for problem in text.subdomain(name)]
    policy = spec.get("preemptionPolicy")
    if policy is not None:
        errors += one_of(f"{field}.preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    system = (spec.get("os") or {}).get("name")
    if spec.get("os") is not None:
        errors += one_of(f"{field}.os.name", system, ("linux", "windows"))
    if system == "windows":
        errors += only_linux_knows(spec, field)
    return errors + host_processes(spec, field)


def _security(spec: Obj, field: str) -> Errors:
    security = spec.get("securityContext") or {}
    errors: Errors = []
    at = f"{field}.securityContext"
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{at}.shareProcessNamespace", True, detail))
    for key in ("fsGroup", "runAsUser", "runAsGroup"):
        value = security.get(key)
        if value is not None:
            errors += [invalid(f"{at}.{key}", value, problem) for problem in text.user_id(value)]
    for i, group in enumerate(security.get("supplementalGroups") or ()):
        errors += [invalid(f"{at}.supplementalGroups[{i}]", group, p) for p in text.user_id(group)]
    names: dict[str, None] = {}
    for i, sysctl in enumerate(security.get("sysctls") or ()):
        errors += _sysctl(sysctl.get("name", ""), f"{at}.sysctls[{i}].name", names)
    policy = security.get("fsGroupChangePolicy")
    if policy is not None:
        errors += one_of(f"{at}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch"))
    errors += seccomp(security.get("seccompProfile"), f"{at}.seccompProfile")
    return errors + windows_options(security, at)


def _sysctl(name: str, field: str, names: dict[str, None]) -> Errors:
    errors: Errors = []
    if not name:
        errors.append(required(field))
    elif len(name) > _SYSCTL_MAX or not _SYSCTL.fullmatch(name):
        detail = f"must have at most {_SYSCTL_MAX} characters and match regex ^{_SYSCTL.pattern}$"
        errors.append(invalid(field, name, detail))
    elif name in names:
        errors.append(duplicate(field, name))
    names[name] = None
    return errors


def _dns(spec: Obj, field: str) -> Errors:
    config, alone = spec.get("dnsConfig"), spec.get("dnsPolicy") == "None"
    at = f"{field}.dnsConfig"
    if config is None:
        return [required(at, "must provide `dnsConfig` when `dnsPolicy` is None")] if alone else []
    errors: Errors = []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if alone and not servers:
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        errors.append(required(f"{at}.nameservers", detail))
    if len(servers) > _NAMESERVERS_MAX:
        detail = f"must not have more than {_NAMESERVERS_MAX} nameservers"
        errors.append(invalid(f"{at}.nameservers", servers, detail))
    for i, server in enumerate(servers):
        if text.ip(server):
            errors.append(invalid(f"{at}.nameservers[{i}]", server, "must be valid IP address"))
    if len(searches) > _SEARCHES_MAX:
        detail = f"must not have more than {_SEARCHES_MAX} search paths"
        errors.append(invalid(f"{at}.searches", searches, detail))
    if len(" ".join(searches)) > _SEARCH_CHARS_MAX:
        detail = (
            f"must not have more than {_SEARCH_CHARS_MAX} characters (including spaces) in the search list"
        )
        errors.append(invalid(f"{at}.searches", searches, detail))
    for i, search in enumerate(searches):
        name = search.removesuffix(".")
        errors += [invalid(f"{at}.searches[{i}]", name, problem) for problem in text.subdomain(name)]
    for i, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required(f"{at}.options[{i}]", "must not be empty"))
    return errors


# --- templates --------------------------------------------------------------------------------------------


def template(given: Obj, field: str) -> Errors:
    """A pod template: its metadata's maps, its annotations, its spec."""
    metadata, spec = given.get("metadata") or {}, given.get("spec") or {}
    errors = list(labels(metadata.get("labels"), f"{field}.labels"))
    errors += annotation_map(metadata.get("annotations"), f"{field}.annotations")
    errors += _annotations(metadata, spec, f"{field}.annotations")
    errors += pod_spec(spec, f"{field}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{field}.spec.ephemeralContainers", detail))
    return errors


def _annotations(metadata: Obj, spec: Obj, field: str) -> Errors:
    given = metadata.get("annotations")
    if not given:
        return []
    errors: Errors = []
    for key in _MIRROR:
        if key in given and not spec.get("nodeName"):
            detail = "must set spec.nodeName if mirror pod annotation is set"
            errors.append(invalid(f"{field}[{key}]", given[key], detail))
    for key in _DELETION_COST:
        if key in given and not _is_int32(given[key]):
            errors.append(invalid(f"{field}[{key}]", given[key], "must be a 32bit integer"))
    return errors


def _is_int32(value: str) -> bool:
    # ParseInt, and no sign or zero in front of the number.
    return re.fullmatch(r"0|-?[1-9][0-9]*", value) is not None and parse_whole(value, 32) is not None


# --- pods -------------------------------------------------------------------------------------------------


_sound: IdentityMemo[bool] = IdentityMemo()


def create(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    if _sound.get(spec):
        metadata = obj["metadata"]
        errors = object_meta(metadata, True, text.subdomain)
        return errors + _annotations(metadata, spec, "metadata.annotations")
    errors = _whole(obj, spec)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if not errors and not any("ephemeral" in volume for volume in spec.get("volumes") or ()):
        _sound.put(True, spec)  # nothing in it is wrong whatever the pod's name is
    return errors


def _whole(obj: Obj, spec: Obj) -> Errors:
    metadata = obj["metadata"]
    errors = object_meta(metadata, True, text.subdomain)
    errors += _annotations(metadata, spec, "metadata.annotations")
    errors += pod_spec(spec, "spec")
    return errors + _pod_only(spec) + _claims(metadata, spec)


def _claims(metadata: Obj, spec: Obj) -> Errors:
    """A volume's own claim is named after the pod; no other volume may mount it."""
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
    """Rules of pods that templates don't know."""
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


def _images(given: Any, field: str) -> Errors:
    """Images once more: the one part of a container that an update may change."""
    errors: Errors = []
    for i, container in enumerate(given):
        image, at = container.get("image", ""), f"{field}[{i}].image"
        errors += _image_space(image, at) if image.strip() else [required(at)]
    return errors


def update(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec is before and new["metadata"] is old["metadata"]:
        return errors
    errors += _whole(new, spec) + _annotations_update(new["metadata"], old["metadata"])
    if spec is before:
        return errors
    return errors + _spec_update(spec, before)


def _annotations_update(new: Obj, old: Obj) -> Errors:
    """AppArmor profiles and the mark of a mirror pod stay as they were made."""
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
    for key in _MIRROR:
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
    """Old tolerations stay (their seconds may change); new ones may come."""
    field = "spec.tolerations"

    def rest(toleration: Obj) -> Obj:
        return {k: v for k, v in toleration.items() if k != "tolerationSeconds"}

    left = [rest(t) for t in new]
    for toleration in old:
        if rest(toleration) not in left:
            return [forbidden(field, "existing toleration can not be modified except its tolerationSeconds")]
    return tolerations(new, field)


def _fixed(spec: Obj, before: Obj) -> Obj:
    """A spec without what an update may change; images taken from `before`."""
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


def status_update(new: Obj, old: Obj) -> Errors:
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
    """A container that ended for good stays ended."""
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


def ephemeral_update(new: Obj, old: Obj) -> Errors:
    """Through the subresource: containers are added, never changed or taken away."""
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
