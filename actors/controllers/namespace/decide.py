"""Decisions of the namespace controller: what remains, how long it may take, conditions.  Pure.

Turns the objects that remain after a deletion into an estimate of the time until they are gone,
and into the conditions of the namespace.

Mirrors  kubernetes v1.25 pkg/controller/namespace/deletion/{namespaced_resources_deleter,
         status_condition_utils}.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from sim.api.aggregation.availability import is_available
from sim.api.aggregation.delegation import delegated_of, discovery_failure
from sim.api.objects import is_terminal
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.units import SECOND, parse_time

FINALIZER_ESTIMATE_S = 15  # finalizerEstimateSeconds


@dataclass(frozen=True, slots=True)
class Leftover:
    """What remains of one resource after its deletion.

    count: number of objects
    finalizers: finalizer -> number of objects with it
    estimate_s: seconds until the objects may be gone, 0 if unknown
    error: text of a failed request, or of objects that remain for no reason; "" if none
    """

    resource: str  # "pods." as messages name it: "<plural>.<group>"
    count: int = 0
    finalizers: Mapping[str, int] = field(default_factory=dict)
    estimate_s: int = 0
    error: str = ""


def pods_estimate_s(pods: Sequence[Obj], deleted_at: str, now_us: int) -> int:
    """The longest grace period of the running pods; 0 after that time since the deletion."""
    graces = [pod["spec"].get("terminationGracePeriodSeconds") or 0 for pod in pods if not is_terminal(pod)]
    longest: int = max(graces, default=0)
    return 0 if now_us - parse_time(deleted_at) >= longest * SECOND else longest


def leftover(resource: str, items: Sequence[Obj], estimate_s: int, namespace: str, gvr: str) -> Leftover:
    """The leftover of a resource, from the objects found after its deletion."""
    if not items:
        return Leftover(resource)
    finalizers: dict[str, int] = {}
    for item in items:
        for finalizer in item["metadata"].get("finalizers") or ():
            finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
    if estimate_s:
        return Leftover(resource, len(items), finalizers, estimate_s)
    if finalizers:
        return Leftover(resource, len(items), finalizers, FINALIZER_ESTIMATE_S)
    text = f"unexpected items still remain in namespace: {namespace} for gvr: {gvr}"
    return Leftover(resource, len(items), error=text)


def unavailable_groups(api_services: Sequence[Obj]) -> list[str]:
    """The group versions that discovery cannot read, since another server fails to answer them."""
    found = [delegated_of(obj) for obj in api_services]
    return [each.group_version for each in found if each is not None and not is_available(each.obj)]


def conditions_of(left: Sequence[Leftover], failing: Sequence[str] = ()) -> list[tuple[str, str, str, str]]:
    """The five conditions (type, status, reason, message) that follow from all leftovers.

    failing: the group versions that discovery cannot read
    """
    errors = [entry.error for entry in left if entry.error]
    counts = sorted(f"{e.resource} has {e.count} resource instances" for e in left if e.count)
    finalizers: dict[str, int] = {}
    for entry in left:
        for name, count in entry.finalizers.items():
            finalizers[name] = finalizers.get(name, 0) + count
    holding = sorted(f"{name} in {count} resource instances" for name, count in finalizers.items())
    return [
        (
            "NamespaceDeletionDiscoveryFailure",
            "True",
            "DiscoveryFailed",
            f"Discovery failed for some groups, {len(failing)} failing: {discovery_failure(failing)}",
        )
        if failing
        else (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "True",
            "ContentDeletionFailed",
            f"Failed to delete all resource types, {len(errors)} remaining: {', '.join(sorted(errors))}",
        )
        if errors
        else (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            f"Some resources are remaining: {', '.join(counts)}",
        )
        if counts
        else ("NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed"),
        (
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {', '.join(holding)}",
        )
        if holding
        else (
            "NamespaceFinalizersRemaining",
            "False",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ]


def with_conditions(namespace: Obj, wanted: Sequence[tuple[str, str, str, str]], now: str) -> Obj | None:
    """The namespace with these conditions; None if nothing changes.

    The transition time changes only with the status of a condition.
    """
    old = {c["type"]: c for c in namespace.get("status", {}).get("conditions") or ()}
    new = dict(old)
    for kind, status, reason, message in wanted:
        have = old.get(kind)
        stored = None if have is None else (have["status"], have.get("reason", ""), have.get("message", ""))
        if stored != (status, reason, message):
            new[kind] = {
                "type": kind,
                "status": status,
                "lastTransitionTime": have.get("lastTransitionTime")
                if have is not None and have["status"] == status
                else now,
                "reason": reason,
                "message": message,
            }
    if all(new[kind] is old.get(kind) for kind in new):
        return None
    return {**namespace, "status": {**namespace["status"], "conditions": list(new.values())}}
