"""Clients that send requests to Services, as the step `request` says it.

Turns a `RequestSpec` into requests at equal times, each with the course of `actors.users.requests`,
over the rules of the client's node, the links between nodes, and the containers that run.

Holds: a client that does not run sends nothing; random draws come from the stream of the step; a
    request changes nothing in the cluster.

Differs  a load balancer sends the requests from outside in turn to all nodes that serve, which it
         knows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

from actors.node.programs.network.services import Endpoint, Route
from actors.node.runtime.containers import Container
from actors.users.requests import OUTSIDE, Outcome, Reach, RequestSpec, course
from sim.api.objects import labels_of
from sim.api.store import Change, Item
from sim.app.parts.ports import BuiltCluster
from sim.app.parts.traffic.names import NameServers, chosen
from sim.app.parts.traffic.proxies import Proxies
from sim.app.parts.traffic.reach import answer_of, goes, reached
from sim.check.clients import ServiceRequest
from sim.kernel.causes import caused_by
from sim.units import SECOND

LOCAL = "Local"


class Traffic:
    """The data plane of a cluster."""

    def __init__(self, cluster: BuiltCluster) -> None:
        self._cluster = cluster
        self.proxies = Proxies(cluster)
        self._counts: dict[str, dict[Outcome, int]] = {}

    def begin(self, step: str, spec: RequestSpec) -> Callable[[], None]:
        """Let a client send requests; the result ends that."""
        counts = self._counts.setdefault(step, dict.fromkeys(Outcome, 0))
        return _Client(self._cluster, self.proxies, step, spec, counts).stop

    def outcomes(self) -> dict[str, dict[str, int]]:
        """How many requests of each step had each outcome so far."""
        return {
            step: {outcome.value: count for outcome, count in counts.items() if count}
            for step, counts in self._counts.items()
        }


class _Client:
    """What one step sends."""

    def __init__(
        self,
        cluster: BuiltCluster,
        proxies: Proxies,
        step: str,
        spec: RequestSpec,
        counts: dict[Outcome, int],
    ) -> None:
        self._cluster, self._proxies, self._step, self._spec = cluster, proxies, step, spec
        self._counts = counts
        self._draw = cluster.kernel.stream(f"requests/{step}")
        self._servers: NameServers | None = None
        if spec.dns is not None:
            self._servers = NameServers(cluster, proxies, spec.dns, self._draw, step)
        self._named_until_us: dict[str, int] = {}  # by client
        self._affinity: dict[tuple[str, str], tuple[Endpoint, int]] = {}  # by node, client
        self._number, self._stopped = 0, False
        self._last: Outcome | None = None
        self._kind = cluster.kernel.kind("request", "client", "service", "outcome", "pod")
        self._pods: dict[str, tuple[str, str]] = {}  # node and uid of pods that may send
        self._forget: Callable[[], None] = lambda: None
        if not spec.source:
            for change in cluster.present(("pods",)):
                self._see(change)
            self._forget = cluster.observe(self._see, (f"pods/{spec.namespace}",))
        self._next(None)

    def stop(self) -> None:
        """Send no more requests."""
        self._stopped = True
        self._forget()
        if self._servers is not None:
            self._servers.stop()

    def _see(self, change: Change) -> None:
        """A pod that may be one of the clients changes."""
        obj, spec = change.item.obj, self._spec
        meta, labels = obj["metadata"], labels_of(obj)
        node = obj["spec"].get("nodeName", "")
        own = meta["namespace"] == spec.namespace and all(
            labels.get(key) == value for key, value in spec.labels
        )
        if own and node and not change.deleted:
            self._pods[change.item.key] = node, meta["uid"]
        else:
            self._pods.pop(change.item.key, None)

    def _next(self, _: object) -> None:
        if self._stopped:
            return
        kernel = self._cluster.kernel
        kernel.call_later(self._spec.gap_us, self._next)
        sender = self._sender()
        if sender is not None:
            self._number += 1
            self._send(*sender)

    def _sender(self) -> tuple[str, str] | None:
        """The client of the next request and its node; None if no client runs."""
        cluster, spec, now_us = self._cluster, self._spec, self._cluster.kernel.now_us
        if spec.source == OUTSIDE:
            nodes = [name for name in cluster.nodes if self._is_balanced(name)]
            return (OUTSIDE, nodes[self._number % len(nodes)]) if nodes else (OUTSIDE, "")
        if spec.source:
            node = cluster.nodes.get(spec.source)
            return (spec.source, spec.source) if node is not None and node.machine.powered else None
        running = []
        for key in sorted(self._pods):
            name, uid = self._pods[key]
            pod = cluster.nodes[name].machine.pods.get(uid) if name in cluster.nodes else None
            if pod is not None and pod.ready and pod.running(now_us):
                running.append((uid, name))
        return running[self._number % len(running)] if running else None

    def _is_balanced(self, node: str) -> bool:
        """True if a load balancer sends requests to a node."""
        if not self._cluster.machine_watch.serves(node):
            return False
        rules, key = self._proxies.written[node].rules, self._spec.service
        service = None if rules is None else rules.services.get(key)
        if service is None or service["spec"].get("externalTrafficPolicy") != LOCAL:
            return True
        way = self._way(OUTSIDE, node)
        return way is not None and bool(way.endpoints)

    def _way(self, client: str, node: str) -> Route | None:
        """Where the rules of a node lead a connection to the Service."""
        spec = self._spec
        if client != OUTSIDE:
            return self._proxies.way(node, spec.service, spec.port)
        written = self._proxies.written.get(node)
        if written is None or written.rules is None:
            return None
        return written.rules.from_outside(spec.service, spec.port, self._cluster.names, node=node)

    def _send(self, client: str, node: str) -> None:
        servers, spec, now_us = self._servers, self._spec, self._cluster.kernel.now_us
        request = _Request(client, node, now_us)
        lookup = None
        if servers is not None:
            servers.look(node)
            if self._named_until_us.get(client, 0) <= now_us:
                lookup = partial(self._lookup, servers, request)
        connect, connected = partial(self._connect, request), partial(self._connected, request)
        self._advance((request, course(spec, lookup, connect, connected)))

    def _lookup(self, servers: NameServers, request: _Request) -> Reach:
        reach = servers.lookup(request.node, self._spec.service)
        if reach is Reach.ANSWERS:
            self._named_until_us[request.client] = self._cluster.kernel.now_us + self._spec.ttl_us
        return reach

    def _connect(self, request: _Request) -> Reach:
        """Connect now."""
        cluster = self._cluster
        endpoint = self._chosen(request, self._way(request.client, request.node))
        if isinstance(endpoint, Reach):
            return endpoint
        if endpoint.pod:
            key = cluster.scheme.key("pods", self._spec.service[0], endpoint.pod)
            request.pod = cluster.storage.store.get(key)
        request.there = endpoint.node
        reach, request.container = reached(cluster, request.node, endpoint)
        return reach

    def _chosen(self, request: _Request, way: Route | None) -> Endpoint | Reach:
        """The endpoint of a connection: the last one of its client if the Service has an affinity."""
        key, now_us = (request.node, request.client), self._cluster.kernel.now_us
        endpoint, last_us = self._affinity.get(key, (None, 0))
        lasts_us = 0 if way is None else way.affinity_s * SECOND
        if way is None or endpoint not in way.endpoints or now_us - last_us >= lasts_us:
            choice = chosen(way, self._draw)
            if isinstance(choice, Reach):
                return choice
            endpoint = choice
        if lasts_us:
            self._affinity[key] = endpoint, now_us
        return endpoint

    def _connected(self, request: _Request) -> bool:
        """True if the server of a request still works on it, and can be reached."""
        container, now_us = request.container, self._cluster.kernel.now_us
        works = container is not None and answer_of(container, now_us) is Reach.ANSWERS
        return works and goes(self._cluster, request.node, request.there)

    def _advance(self, entry: tuple[_Request, Generator[int, None, Outcome]]) -> None:
        try:
            wait_us = next(entry[1])
        except StopIteration as end:
            self._ended(end.value, entry[0])
        else:
            self._cluster.kernel.call_later(wait_us, self._advance, entry)

    def _ended(self, outcome: Outcome, request: _Request) -> None:
        """A request has ended."""
        cluster, spec, pod = self._cluster, self._spec, request.pod
        self._counts[outcome] += 1
        key = "" if pod is None else pod.key
        if outcome is not self._last:
            self._last = outcome
            cause = 0 if pod is None else pod.cause
            with caused_by(cluster.kernel, cause or cluster.kernel.cause):
                cluster.kernel.record(
                    self._kind, (self._step, "/".join(spec.service), outcome.value, key.rpartition("/")[2])
                )
        service, sent_us = cluster.scheme.key("services", *spec.service), request.sent_us
        result = ServiceRequest(self._step, service, sent_us, sent_us + spec.gap_us, outcome.value, key)
        for see in cluster.machine_watch.request_watchers:
            see(result, cluster.kernel.now_us)


class _Request:
    """One request.

    client, node: what sends it, and where
    pod, container: what it was sent to, as far as they are there; there: its node
    """

    __slots__ = ("client", "container", "node", "pod", "sent_us", "there")

    def __init__(self, client: str, node: str, sent_us: int) -> None:
        self.client, self.node, self.sent_us = client, node, sent_us
        self.pod: Item | None = None
        self.container: Container | None = None
        self.there = ""
