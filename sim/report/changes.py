"""What a commit changed, in the few words a story needs: phases, readiness, places, taints, leaders, replicas.

Turns `Change` values of the store into trace records of kind "change" (key, what, before, after), each caused
by the record of its write; a trace alone then tells what became of an object, without the objects.

Holds: a commit that changes nothing of note adds no record (heartbeats never do); what is recorded depends on
the objects only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sim.kernel import Kernel
from sim.machinery.scheme import Scheme
from sim.machinery.store import Change

Obj = dict[str, Any]
Field = tuple[str, Any, Any]  # what, before, after; None: not there
Store = Callable[[str, Callable[[Change], None]], Callable[[], None]]

WORKLOADS = ("deployments", "replicasets", "statefulsets", "replicationcontrollers")
NOTHING: Obj = {}


def pod_facts(pod: Obj) -> dict[str, Any]:
    meta, status = pod["metadata"], pod.get("status") or NOTHING
    containers = status.get("containerStatuses") or ()
    waiting = (((c.get("state") or NOTHING).get("waiting") or NOTHING).get("reason") for c in containers)
    return {
        "node": pod["spec"].get("nodeName"),
        "phase": status.get("phase"),
        "ready": condition(status, "Ready"),
        "reason": status.get("reason"),
        "waiting": next((reason for reason in waiting if reason), None),
        "restarts": sum(c.get("restartCount", 0) for c in containers) or None,
        "deleting": meta.get("deletionTimestamp"),
    }


def node_facts(node: Obj) -> dict[str, Any]:
    meta, spec, status = node["metadata"], node["spec"], node.get("status") or NOTHING
    taints = tuple(sorted(f"{taint['key']}:{taint['effect']}" for taint in spec.get("taints") or ()))
    pressures = tuple(
        c["type"] for c in status.get("conditions") or () if c["type"] != "Ready" and c["status"] == "True"
    )
    return {
        "ready": condition(status, "Ready"),
        "taints": taints or None,
        "pressures": pressures or None,
        "unschedulable": spec.get("unschedulable"),
        "deleting": meta.get("deletionTimestamp"),
    }


def lease_facts(lease: Obj) -> dict[str, Any]:
    return {"holder": (lease.get("spec") or NOTHING).get("holderIdentity")}


def workload_facts(workload: Obj) -> dict[str, Any]:
    return {
        "replicas": workload["spec"].get("replicas"),
        "deleting": workload["metadata"].get("deletionTimestamp"),
    }


def condition(status: Obj, name: str) -> str | None:
    for found in status.get("conditions") or ():
        if found["type"] == name:
            return str(found["status"])
    return None


def differences(facts: Callable[[Obj], dict[str, Any]], change: Change) -> Iterator[Field]:
    """What a commit changed of an object's facts; its removal is one too."""
    if change.deleted:
        yield "removed", None, True
        return
    old = change.prev.obj if change.prev is not None else None
    new = change.item.obj
    before = facts(old) if old is not None else NOTHING
    for what, after in facts(new).items():
        was = before.get(what)
        if was != after:
            yield what, was, after


class Chronicle:
    """Records the changes of note of one store.  `subscribe`: the store's."""

    def __init__(self, kernel: Kernel, scheme: Scheme, subscribe: Store) -> None:
        self._kernel = kernel
        self._kind = kernel.kind("change", "key", "what", "before", "after")
        self._watch(subscribe, scheme.resource("pods").prefix, pod_facts)
        self._watch(subscribe, scheme.resource("nodes").prefix, node_facts)
        for resource in WORKLOADS:
            self._watch(subscribe, scheme.resource(resource).prefix, workload_facts)
        # Only leaders' leases: those of nodes change by heartbeats.
        leases = f"{scheme.resource('leases').prefix}{scheme.names.system_namespace}/"
        self._watch(subscribe, leases, lease_facts)

    def _watch(self, subscribe: Store, prefix: str, facts: Callable[[Obj], dict[str, Any]]) -> None:
        trace, kernel, kind = self._kernel.trace, self._kernel, self._kind

        def see(change: Change) -> None:
            for what, before, after in differences(facts, change):
                trace.add(kind, kernel.now_us, change.cause, (change.item.key, what, before, after))

        subscribe(prefix, see)
