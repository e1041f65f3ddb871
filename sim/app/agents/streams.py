"""Streams from an API server to the agents of nodes, over the simulated network.

Turns a `StreamRequest` into a connection to the agent of a node, and its messages into bytes for
the client of the API server.

Holds: a stream ends with either process; while the link between the two is cut, bytes wait, and
after a while the connection is lost.

Mirrors  apimachinery v1.25 pkg/util/proxy/upgradeaware.go (ServeHTTP); golang net/dial.go.
Differs  TCP and TLS take no messages of their own: the agent has the request after one delay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sim.api import status
from sim.api.streams import WINDOW, StreamRequest
from sim.api.types import Reply
from sim.kernel.connection import LOST_US, Connection
from sim.units import SECOND

if TYPE_CHECKING:
    from actors.node.node import Node
    from actors.node.server.exchange import AgentRequest, AgentResponse
    from sim.kernel import Context

DIAL_US = 30 * SECOND  # pkg/kubelet/client/kubelet_client.go: MakeTransport, the dialer's default


class AgentStream:
    """The API server's end of one stream (`sim.api.streams.Stream`)."""

    def __init__(
        self,
        ctx: Context,
        node: Node,
        request: StreamRequest,
        address: str,
        left: Callable[[AgentStream], None],
        *,
        upgrades: bool,
        sent: AgentRequest | None = None,
    ) -> None:
        """ctx: of the API server; address: of the agent; left: called at the end; upgrades: how
        failures are worded

        sent: what the agent checks access by; None if it has done that
        """
        self._left, self._request = left, sent
        self._kernel, self._node, self.request = ctx.kernel, node, request
        self._address, self._upgrades = address, upgrades
        self._opened: Callable[[Reply], None] | None = None
        self._notify: Callable[[], None] | None = None
        self._came: deque[tuple[int, bytes]] = deque()
        self._under_way = 0
        self._waiting: list[Callable[[], None]] = []
        self._agent_side: Any = None  # (sessions, peer, session)
        self.ended = False
        self._server = ctx.name

    # --- the API server's side --------------------------------------------------------------------

    def open(self, opened: Callable[[Reply], None]) -> None:
        """See `Stream`."""
        self._opened = opened
        hosts = self._server, self._node.name
        self._link = Connection(self._kernel, *hosts, self._at_agent, self._at_server, self._lose)
        self._link.up.send(("open", 0))
        self._kernel.timer_at(self._kernel.now_us + DIAL_US, self._time_out)

    def attach(self, notify: Callable[[], None]) -> None:
        """See `Stream`."""
        self._notify = notify
        notify()

    def take(self) -> list[tuple[int, bytes]]:
        """See `Stream`."""
        came = list(self._came)
        self._came.clear()
        return came

    def took(self, size: int) -> None:
        """See `Stream`."""
        self._link.up.send(("took", size))

    def put(self, channel: int, data: bytes, taken: Callable[[], None]) -> None:
        """See `Stream`."""
        if self.ended:
            taken()
            return
        self._under_way += len(data)
        self._link.up.send((channel, data))
        if self._under_way < WINDOW:
            taken()
        else:
            self._waiting.append(taken)

    def stop(self) -> None:
        """See `Stream`."""
        if not self.ended and self._link is not None:
            self._link.up.send(("stop", 0))
            # The client's side ends at once; the agent's when it gets to know.
            self._finish()

    def _finish(self) -> None:
        self.ended = True
        waiting, self._waiting = self._waiting, []
        for taken in waiting:
            taken()
        self._left(self)
        if self._notify is not None:
            self._notify()

    def _answer(self, reply: Reply) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened(reply)

    def _fail(self, why: str) -> None:
        """There is no connection."""
        self._link.close()
        self._answer(self._failure(why))
        self._finish()

    def _failure(self, why: str) -> Reply:
        backend = f"error dialing backend: {why}"
        return Reply(500, body=status.internal_error(backend) if self._upgrades else status.plain_error(why))

    def _time_out(self, _: Any) -> None:
        if self._opened is not None:
            self._fail(f"dial tcp {self._address}: i/o timeout")

    def _lose(self) -> None:
        """The connection is lost."""
        self._leave()
        if self._opened is not None:
            self._fail(f"dial tcp {self._address}: connect: no route to host")
        elif not self.ended:
            self._finish()

    def _at_server(self, message: Any) -> None:
        what, value = message
        if what == "opened":
            self._answer(Reply(200))
        elif what == "refused":
            self._link.close()
            self._answer(Reply(value[0], body=value[1]))
            self._finish()
        elif what == "none":
            self._fail(f"dial tcp {self._address}: connect: connection refused")
        elif what == "took":
            self._under_way -= value
            while self._waiting and self._under_way < WINDOW:
                self._waiting.pop(0)()
        elif what == "end":
            self._link.close()
            self._finish()
        else:
            self._came.append(message)
            if self._notify is not None:
                self._notify()

    # --- the agent's side -------------------------------------------------------------------------

    def _at_agent(self, message: Any) -> None:
        agent = self._node.machine.agent
        if agent is not None:
            agent.ctx.run(self._do, message)  # a process that hangs reads later
        elif message[0] == "open" and self._node.machine.powered:
            self._link.down.send(("none", 0))

    def _do(self, message: Any) -> None:
        what, value = message
        if what == "open":
            self._check()
            return
        if self._agent_side is None:
            return
        _, peer, session = self._agent_side
        if what == "took":
            peer.took(value)
        elif what == "stop":
            self._leave()
            self._link.close()
        elif peer.ended:
            peer.acknowledge(len(value))
        else:
            session.put(what, value)

    def _check(self) -> None:
        """The agent lets the API server in, or does not."""
        agent = self._node.machine.agent
        if self._request is None or agent.options.lets_all_in:
            self._begin(agent)
            return
        from actors.node.server.server import server_of

        def checked(refusal: AgentResponse | None) -> None:
            if refusal is None:
                self._begin(agent)
            elif not self._link.closed:
                self._link.down.send(("refused", (refusal.code, refusal.body.decode())))

        server_of(agent).access.check(self._request, checked)

    def _begin(self, agent: Any) -> None:
        from actors.node.server.sessions import sessions_of

        if self._link.closed:
            return
        sessions = sessions_of(agent)
        begun = sessions.begin(self.request, self._link.down.send, self._reset)
        if begun is not None:
            self._agent_side = sessions, *begun

    def _leave(self) -> None:
        side, self._agent_side = self._agent_side, None
        if side is not None:
            side[0].leave(side[1])

    def _reset(self) -> None:
        """The agent's process has ended: the client notices it, unless the machine is off."""
        self._agent_side = None
        if not self._link.closed:
            self._kernel.timer_at(self._kernel.now_us, self._tell_reset)

    def _tell_reset(self, _: Any) -> None:
        if self._node.machine.powered:
            self._link.down.send(("end", 0))
        else:
            self._kernel.timer_at(self._kernel.now_us + LOST_US, lambda _: self._link.lose())
