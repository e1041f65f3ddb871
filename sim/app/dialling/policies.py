"""NetworkPolicies that a plugin of the scenario's nodes enforces.

Turns addresses into the pods and nodes that have them, and what policies drop into a decision of
the node, caused by the last write of a policy that drops it, for `orrery why` of both pods.

Holds: a drop is recorded once, until such a packet has passed again.

Differs  the cluster's DNS, which has no pods, counts as one in the namespace of the system with the
         label k8s-app: kube-dns and the named ports of its chart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from actors.node.programs.network.policies import EGRESS, Packet, Party, dropped_by
from actors.node.programs.network.sockets import Address
from sim.api.store import Item
from sim.api.types import Obj
from sim.kernel import Kernel

DROPS = "drop"
DROPS_MAX = 4096  # drops that are remembered as recorded
DNS_PORTS = (("dns", "UDP"), ("dns-tcp", "TCP"))


def dns_pod(namespace: str) -> Obj:
    """What policies see of the cluster's DNS."""
    ports = [{"name": name, "containerPort": 53, "protocol": protocol} for name, protocol in DNS_PORTS]
    return {
        "metadata": {"name": "kube-dns", "namespace": namespace, "labels": {"k8s-app": "kube-dns"}},
        "spec": {"containers": [{"name": "coredns", "ports": ports}]},
    }


class Enforcement:
    """The policies of one cluster.

    policies: all of them, in the order of their names
    party: what has an address; labels: those of a namespace
    """

    def __init__(
        self,
        kernel: Kernel,
        policies: Callable[[], Sequence[Item]],
        party: Callable[[str], Party],
        labels: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._kernel = kernel
        self._policies, self._party, self._labels = policies, party, labels
        self._kind = kernel.kind("decision", "actor", "what", "target", "why")
        self._dropped: dict[tuple[str, str, Address, str], None] = {}

    def passes(self, direction: str, source: str, target: Address, protocol: str) -> bool:
        """See `Cluster`."""
        items = self._policies()
        packet = Packet(self._party(source), self._party(target.host), protocol, target.port)
        result = dropped_by(direction, packet, [item.obj for item in items], self._labels)
        key = (direction, source, target, protocol)
        if not result:
            self._dropped.pop(key, None)
        elif key not in self._dropped:
            if len(self._dropped) >= DROPS_MAX:
                self._dropped.clear()
            self._dropped[key] = None
            self._record(direction, packet, result, items)
        return not result

    def _record(self, direction: str, packet: Packet, found: Sequence[str], items: Sequence[Item]) -> None:
        own, peer = packet[:2] if direction == EGRESS else (packet.target, packet.source)
        causes = [item.cause for item in items if _name(item.obj) in found]
        why = {
            "direction": direction,
            "peer": _path(peer),
            "port": f"{packet.port}/{packet.protocol}",
            "policies": tuple(found),
        }
        cause = max(causes, default=0) or self._kernel.cause
        self._kernel.trace.add(self._kind, self._kernel.now_us, cause, (own.node, DROPS, _path(own), why))


def _name(obj: Obj) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _path(party: Party) -> str:
    """A pod as stories name it, or an address."""
    return party.host if party.pod is None else f"pods/{_name(party.pod)}"
