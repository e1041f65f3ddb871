"""Which packets between pods NetworkPolicies let through, as pure functions.

Turns the policies of the pod at one end of a packet, and both ends, into the policies that drop it.

Holds: a policy only adds to what is allowed; a pod that no policy of a direction selects takes all
       in that direction; replies are not asked about.

Mirrors  the NetworkPolicy API as documented (staging k8s.io/api v1.25 networking/v1/types.go):
         without policyTypes a policy is for ingress, and for egress if it has such rules; an empty
         list of peers or ports is all of them; a named port is that of the pod at the receiving
         end; a block is asked about addresses, a selector only about pods with an address of their
         own; a pod always reaches itself, and exchanges packets with its node.
Differs  what the documentation leaves to plugins: policies see an endpoint's address, not that of
         its Service, and pods of the host's network as their node; echo requests pass always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from sim.api.selectors import from_selector
from sim.api.types import Obj

INGRESS, EGRESS = "Ingress", "Egress"
Labels = Mapping[str, str]


class Party(NamedTuple):
    """One end of a packet.

    host: its address; node: where it is, "" outside of the cluster
    pod: the pod that has the address for itself; None for a node and what is outside
    """

    host: str
    node: str = ""
    pod: Obj | None = None

    @property
    def namespace(self) -> str:
        """That of the pod; "" without one."""
        return "" if self.pod is None else str(self.pod["metadata"]["namespace"])

    @property
    def labels(self) -> Labels:
        """Those of the pod."""
        return {} if self.pod is None else self.pod["metadata"].get("labels") or {}


class Packet(NamedTuple):
    """The first packet of a connection, or a datagram.  port: at the target"""

    source: Party
    target: Party
    protocol: str
    port: int


def dropped_by(
    direction: str, packet: Packet, policies: Sequence[Obj], labels: Callable[[str], Labels]
) -> tuple[str, ...]:
    """The policies that drop a packet at the pod of one end, as "namespace/name"; () if it passes.

    direction: Egress at the source, Ingress at the target
    policies: of all namespaces; labels: those of a namespace
    """
    own, other = packet[:2] if direction == EGRESS else (packet.target, packet.source)
    if own.pod is None or own.host == other.host or (other.pod is None and other.node == own.node):
        return ()
    isolating = [policy for policy in policies if _isolates(policy, direction, own)]
    if any(_allows(policy, direction, packet, other, labels) for policy in isolating):
        return ()
    return tuple(f"{own.namespace}/{policy['metadata']['name']}" for policy in isolating)


def _isolates(policy: Obj, direction: str, own: Party) -> bool:
    spec = policy.get("spec") or {}
    types = spec.get("policyTypes") or ((INGRESS, EGRESS) if spec.get("egress") else (INGRESS,))
    if direction not in types or policy["metadata"]["namespace"] != own.namespace:
        return False
    return from_selector(spec.get("podSelector") or {}).matches(own.labels)


def _allows(
    policy: Obj, direction: str, packet: Packet, other: Party, labels: Callable[[str], Labels]
) -> bool:
    rules, peers = ("egress", "to") if direction == EGRESS else ("ingress", "from")
    home = policy["metadata"]["namespace"]
    for rule in policy["spec"].get(rules) or ():
        if not _has_port(rule.get("ports") or (), packet):
            continue
        entry = rule.get(peers)
        if not entry or any(_is_peer(peer, home, other, labels) for peer in entry):
            return True
    return False


def _has_port(ports: Sequence[Obj], packet: Packet) -> bool:
    return not ports or any(_is_port(port, packet) for port in ports)


def _is_port(port: Obj, packet: Packet) -> bool:
    if (port.get("protocol") or "TCP") != packet.protocol:
        return False
    target = port.get("port")
    if isinstance(target, str):
        return packet.port in _named(packet.target.pod, target, packet.protocol)
    return target is None or target <= packet.port <= (port.get("endPort") or target)


def _named(pod: Obj | None, name: str, protocol: str) -> list[int]:
    """The ports of this name that the containers of a pod declare."""
    containers = () if pod is None else pod["spec"]["containers"]
    return [
        declared["containerPort"]
        for container in containers
        for declared in container.get("ports") or ()
        if declared.get("name") == name and (declared.get("protocol") or "TCP") == protocol
    ]


def _is_peer(peer: Obj, home: str, other: Party, labels: Callable[[str], Labels]) -> bool:
    block = peer.get("ipBlock")
    if block is not None:
        return _within(other.host, block["cidr"]) and not any(
            _within(other.host, each) for each in block.get("except") or ()
        )
    if other.pod is None:
        return False
    spaces, pods = peer.get("namespaceSelector"), peer.get("podSelector")
    if spaces is None and other.namespace != home:
        return False
    if spaces is not None and not from_selector(spaces).matches(labels(other.namespace)):
        return False
    return pods is None or from_selector(pods).matches(other.labels)


def _within(host: str, cidr: str) -> bool:
    return ip_address(host) in ip_network(cidr, strict=False)
