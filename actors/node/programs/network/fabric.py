"""The network between pods: which address leads where, how long packets take, what cuts them.

Turns a connection or a datagram of a program into one at the program that listens, over the links
of the simulated network between their nodes.

Holds: nothing is read of the cluster before a program connects, sends or asks for a name, and then
       what the storage holds at that instant, so that a run depends on instants and seeds alone;
       a pod on the client's node is reached at once.

Mirrors  tcp(7), Linux net/ipv4/tcp_timer.c: a SYN without an answer is sent again after 1, 2, 4 …
         seconds, six times, and the connection fails after 127 s; net/ipv4/arp.c: an address of a
         node's range that no pod has is unreachable after 3 s; kube-proxy's session affinity lasts
         for the timeout after the last connection. What a NetworkPolicy drops gets no answer;
         an established connection is not asked about again.
Differs  in a cluster without proxies all nodes have the rules of a changed Service at once; with
         them a Service that a node has no rules for refuses connections; an address outside of the
         cluster never answers; a link has no bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Protocol

from actors.node.programs.network.dns import Zone
from actors.node.programs.network.forwarded import Ask, ForwardedEnd
from actors.node.programs.network.pairs import joined
from actors.node.programs.network.policies import EGRESS, INGRESS
from actors.node.programs.network.services import Endpoint, Route, route
from actors.node.programs.network.sockets import (
    Address,
    Attempt,
    Connection,
    Datagrams,
    Listener,
    SocketError,
    StandIn,
)
from actors.node.programs.traffic import Traffic
from sim.api.types import Obj
from sim.ident import Names
from sim.units import SECOND

if TYPE_CHECKING:
    from sim.kernel.kernel import Kernel

SYN_RETRIES = 6  # net.ipv4.tcp_syn_retries
AFFINITY_MAX = 1024  # clients with an endpoint before old ones are forgotten
NO_NEIGHBOUR_US = 3 * SECOND  # three requests of ARP, one a second
PORTS = range(32768, 61000)  # net.ipv4.ip_local_port_range
TCP, UDP = "TCP", "UDP"
DNS_PORT = 53
ANY = ("", "0.0.0.0", "::")
LOOPBACK = "127.0.0.1"


class Wakes(Enum):
    """What answers where no process listens.

    STARTS: the server of a known image, which starts; ANSWERS: a program that is not simulated
    """

    NOTHING = 0
    STARTS = 1
    ANSWERS = 2


class Origin(Enum):
    """Where sockets are: on a node, or on a host of the control plane (`Fabric.server`)."""

    NODE = 0
    SERVER = 1
    AT_ONCE = 2


class Cluster(Protocol):
    """What the fabric reads of the cluster at the instant of the call."""

    names: Names

    def services(self) -> Sequence[Obj]:
        """All Services."""
        ...

    def services_at(self, host: str, port: int, *, node_address: bool) -> Sequence[Obj]:
        """The Services among which an address, or a port of a node's address, leads to one."""
        ...

    def service(self, namespace: str, name: str) -> Obj | None:
        """One Service."""
        ...

    def slices(self, service: Obj, node: str = "") -> Sequence[Obj]:
        """The EndpointSlices of a Service.  node: as its rules have them, if it has a proxy"""
        ...

    def has_namespace(self, name: str) -> bool:
        """True if the namespace exists."""
        ...

    def node_of(self, host: str) -> str:
        """The node on which an address is, of a pod or its own; "" if no host has the address."""
        ...

    def is_pod_range(self, host: str) -> bool:
        """True if an address is one that pods get."""
        ...

    def node_address(self, node: str) -> str:
        """The internal address of a node."""
        ...

    def zone(self, node: str) -> str:
        """The zone of a node."""
        ...

    def is_up(self, node: str) -> bool:
        """True for a host that is no node, and while a node has power."""
        ...

    def serves_names(self, host: str) -> bool:
        """True if the cluster's DNS answers at an address."""
        ...

    def passes(self, direction: str, source: str, target: Address, protocol: str) -> bool:
        """True if NetworkPolicies let a packet leave ("Egress") or reach ("Ingress") its pod."""
        ...

    def forward(self, host: str) -> Ask | None:
        """What passes requests to the pod with an address to a real server; None without one."""
        ...

    def wake(self, host: str, port: int) -> Wakes:
        """What answers where no process listens; a server that starts has its first turn before."""
        ...


