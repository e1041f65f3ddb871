"""Observations of a cluster's commits: when nodes turn Unknown and are tainted, when pods are
deleted, and the leaders.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sim.api.store import Change
from sim.api.types import Obj
from sim.ident import Names


@dataclass(slots=True)
class Seen:
    """Times of commit in microseconds, by node or pod."""

    names: Names
    unknown: dict[str, int] = field(default_factory=dict)
    no_schedule: dict[str, int] = field(default_factory=dict)
    no_execute: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, list[int]] = field(default_factory=dict)  # by node
    renewed: dict[str, int] = field(default_factory=dict)
    leaders: list[tuple[int, str]] = field(default_factory=list)

    def see(self, change: Change) -> None:
        resource = change.item.key.split("/", 3)[2]
        if resource == "leases":
            self._lease(change)
        elif resource == "nodes" and not change.deleted:
            self._node(change)
        elif resource == "pods" and change.prev is not None:
            meta = change.item.obj["metadata"]
            if "deletionTimestamp" in meta and "deletionTimestamp" not in change.prev.obj["metadata"]:
                node = change.item.obj["spec"].get("nodeName", "")
                self.deleted.setdefault(node, []).append(change.at_us)

    def _lease(self, change: Change) -> None:
        name = change.item.key.rsplit("/", 1)[1]
        if name == self.names.component("controller-manager"):
            holder = change.item.obj["spec"].get("holderIdentity") or ""
            if holder and (not self.leaders or self.leaders[-1][1] != holder):
                self.leaders.append((change.at_us, holder))
        else:
            self.renewed[name] = change.at_us

    def _node(self, change: Change) -> None:
        node = change.item.obj
        name = node["metadata"]["name"]
        for condition in (node.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Ready" and condition["status"] == "Unknown":
                self.unknown.setdefault(name, change.at_us)
        for taint in node["spec"].get("taints") or ():
            if taint["key"] == self.names.taint_unreachable:
                times = self.no_execute if taint["effect"] == "NoExecute" else self.no_schedule
                times.setdefault(name, change.at_us)


def pods_on(nodes: Iterable[str], count: int) -> list[Obj]:
    """Bound pods, so that every node has the same number."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{node}-{number}", "namespace": "default"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "registry.example/c:1"}]},
        }
        for node in nodes
        for number in range(count)
    ]


def pods_with(node: str, tolerations: Sequence[Sequence[Obj]]) -> list[Obj]:
    """Pods bound to a node, one with each of these lists of tolerations."""
    pods = zip(pods_on([node], len(tolerations)), tolerations, strict=True)
    return [{**pod, "spec": {**pod["spec"], "tolerations": own}} for pod, own in pods]
