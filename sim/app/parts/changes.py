"""What a commit changed, in the few words a story needs: phases, readiness, places, taints,
leaders, replicas.

Turns `Change` values of the store into trace records of kind "change" (key, what, before, after),
each caused by the record of its write. A trace alone then shows the history of an object, without
the objects. Also records which writes deleted objects (`Standing.went`) and which write gave a node
its present state: not a status report without news (`Item.cause`).

Holds: a commit without a notable change adds no record (heartbeats never do); what is recorded
depends only on the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from operator import ne
from typing import Any

from sim.api.objects import condition_status, controller_of
from sim.api.scheme.scheme import Scheme
from sim.api.store import Change, HeartbeatItem
from sim.api.types import Obj
from sim.kernel import Kernel

Facts = tuple[Any, ...]  # values in the order of their names; None: not set
# Takes a key prefix, a listener, and whether the listener gets renewals too.
Store = Callable[[str, Callable[[Change], None], bool], Callable[[], None]]

FACTS_MAX = 16_384  # equal sets of facts kept for sharing
WORKLOADS = ("deployments", "replicasets", "statefulsets", "replicationcontrollers")
NOTHING: Obj = {}

POD = ("node", "phase", "ready", "reason", "waiting", "ended", "restarts", "deleting", "claims")
SIGNALLED, SIGNALLED_MAX = 128, 128 + 64  # a signal's number and 128 is the exit code
NODE = ("ready", "taints", "pressures", "unschedulable", "deleting")
LEASE = ("holder",)
WORKLOAD = ("replicas", "deleting")
CLAIM = ("phase",)


def pod_facts(pod: Obj) -> Facts:
    """The facts of a pod, in the order of their names."""
    status = pod.get("status") or NOTHING
    waiting, ended, restarts, ready = None, None, 0, None
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready":
            ready = condition["status"] or None
            break
    for container in status.get("containerStatuses") or ():
        restarts += container.get("restartCount", 0)
        present = container.get("state") or NOTHING
        if "running" not in present and waiting is None:
            waiting = present.get("waiting", NOTHING).get("reason")
        state = present.get("terminated")
        if state is not None or (
            restarts and (state := (container.get("lastState") or NOTHING).get("terminated"))
        ):
            ended = (*(ended or ()), _end(container["name"], state))
    spec, claims = pod["spec"], None
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            claims = (*(claims or ()), volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            claims = (*(claims or ()), f"{pod['metadata']['name']}-{volume['name']}")
    return (
        spec.get("nodeName"),
        status.get("phase"),
        ready,
        status.get("reason"),
        waiting,
        ended,
        restarts or None,
        # Only whether it is set: its time moves when the grace period is shortened.
        "deletionTimestamp" in pod["metadata"] or None,
        claims,
    )


def _end(name: str, state: Obj) -> str:
    """How a container has ended."""
    code = state.get("exitCode", 0)
    signal = f", signal {code - SIGNALLED}" if SIGNALLED < code <= SIGNALLED_MAX else ""
    return f"{name} with exit code {code}{signal} ({state.get('reason', '')})"


def node_facts(node: Obj) -> Facts:
    """The facts of a node, in the order of their names."""
    spec, status = node["spec"], node.get("status") or NOTHING
    taints = spec.get("taints")
    listed = tuple(sorted(f"{taint['key']}:{taint['effect']}" for taint in taints)) if taints else None
    pressures = None
    for found in status.get("conditions") or ():
        if found["status"] == "True" and found["type"] != "Ready":
            pressures = (*(pressures or ()), found["type"])
    return (
        condition_status(node, "Ready") or None,
        listed,
        pressures,
        spec.get("unschedulable"),
        node["metadata"].get("deletionTimestamp"),
    )


def lease_facts(lease: Obj) -> Facts:
    """The holder of a lease."""
    return ((lease.get("spec") or NOTHING).get("holderIdentity"),)


def workload_facts(workload: Obj) -> Facts:
    """The facts of a workload, in the order of their names."""
    return workload["spec"].get("replicas"), workload["metadata"].get("deletionTimestamp")


def claim_facts(claim: Obj) -> Facts:
    """The phase of a claim of a volume."""
    return ((claim.get("status") or NOTHING).get("phase"),)


class Chronicle:
    """Records the notable changes of one store.

    subscribe: the store's method
    lease_namespaces: those that hold the leases of leaders
    """

    def __init__(
        self, kernel: Kernel, scheme: Scheme, subscribe: Store, lease_namespaces: Sequence[str]
    ) -> None:
        self._kernel = kernel
        self._kind = kernel.kind("change", "key", "what", "before", "after")
        self._watch(subscribe, scheme.resource("pods").prefix, POD, pod_facts)
        self._watch(subscribe, scheme.resource("nodes").prefix, NODE, node_facts, reports=True)
        self._watch(subscribe, scheme.resource("persistentvolumeclaims").prefix, CLAIM, claim_facts)
        for resource in WORKLOADS:
            self._watch(subscribe, scheme.resource(resource).prefix, WORKLOAD, workload_facts)
        # Only leases of leaders: those of nodes change by heartbeats.
        for namespace in lease_namespaces:
            self._watch(subscribe, f"{scheme.resource('leases').prefix}{namespace}/", LEASE, lease_facts)

    def _watch(
        self,
        subscribe: Store,
        prefix: str,
        names: Facts,
        facts: Callable[[Obj], Facts],
        *,
        reports: bool = False,
    ) -> None:
        """Record changes of facts below a prefix.

        reports: True if the objects get status reports without news; their state is then caused by
            the last write with news
        """
        put, kernel, kind = self._kernel.trace.put, self._kernel, self._kind
        last: dict[str, Facts] = {}  # by object
        nothing = (None,) * len(names)
        alike: dict[Facts, Facts] = {}  # running pods of a node have equal facts, which they share

        def see(change: Change) -> None:
            if type(change.item) is HeartbeatItem and not change.deleted:
                return
            key = change.item.key
            if change.deleted:
                last.pop(key, None)
                owner = controller_of(change.item.obj)
                kernel.standing.went(key if owner is None else owner["uid"], change.cause)
                kernel.standing.went(key[: key.rindex("/") + 1], change.cause)
                put(kind, (kind.ident, kernel.now_us, change.cause, key, "removed", None, True))
                return
            before, after = last.get(key, nothing), facts(change.item.obj)
            if before == after:
                prev = change.prev
                if reports and prev is not None and _only_reports(prev.obj, change.item.obj):
                    change.item.cause = prev.cause
                return
            if len(alike) >= FACTS_MAX:
                alike.clear()
            last[key] = alike.setdefault(after, after)
            now_us, cause, ident = kernel.now_us, change.cause, kind.ident
            for what, was, now in compress(zip(names, before, after, strict=True), map(ne, before, after)):
                put(kind, (ident, now_us, cause, key, what, was, now))

        subscribe(prefix, see, False)


def _only_reports(before: Obj, after: Obj) -> bool:
    """True if a write changes nothing but the status."""
    had, has = before["metadata"], after["metadata"]
    alike = all(had.get(part) == has.get(part) for part in ("labels", "annotations"))
    return alike and before["spec"] == after["spec"]
