"""The API clients of one node agent.

Turns a way to the API servers into the three clients an agent has: pods and what registers the node (rate limited), heartbeats (not limited,
with a time-out and a lane), events (a rate of their own).

Mirrors  cmd/kubelet/app/server.go: kubeClient, heartbeatClient, eventClient (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from actors.node.requests import user_of
from sim.api.schema.scheme import Scheme
from sim.api.types import Obj, Transport, UserInfo
from sim.client.events.recorder import EventRecorder
from sim.client.rest.client import Client
from sim.ident import Names
from sim.kernel.actor import Context


class NoNormal:
    """A recorder that keeps warnings only: for clusters so large that each pod's start must not leave events."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def event(
        self,
        obj: Obj,
        event_type: str,
        reason: str,
        message: str,
        *,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        if event_type != "Normal":
            self._recorder.event(obj, event_type, reason, message, annotations=annotations)

    def tidy(self) -> None:
        self._recorder.tidy()


class NodeClients:
    """`Clients` of the agent on real clients.  transports: of a process on the host that `ctx` is named after."""

    def __init__(
        self,
        scheme: Scheme,
        names: Names,
        transports: Callable[[Context], Sequence[Transport]],
        *,
        normal_events: bool = True,
    ) -> None:
        self._scheme = scheme
        self._names = names
        self._transports = transports
        self._normal_events = normal_events
        self._connections: tuple[Context, Sequence[Transport], UserInfo] | None = None

    def _client(self, ctx: Context, node: str, qps: float, burst: int, timeout_us: int = 0) -> Client:
        # One connection to each server for all clients of an incarnation, as HTTP/2 shares them.
        if self._connections is None or self._connections[0] is not ctx:
            self._connections = ctx, self._transports(ctx), user_of(self._names, node)
        _, transports, user = self._connections
        return Client(
            ctx, self._scheme, transports, user,
            qps=qps, burst=burst, agent=self._names.node_agent, timeout_us=timeout_us,
        )  # fmt: skip

    def main(self, ctx: Context, node: str, qps: int, burst: int) -> Client:
        return self._client(ctx, node, qps, burst)

    def heartbeat(self, ctx: Context, node: str, timeout_us: int) -> Client:
        return self._client(ctx, node, 0, 0, timeout_us)

    def recorder(self, ctx: Context, node: str, qps: int, burst: int) -> EventRecorder | NoNormal:
        client = self._client(ctx, node, qps, burst)
        recorder = EventRecorder(ctx, client, self._names.node_agent, node)
        return recorder if self._normal_events else NoNormal(recorder)