class Fabric:
    """The network of one cluster.

    domain: of the cluster's names
    networks: address -> the sockets there
    hosts: the interface of each node, and of each host of the control plane
    """

    __slots__ = (
        "_affinity", "_affinity_max", "_cluster", "_draw", "_flows", "_kernel", "_lasts_us", "_servers", "domain",
        "hosts", "networks",
    )  # fmt: skip

    def __init__(self, kernel: Kernel, cluster: Cluster, domain: str = "cluster.local") -> None:
        self._kernel = kernel
        self._cluster = cluster
        self._draw = kernel.stream("pod-network")
        self._affinity: dict[tuple[str, tuple[str, str, str], str], tuple[Endpoint, int]] = {}
        self._affinity_max = AFFINITY_MAX
        self._lasts_us: dict[tuple[str, str, str], int] = {}  # by the name of a Service's port
        # (client as seen, endpoint) -> what the client sent from, and where to
        self._flows: dict[tuple[Address, Address], tuple[Datagrams, Network, Address]] = {}
        self._servers: dict[tuple[str, bool], Network] = {}  # hosts of the control plane
        self.domain = domain
        self.networks: dict[str, Network] = {}
        self.hosts: dict[str, Traffic] = {}

    def network(self, host: str, node: str) -> Network:
        """The sockets at an address; pods of the host's network share those of their node."""
        found = self.networks.get(host)
        if found is None:
            found = self.networks[host] = Network(host, node, self)
        return found

    def host(self, name: str) -> Traffic:
        """The interface of a host."""
        return self.hosts.setdefault(name, Traffic())

    def leave(self, network: Network) -> None:
        """A pod has gone: its address has no sockets, until another pod gets it."""
        node = self._cluster.node_of(network.host)
        is_shared = bool(node) and self._cluster.node_address(node) == network.host
        if self.networks.get(network.host) is network and not network.in_use and not is_shared:
            del self.networks[network.host]

    def server(self, host: str, name: str, *, at_once: bool) -> Network:
        """The sockets of a host of the control plane.

        at_once: True if its packets take no time over a link without a fault, so that clients
            outside reach programs while time is paused
        """
        found = self._servers.get((name, at_once))
        if found is None:
            found = self._servers[name, at_once] = Network(
                host, name, self, Origin.AT_ONCE if at_once else Origin.SERVER
            )
        return found

    @property
    def zone(self) -> Zone:
        """What the cluster's DNS knows."""
        cluster = self._cluster
        return Zone(self.domain, cluster.service, cluster.services, cluster.slices, cluster.has_namespace)

    def answers_names(self, source: Network, host: str) -> bool:
        """True if the cluster's DNS is at an address, and a question gets there."""
        asks = self._cluster.passes
        return self._cluster.serves_names(host) and asks(EGRESS, source.host, Address(host, DNS_PORT), UDP)

    def wake(self, attempt: Attempt, network: Network, host: str, port: int) -> bool:
        """Start the server that listens in a pod if it has not been needed so far, then connect."""
        ask = self._cluster.forward(network.host)
        woken = Wakes.ANSWERS if ask is not None else self._cluster.wake(network.host, port)
        if woken is Wakes.NOTHING:
            return False
        if woken is Wakes.ANSWERS:
            kind = StandIn if ask is None else partial(ForwardedEnd, ask=ask)
            client, server = Address(network.host, network.free_port()), Address(host, port)
            attempt.made(joined(None, "", "", client, server, server, client, kind)[0])
            return True
        self._later(0, lambda: network.join(attempt, host, port))
        return True

    # --- virtual addresses ------------------------------------------------------------------------

    def _destination(self, source: Network, target: Address, protocol: str) -> tuple[Address | str, bool]:
        """Where a packet goes, and if its source is hidden; or the error of the connection."""
        cluster = self._cluster
        node = cluster.node_of(target.host)
        node_address = bool(node) and cluster.node_address(node) == target.host
        found = route(
            cluster.services_at(target.host, target.port, node_address=node_address),
            partial(cluster.slices, node=source.node),
            target.host,
            target.port,
            protocol,
            cluster.names,
            node=source.node,
            zone=cluster.zone(source.node),
            node_address=node_address,
        )
        if found is None:
            return target, False
        if not found.endpoints:
            return "ETIMEDOUT" if found.dropped else "ECONNREFUSED", False
        chosen = self._choose(found, source)
        return Address(chosen.host, chosen.port), found.masked or chosen.host == source.host

    def _choose(self, found: Route, source: Network) -> Endpoint:
        key, now_us = (source.node, found.name, source.host), self._kernel.now_us
        if found.affinity_s and (held := self._affinity.get(key)) is not None:
            endpoint, last_us = held
            if endpoint in found.endpoints and now_us - last_us < found.affinity_s * SECOND:
                self._affinity[key] = (endpoint, now_us)
                return endpoint
        chosen = found.endpoints[int(self._draw.random() * len(found.endpoints))]
        if found.affinity_s:
            if len(self._affinity) >= self._affinity_max:
                self._forget_affinity()
            self._affinity[key] = (chosen, now_us)
            self._lasts_us[found.name] = found.affinity_s * SECOND
        return chosen

    def _forget_affinity(self) -> None:
        """Forget which endpoints clients kept that came too long ago."""
        now_us, lasts_us = self._kernel.now_us, self._lasts_us
        self._affinity = {
            key: held for key, held in self._affinity.items() if now_us - held[1] < lasts_us[key[1]]
        }
        self._affinity_max = max(AFFINITY_MAX, 2 * len(self._affinity))

    # --- connections ------------------------------------------------------------------------------

    def connect(self, source: Network, target: Address) -> Attempt:
        """Connect from a pod."""
        attempt = Attempt()
        goal, masked = self._destination(source, target, TCP)
        if goal == "ECONNREFUSED":
            attempt.failed(goal)
        elif isinstance(goal, str):
            self._later(_syn_us(SYN_RETRIES + 1), lambda: attempt.failed("ETIMEDOUT"))
        else:
            self._try(attempt, source, target, goal, masked, 0)
        return attempt

    def _try(
        self, attempt: Attempt, source: Network, target: Address, goal: Address, masked: bool, retry: int
    ) -> None:
        if attempt.abandoned:
            return
        node = self._cluster.node_of(goal.host)
        if not node and self._cluster.is_pod_range(goal.host):
            self._later(NO_NEIGHBOUR_US, lambda: attempt.failed("EHOSTUNREACH"))
            return
        delay_us = self._delay_us(source.node, node, source.origin) if node else None
        if delay_us is None or not self._cluster.passes(EGRESS, source.host, goal, TCP):
            self._again(attempt, source, target, goal, masked, retry)
        elif delay_us or node != source.node:
            self._later(delay_us, lambda: self._arrive(attempt, source, target, goal, masked, retry))
        else:
            self._arrive(attempt, source, target, goal, masked, retry)

    def _again(
        self, attempt: Attempt, source: Network, target: Address, goal: Address, masked: bool, retry: int
    ) -> None:
        wait_us = _syn_us(retry + 1) - _syn_us(retry)
        if retry >= SYN_RETRIES:
            self._later(wait_us, lambda: attempt.failed("ETIMEDOUT"))
        else:
            self._later(wait_us, lambda: self._try(attempt, source, target, goal, masked, retry + 1))

    def _arrive(
        self, attempt: Attempt, source: Network, target: Address, goal: Address, masked: bool, retry: int
    ) -> None:
        """The SYN has arrived at the node of the goal."""
        node = self._cluster.node_of(goal.host)
        back_us = self._delay_us(node, source.node, source.origin) if node else None
        by = self._seen(source, Address(source.host, 0), masked).host
        if back_us is None or attempt.abandoned or not self._cluster.passes(INGRESS, by, goal, TCP):
            self._again(attempt, source, target, goal, masked, retry)
            return
        listener = self._listener(goal)
        ask = None if listener is not None else self._cluster.forward(goal.host)
        woken = Wakes.ANSWERS if ask is not None else Wakes.NOTHING
        if listener is None and ask is None:
            woken = self._cluster.wake(goal.host, goal.port)
        if woken is Wakes.STARTS:
            self._later(0, lambda: self._arrive(attempt, source, target, goal, masked, retry))
            return
        if listener is None and woken is Wakes.NOTHING:
            self._answer(back_us, lambda: attempt.failed("ECONNREFUSED"))
            return
        client = Address(source.host, source.free_port())
        seen = self._seen(source, client, masked)
        kind: Callable[..., Connection] = Connection if listener is not None else StandIn
        if ask is not None:
            kind = partial(ForwardedEnd, ask=ask)
        at_once = source.origin is Origin.AT_ONCE
        there = self.networks.get(goal.host)
        traffic = source.traffic, Traffic(self.host(node)) if there is None else there.traffic
        pair = joined(
            self._kernel,
            source.node,
            node,
            client,
            target,
            goal,
            seen,
            kind,
            at_once=at_once,
            traffic=traffic,
        )
        if listener is not None and not listener.offer(pair[1]):
            pair[1].reset()
            self._again(attempt, source, target, goal, masked, retry)
            return
        self._answer(back_us, lambda: attempt.made(pair[0]))

    def _seen(self, source: Network, client: Address, masked: bool) -> Address:
        """The client's address as the server sees it."""
        if not masked or source.origin is not Origin.NODE:
            return client
        return Address(self._cluster.node_address(source.node), client.port)

    def _listener(self, goal: Address) -> Listener | None:
        network = self.networks.get(goal.host)
        return network.listener(goal.port) if network is not None else None

    # --- datagrams --------------------------------------------------------------------------------

    def echo_us(self, source: Network, host: str) -> int | None:
        """See `Network.echo_us`; the address of a Service has no host that answers."""
        node = self._cluster.node_of(host)
        if not node or not self._cluster.is_up(node):
            return None
        there_us = self._delay_us(source.node, node)
        back_us = None if there_us is None else self._delay_us(node, source.node)
        return None if there_us is None or back_us is None else there_us + back_us

    def send(self, source: Network, socket: Datagrams, target: Address, data: bytes) -> None:
        """Send a datagram from a pod, or the answer to one."""
        own = Address(source.host, socket.local.port)
        flow = self._flows.get((target, own))
        if flow is not None:
            asking, network, asked = flow
            source.traffic.pass_to(network.traffic, len(data))
            self._carry(source.node, network.node, lambda: asking.take(asked, data))
            return
        goal, masked = self._destination(source, target, UDP)
        if goal == "ECONNREFUSED":
            socket.refused(target)
        if isinstance(goal, str) or not self._cluster.passes(EGRESS, source.host, goal, UDP):
            return
        goal_ = goal
        seen = self._seen(source, own, masked)
        self._flows[seen, goal] = (socket, source, target)
        node = self._cluster.node_of(goal.host)
        self._carry(source.node, node, lambda: self._deliver(source, socket, target, goal_, seen, data))

    def _deliver(
        self, source: Network, socket: Datagrams, target: Address, goal: Address, seen: Address, data: bytes
    ) -> None:
        if not self._cluster.passes(INGRESS, seen.host, goal, UDP):
            self._flows.pop((seen, goal), None)
            return
        network = self.networks.get(goal.host)
        found = network.datagrams(goal.port) if network is not None else None
        if network is not None and found is not None:
            source.traffic.pass_to(network.traffic, len(data))
            found.take(seen, data)
        else:
            node = self._cluster.node_of(goal.host)
            self._carry(node, source.node, lambda: socket.refused(target))

    def forget(self, socket: Datagrams) -> None:
        """A socket is closed: nothing is answered to it any more."""
        self._flows = {key: flow for key, flow in self._flows.items() if flow[0] is not socket}

    def _carry(self, source: str, target: str, call: Callable[[], None]) -> None:
        """Let a packet arrive, if it does."""
        delay_us = self._delay_us(source, target)
        if delay_us is not None:
            self._answer(delay_us, call)

    # --- time -------------------------------------------------------------------------------------

    def _delay_us(self, source: str, target: str, origin: Origin = Origin.NODE) -> int | None:
        """How long a packet takes now; None if it does not arrive."""
        if not target or not self._cluster.is_up(source) or not self._cluster.is_up(target):
            return None
        if source == target:
            return 0
        link = self._kernel.network.link(source, target)
        if origin is Origin.AT_ONCE and link.clear:
            return 0
        return link.delay_at_us(self._kernel.now_us) if link.up else None

    def _answer(self, delay_us: int, call: Callable[[], None]) -> None:
        if delay_us:
            self._later(delay_us, call)
        else:
            call()

    def _later(self, delay_us: int, call: Callable[[], None]) -> None:
        self._kernel.call_later(delay_us, lambda _: call())


