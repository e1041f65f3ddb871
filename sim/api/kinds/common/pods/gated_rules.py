"""Errors of pod specs and templates that come, or go, with feature gates and cluster policy.

Turns the errors that a pod has with all gates at their defaults into those that it has with others.

Holds: what an update leaves as it was is allowed, as upstream's validation options allow it.

Mirrors  kubernetes v1.25 pkg/api/pod/util.go (GetValidationOptionsFromPodSpecAndMeta),
         pkg/apis/core/validation/validation.go (ValidateSecurityContext, validatePodDNSConfig,
         validateWindowsHostProcessPod, validateContainerResourceFieldSelector,
         ValidatePodSpecificAnnotations, ValidationOptionsForPersistentVolumeClaimTemplate).
Differs  some errors that a gate adds come after the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sim.api.kinds.common.claims import access_mode_errors
from sim.api.kinds.common.pods.gates import host_user_errors
from sim.api.kinds.common.pods.volumes import RESOURCES
from sim.api.kinds.common.pods.windows_options import is_host_process, visited_containers
from sim.api.objects import get_in
from sim.api.types import Obj
from sim.api.validation.errors import Errors, FieldError, forbidden, invalid, unsupported
from sim.options.features.gates import (
    DELETION_COST,
    EXPANDED_DNS,
    HOST_PROCESS,
    HUGE_PAGES,
    NO_PRIVILEGED,
    READ_WRITE_ONCE_POD,
    USER_NAMESPACES,
    is_on,
)
from sim.patterns import pattern

SEARCHES_MAX, SEARCH_CHARS_MAX = 32, 2048  # with ExpandedDNSConfig
CHANGE_RULES = frozenset(
    (
        DELETION_COST,
        EXPANDED_DNS,
        HOST_PROCESS,
        HUGE_PAGES,
        NO_PRIVILEGED,
        READ_WRITE_ONCE_POD,
        USER_NAMESPACES,
    )
)
_HUGE = ("limits.hugepages-", "requests.hugepages-")
_MODES_FIELD = pattern(r"\.volumes\[\d+\]\.ephemeral\.volumeClaimTemplate\.spec\.accessModes")
_CLOSED = f"not allowed when feature gate '{HOST_PROCESS}' is not enabled"
_CLOSED_POD = (
    f"pod must not contain Windows hostProcess containers when feature gate '{HOST_PROCESS}' is not enabled"
)


def gated_errors(errors: Errors, spec: Obj, before: Obj, field: str, gates: Collection[str]) -> Errors:
    """The errors of a pod, or of an object with a template, as the gates have them.

    errors: with all gates at their defaults; field: of the pod's spec
    before: the stored spec; {} if there is none
    """
    if not is_on(gates, DELETION_COST):
        errors = [each for each in errors if not _is_of_cost(each.field, field)]
    if EXPANDED_DNS in gates:
        errors = [each for each in errors if each.field != f"{field}.dnsConfig.searches"]
        errors += _search_errors(spec, f"{field}.dnsConfig.searches")
    if READ_WRITE_ONCE_POD in gates:
        errors = [each for each in errors if not _MODES_FIELD.search(each.field)]
        errors += _mode_errors(spec, field)
    if not is_on(gates, HUGE_PAGES) and not any(True for _ in _huge_references(before, "")):
        for reference, at in _huge_references(spec, field):
            error = unsupported(f"{at}.resource", reference["resource"], RESOURCES)
            errors = _before(errors, f"{at}.divisor", error)
    if not is_on(gates, HOST_PROCESS) and not any(True for _ in _host_fields(before, "")):
        closed = _host_process_errors(spec, field)
        errors = [each for each in errors if not closed or "hostProcess" not in each.detail] + closed
    if NO_PRIVILEGED in gates:
        errors = _with_privileged(errors, spec, field)
        if is_on(gates, HOST_PROCESS) and _has_host_process(spec):
            errors.append(forbidden(field, "hostProcess containers are disallowed by cluster policy"))
    if USER_NAMESPACES in gates:
        errors += host_user_errors(spec, field)
    return errors


def _is_of_cost(of: str, field: str) -> bool:
    template = field.removesuffix("spec")
    places = f"{template}metadata.annotations[", f"{template}annotations["
    return of.startswith(places) and of.endswith("/pod-deletion-cost]")


def _search_errors(spec: Obj, at: str) -> Errors:
    searches = get_in(spec, ("dnsConfig", "searches")) or []
    errors: Errors = []
    if len(searches) > SEARCHES_MAX:
        errors.append(invalid(at, searches, f"must not have more than {SEARCHES_MAX} search paths"))
    if len(" ".join(searches)) > SEARCH_CHARS_MAX:
        text = f"must not have more than {SEARCH_CHARS_MAX} characters (including spaces) in the search list"
        errors.append(invalid(at, searches, text))
    return errors


def _mode_errors(spec: Obj, field: str) -> Errors:
    errors: Errors = []
    for i, volume in enumerate(spec.get("volumes") or ()):
        claim = get_in(volume, ("ephemeral", "volumeClaimTemplate", "spec"))
        if claim is not None:
            at = f"{field}.volumes[{i}].ephemeral.volumeClaimTemplate.spec.accessModes"
            errors += access_mode_errors(claim.get("accessModes") or (), at, for_one_pod=True)
    return errors


# --- huge pages -----------------------------------------------------------------------------------


def _before(errors: Errors, field: str, error: FieldError) -> Errors:
    """The errors with another one, before the first of a field or of what is below it."""
    place = next((i for i, each in enumerate(errors) if each.field.startswith(field)), len(errors))
    return [*errors[:place], error, *errors[place:]]


def _huge_references(spec: Obj, field: str) -> Iterator[tuple[Obj, str]]:
    """References to huge pages of containers, with their places."""
    for i, volume in enumerate(spec.get("volumes") or ()):
        at = f"{field}.volumes[{i}]"
        yield from _huge_items(volume.get("downwardAPI"), f"{at}.downwardAPI")
        for j, source in enumerate(get_in(volume, ("projected", "sources")) or ()):
            yield from _huge_items(source.get("downwardAPI"), f"{at}.projected.sources[{j}].downwardAPI")
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            for j, variable in enumerate(container.get("env") or ()):
                source, at = variable.get("valueFrom"), f"{field}.{kind}[{i}].env[{j}].valueFrom"
                yield from _huge_one(source, at)


def _huge_items(source: Any, at: str) -> Iterator[tuple[Obj, str]]:
    for item in (source or {}).get("items") or ():
        yield from _huge_one(item, at)  # Quirk: the place does not say which item


def _huge_one(holder: Any, at: str) -> Iterator[tuple[Obj, str]]:
    reference = (holder or {}).get("resourceFieldRef")
    if reference is not None and reference.get("resource", "").startswith(_HUGE):
        yield reference, f"{at}.resourceFieldRef"


# --- Windows, and privileges ----------------------------------------------------------------------


def _host_fields(spec: Obj, field: str) -> Iterator[str]:
    """The places at which a spec says whether something is a host process."""
    for holder, at in ((spec, field), *visited_containers(spec, field)):
        if is_host_process(holder) is not None:
            yield f"{at}.securityContext.windowsOptions.hostProcess"


def _host_process_errors(spec: Obj, field: str) -> Errors:
    """What upstream says in place of the rules for host processes while their gate is off."""
    places = list(_host_fields(spec, field))
    if not places:
        return []
    if is_host_process(spec) is not None:
        return [forbidden(places[0], _CLOSED)]
    errors = [forbidden(at, _CLOSED) for at in places]
    return [*errors, forbidden(field, _CLOSED_POD)] if _has_host_process(spec) else errors


def _has_host_process(spec: Obj) -> bool:
    whole = is_host_process(spec)
    return any(
        whole if (own := is_host_process(each)) is None else own for each, _ in visited_containers(spec, "")
    )


def _with_privileged(errors: Errors, spec: Obj, field: str) -> Errors:
    """The errors with those of privileged containers, each the first of its security context."""
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            if (container.get("securityContext") or {}).get("privileged"):
                at = f"{field}.{kind}[{i}].securityContext"
                error = forbidden(f"{at}.privileged", "disallowed by cluster policy")
                errors = _before(errors, at, error)
    return errors
