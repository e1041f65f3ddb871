"""Validation of pod specs and pod templates.

Holds: a spec that was checked once is known by identity, because the pods of a template share it.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidatePodSpec,
         ValidatePodTemplateSpec.
"""

from __future__ import annotations

from sim.api.kinds.common.pods.affinity import affinity, spread_constraints, tolerations
from sim.api.kinds.common.pods.annotations import annotation_errors, seccomp_mismatches
from sim.api.kinds.common.pods.containers import (
    containers,
    ephemeral_containers,
    host_network_errors,
    init_containers,
    seccomp,
)
from sim.api.kinds.common.pods.volumes import volumes
from sim.api.kinds.common.pods.windows_options import (
    host_processes,
    only_linux_knows,
    only_windows_knows,
    windows_options,
)
from sim.api.kinds.common.resources import requirements
from sim.api.memo import IdentityMemo
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    Errors,
    among,
    checked,
    duplicate,
    forbidden,
    invalid,
    one_of,
    required,
    unsupported,
)
from sim.api.validation.metadata import annotation_map, labels
from sim.patterns import pattern

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")

_RESTART_POLICIES = ("Always", "OnFailure", "Never")

_SYSCTL = pattern(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")

_SYSCTL_MAX = 253

# MaxDNSNameservers, MaxDNSSearchPaths, MaxDNSSearchListChars of this release (legacy limits).
_NAMESERVERS_MAX, _SEARCHES_MAX, _SEARCH_CHARS_MAX = 3, 6, 256

_specs: dict[str, IdentityMemo[tuple[Errors]]] = {}


# --- specs ----------------------------------------------------------------------------------------


def pod_spec(spec: Obj, field: str) -> Errors:
    """Errors of a pod spec, in upstream's order."""
    memo = _specs.get(field)
    if memo is None:
        memo = _specs[field] = IdentityMemo()
    known = memo.get(spec)
    if known is None:
        known = memo.put((_pod_spec(spec, field),), spec)
    return known[0]


def _pod_spec(spec: Obj, field: str) -> Errors:
    known, errors = volumes(spec.get("volumes"), f"{field}.volumes")
    main = spec.get("containers")
    errors += containers(main, f"{field}.containers", known)
    errors += init_containers(spec.get("initContainers"), f"{field}.initContainers", main, known)
    errors += ephemeral_containers(
        spec.get("ephemeralContainers"), f"{field}.ephemeralContainers", spec, known
    )
    errors += one_of(f"{field}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    errors += one_of(f"{field}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    errors += labels(spec.get("nodeSelector"), f"{field}.nodeSelector")
    errors += _security(spec, field)
    errors += affinity(spec.get("affinity") or {}, f"{field}.affinity")
    errors += _dns(spec, field)
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        at, kind = f"{field}.readinessGates[{i}].conditionType", gate.get("conditionType", "")
        errors += checked(at, kind, text.qualified_name)
    errors += spread_constraints(spec.get("topologySpreadConstraints"), f"{field}.topologySpreadConstraints")
    errors += host_processes(spec, field)
    errors += _scalars(spec, field)
    overhead = spec.get("overhead")
    if overhead:
        errors += requirements({"limits": overhead}, f"{field}.overhead")
    return errors + _system(spec, field)


def _system(spec: Obj, field: str) -> Errors:
    """Errors of the operating system, and of fields that it does not know."""
    if spec.get("os") is None:
        return []
    system = spec["os"].get("name")
    if not system:
        return [required(f"{field}.os.name", "cannot be empty")]
    if system == "linux":
        return only_windows_knows(spec, field)
    if system == "windows":
        return only_linux_knows(spec, field)
    return [unsupported(f"{field}.os", system, ("linux", "windows"))]


def _scalars(spec: Obj, field: str) -> Errors:
    errors: Errors = []
    for key in ("serviceAccountName", "nodeName"):
        name = spec.get(key)
        errors += checked(f"{field}.{key}", name or None, text.subdomain)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= 2147483647:
        detail = "must be between 1 and 2147483647, inclusive"
        errors.append(invalid(f"{field}.activeDeadlineSeconds", seconds, detail))
    for key in ("hostname", "subdomain"):
        name = spec.get(key)
        errors += checked(f"{field}.{key}", name or None, text.label)
    errors += tolerations(spec.get("tolerations"), f"{field}.tolerations")
    for alias in spec.get("hostAliases") or ():
        address = alias.get("ip", "")
        if text.ip(address):
            errors.append(invalid(f"{field}.hostAliases.ip", address, "must be valid IP address"))
        for name in alias.get("hostnames") or ():
            errors += checked(f"{field}.hostAliases.hostnames", name, text.subdomain)
    name = spec.get("priorityClassName")
    errors += checked(f"{field}.priorityClassName", name or None, text.subdomain)
    name = spec.get("runtimeClassName")
    errors += checked(f"{field}.runtimeClassName", name, text.subdomain)
    policy = spec.get("preemptionPolicy")
    if policy is not None:
        errors += one_of(f"{field}.preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    return errors


def _security(spec: Obj, field: str) -> Errors:
    security = spec.get("securityContext") or {}
    errors: Errors = []
    at = f"{field}.securityContext"
    if spec.get("hostNetwork"):
        errors += host_network_errors(spec.get("containers"), f"{field}.containers")
    for key in ("fsGroup", "runAsUser", "runAsGroup"):
        errors += checked(f"{at}.{key}", security.get(key), text.user_id)
    for i, group in enumerate(security.get("supplementalGroups") or ()):
        errors += checked(f"{at}.supplementalGroups[{i}]", group, text.user_id)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{at}.shareProcessNamespace", True, detail))
    names: dict[str, None] = {}
    for i, sysctl in enumerate(security.get("sysctls") or ()):
        errors += _sysctl(sysctl.get("name", ""), f"{at}.sysctls[{i}].name", names)
    policy = security.get("fsGroupChangePolicy")
    errors += among(f"{at}.fsGroupChangePolicy", policy, ("Always", "OnRootMismatch"))
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
        return [required(f"{at}.nameservers", detail)]
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
        errors += checked(f"{at}.searches[{i}]", search.removesuffix("."), text.subdomain)
    for i, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required(f"{at}.options[{i}]", "must not be empty"))
    return errors


# --- templates ------------------------------------------------------------------------------------


def template(given: Obj, field: str) -> Errors:
    """Errors of a pod template: of labels, annotations and spec."""
    metadata, spec = given.get("metadata") or {}, given.get("spec") or {}
    errors = list(labels(metadata.get("labels"), f"{field}.labels"))
    errors += annotation_map(metadata.get("annotations"), f"{field}.annotations")
    errors += annotation_errors(metadata, spec, f"{field}.annotations")
    errors += pod_spec(spec, f"{field}.spec")
    errors += seccomp_mismatches(metadata, spec, f"{field}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{field}.spec.ephemeralContainers", detail))
    return errors
