"""The API clients of one node agent.

Turns connections to the API servers into the three clients of an agent: one for pods and the
registration of the node (rate limited), one for heartbeats (not rate limited, with a timeout and
fast paths), one for events (with a rate limit of its own).

Mirrors  cmd/kubelet/app/server.go: kubeClient, heartbeatClient, eventClient (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from actors.node.requests import user_of
from sim.api.auth.account_tokens import TokenRules
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj, Reply, Request, Transport, UserInfo
from sim.client.client import Client
from sim.client.events.recorder import EventKind, EventRecorder
from sim.ident import Names
from sim.kernel.actor import Context
from sim.units import SECOND

ASK_US = 30 * SECOND  # after which a program gives up a request


def account_of(pod: Obj) -> str:
    """The name of the service account of a pod."""
    return pod["spec"].get("serviceAccountName") or "default"


class WarningRecorder:
    """Records warnings only, for clusters so large that starts of pods must not leave events."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def event(
        self,
        obj: Obj,
        event_type: EventKind,
        reason: str,
        message: str,
        *,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Record the event unless it is of type Normal."""
        if event_type != "Normal":
            self._recorder.event(obj, event_type, reason, message, annotations=annotations)

    def tidy(self) -> None:
        """Release memory that is no longer used."""
        self._recorder.tidy()


class Nowhere:
    """The transport of an agent without API servers, in the place of upstream's missing clients."""

    def send(self, request: Request, on_reply: Callable[[Reply], None]) -> None:
        """Do nothing: there is no answer."""


class NodeClients:
    """The `Clients` of an agent, made of real clients.

    scheme: of the cluster
    transports: connects a process to the API servers from the host of its context
    normal_events: False drops all events of type Normal
    has_tokens: True if volumes hold tokens that the API server has signed
    extends_tokens: True if those of 3607 s count for a year, as API servers do it by default
    """

    has_tokens, extends_tokens = False, True

    def __init__(
        self,
        scheme: Scheme,
        names: Names,
        transports: Callable[[Context], Sequence[Transport]],
        *,
        normal_events: bool = True,
        tokens: TokenRules | None = None,
        programs: Callable[[Context], Sequence[Transport]] | None = None,
    ) -> None:
        """tokens: how the API servers issue them; None: volumes have none of them
        programs: connects programs of pods, if not like the agent
        """
        if tokens is not None:
            self.has_tokens, self.extends_tokens = True, tokens.extends
        self.scheme = scheme
        self._names = names
        self._transports = transports
        self._of_programs = programs or transports
        self._normal_events = normal_events
        self._connections: tuple[Context, Sequence[Transport], UserInfo] | None = None

    def _client(self, ctx: Context, node: str, qps: float, burst: int, timeout_us: int = 0) -> Client:
        # All clients of an incarnation share one connection to each server, as over HTTP/2.
        if self._connections is None or self._connections[0] is not ctx:
            self._connections = ctx, self._transports(ctx), user_of(self._names, node)
        _, transports, user = self._connections
        return Client(
            ctx, self.scheme, transports, user,
            qps=qps, burst=burst, agent=self._names.node_agent, timeout_us=timeout_us,
        )  # fmt: skip

    def main(self, ctx: Context, node: str, qps: int, burst: int) -> Client:
        """The rate-limited client for pods and for the registration of the node."""
        return self._client(ctx, node, qps, burst)

    def heartbeat(self, ctx: Context, node: str, timeout_us: int) -> Client:
        """The client of heartbeats, which is not rate limited."""
        return self._client(ctx, node, 0, 0, timeout_us)

    def account(self, ctx: Context, pod: Obj) -> Client:
        """The client of a program in a pod, which has the token of a service account."""
        names, namespace = self._names, pod["metadata"]["namespace"]
        groups = names.service_account_groups(namespace)
        user = UserInfo(names.service_account_user(namespace, account_of(pod)), groups)
        return Client(ctx, self.scheme, self._of_programs(ctx), user, agent="program", timeout_us=ASK_US)

    def recorder(self, ctx: Context, node: str, qps: int, burst: int) -> EventRecorder | WarningRecorder:
        """The recorder of events, which has a rate limit of its own."""
        client = self._client(ctx, node, qps, burst)
        recorder = EventRecorder(ctx, client, self._names.node_agent, node)
        return recorder if self._normal_events else WarningRecorder(recorder)