def _syn_us(retry: int) -> int:
    """When a SYN is sent again, after the first."""
    return ((1 << retry) - 1) * SECOND


class Network:
    """The sockets of a pod.

    host: its address; node: where it runs
    fabric: what is beyond; None: only the pod itself
    traffic: what has passed its interface
    """

    __slots__ = ("_datagrams", "_listeners", "_next_port", "fabric", "host", "node", "origin", "traffic")

    def __init__(
        self,
        host: str = LOOPBACK,
        node: str = "",
        fabric: Fabric | None = None,
        origin: Origin = Origin.NODE,
    ) -> None:
        self.host, self.node, self.fabric, self.origin = host, node, fabric, origin
        self._listeners: dict[tuple[int, bool], Listener] = {}
        self._datagrams: dict[int, Datagrams] = {}
        self._next_port = PORTS.start
        self.traffic = Traffic(None if fabric is None else fabric.host(node))

    def is_own(self, host: str) -> bool:
        """True for an address of the pod itself."""
        return host in (self.host, "localhost", "::1", *ANY) or host.startswith("127.")

    def free_port(self) -> int:
        """A port for a client."""
        for _ in PORTS:
            port = self._next_port
            self._next_port = PORTS.start if port + 1 >= PORTS.stop else port + 1
            if port not in self._datagrams and (port, False) not in self._listeners:
                return port
        raise SocketError("EADDRNOTAVAIL")

    # --- connections ------------------------------------------------------------------------------

    def listen(self, port: int, host: str = "") -> Listener:
        """Accept connections at a port.  Raises SocketError."""
        if host not in ANY and not self.is_own(host):
            raise SocketError("EADDRNOTAVAIL")
        near = host.startswith("127.") or host in ("localhost", "::1")
        if (port, near) in self._listeners or (port, False) in self._listeners:
            raise SocketError("EADDRINUSE")
        port = port or self.free_port()
        listener = Listener(Address(host or self.host, port), self._left)
        self._listeners[port, near] = listener
        return listener

    def listener(self, port: int, *, near: bool = False) -> Listener | None:
        """What listens at a port.  near: for a client in the pod that uses a loopback address"""
        return self._listeners.get((port, False)) or (self._listeners.get((port, True)) if near else None)

    @property
    def in_use(self) -> bool:
        """True while something listens or receives."""
        return bool(self._listeners or self._datagrams)

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports at which something listens."""
        return tuple(sorted({port for port, _ in self._listeners}))

    def connect(self, host: str, port: int) -> Attempt:
        """Connect to an address."""
        if not self.is_own(host):
            if self.fabric is not None:
                return self.fabric.connect(self, Address(host, port))
            attempt = Attempt()
            attempt.failed("EHOSTUNREACH")
            return attempt
        attempt = Attempt()
        listener = self.listener(port, near=host != self.host)
        if listener is not None or self.fabric is None or not self.fabric.wake(attempt, self, host, port):
            self.join(attempt, host, port)
        return attempt

    def join(self, attempt: Attempt, host: str, port: int) -> None:
        """Connect to the pod itself."""
        near = host != self.host
        listener = self.listener(port, near=near)
        if listener is None:
            attempt.failed("ECONNREFUSED")
            return
        own = LOOPBACK if near else self.host
        client, server = Address(own, self.free_port()), Address(own, port)
        pair = joined(None, "", "", client, server, server, client)
        if listener.offer(pair[1]):
            attempt.made(pair[0])
        else:
            attempt.failed("ETIMEDOUT")

    # --- datagrams --------------------------------------------------------------------------------

    def echo_us(self, host: str) -> int | None:
        """How long an echo request takes there and back; None if no answer comes."""
        if self.is_own(host):
            return 0
        return None if self.fabric is None else self.fabric.echo_us(self, host)

    def bind(self, port: int = 0) -> Datagrams:
        """A socket of datagrams.  Raises SocketError."""
        port = port or self.free_port()
        if port in self._datagrams:
            raise SocketError("EADDRINUSE")
        made = Datagrams(Address(self.host, port), self._send, self._unbound)
        self._datagrams[port] = made
        return made

    def datagrams(self, port: int) -> Datagrams | None:
        """What receives datagrams at a port."""
        return self._datagrams.get(port)

    def _send(self, socket: Datagrams, target: Address, data: bytes) -> None:
        if not self.is_own(target.host):
            if self.fabric is not None:
                self.fabric.send(self, socket, target, data)
            return
        found = self._datagrams.get(target.port)
        if found is None:
            socket.refused(target)
        else:
            host = self.host if target.host == self.host else LOOPBACK
            found.take(Address(host, socket.local.port), data)

    # --- ends -------------------------------------------------------------------------------------

    def _left(self, listener: Listener) -> None:
        self._listeners = {key: held for key, held in self._listeners.items() if held is not listener}

    def _unbound(self, socket: Datagrams) -> None:
        self._datagrams.pop(socket.local.port, None)
        if self.fabric is not None:
            self.fabric.forget(socket)
