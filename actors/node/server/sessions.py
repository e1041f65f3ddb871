"""The open streams of one agent: how they begin, and all ways in which they end.

Turns the messages of a connection from an API server into a session, and its end into the last
message.

Holds: a session ends with its client, its container, its pod and its agent, and when no byte has
passed for `streaming-connection-idle-timeout`; an agent has at most `SESSIONS_MAX` at once.

Mirrors  pkg/kubelet/server/server.go: getExec, getAttach, getPortForward (v1.25).
Differs  upstream does not bound the number of streams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.node.agent import NodeAgent
from actors.node.server import commands, following, ports
from actors.node.server.peer import Peer, Refused, Session
from sim.api.streams import StreamRequest
from sim.units import SECOND

SESSIONS_MAX = 500  # of one agent; each holds up to two windows of bytes
POLL_US = SECOND  # kuberuntime/logs/logs.go: waitLogs looks each second at the container


class Sessions:
    """The sessions of an incarnation of an agent."""

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._open: dict[Peer, tuple[Session, Callable[[], None]]] = {}
        self._polls = False
        agent.ctx.on_stop(self._stop)

    @property
    def peers(self) -> tuple[Peer, ...]:
        """The clients of the open sessions."""
        return tuple(self._open)

    def begin(
        self, request: StreamRequest, send: Callable[[Any], None], lost: Callable[[], None]
    ) -> tuple[Peer, Session] | None:
        """Open a session, or refuse it.

        send: takes messages to the client; lost: called if the agent's process ends before
        """
        # A log that is followed has no such limit.
        idle_max_us = 0 if request.kind == "log" else self._agent.options.streaming_idle_us
        peer = Peer(send, idle_max_us)
        try:
            if len(self._open) >= SESSIONS_MAX:
                raise Refused(429, "the node's agent has too many streams")
            session = open_session(self._agent, request, peer)
        except Refused as refused:
            send(("refused", (refused.code, str(refused))))
            return None
        send(("opened", 0))
        self._open[peer] = session, lost
        session.poll()
        if not self._polls:
            self._polls = True
            self._agent.ctx.call_later_us(POLL_US, self._poll)
        return peer, session

    def leave(self, peer: Peer) -> None:
        """The client of a session has gone."""
        known = self._open.pop(peer, None)
        peer.ended = True
        if known is not None:
            known[0].stop()

    def _poll(self, __: Any) -> None:
        for peer, (session, _) in list(self._open.items()):
            if not peer.ended:
                session.poll()
            peer.idle_us += POLL_US
            if 0 < peer.idle_max_us <= peer.idle_us:
                peer.end()
                session.stop()
            if peer.ended:
                del self._open[peer]
        self._polls = bool(self._open)
        if self._polls:
            self._agent.ctx.call_later_us(POLL_US, self._poll)

    def _stop(self) -> None:
        """The agent's process ends; its sockets are closed."""
        for peer, (_, lost) in tuple(self._open.items()):
            self.leave(peer)
            lost()


def sessions_of(agent: NodeAgent) -> Sessions:
    """The sessions of an agent."""
    if agent.sessions is None:
        agent.sessions = Sessions(agent)
    sessions = agent.sessions
    assert isinstance(sessions, Sessions)
    return sessions


def open_session(agent: NodeAgent, request: StreamRequest, peer: Peer) -> Session:
    """A session of any kind.  Raises Refused."""
    kinds: dict[str, Callable[[NodeAgent, StreamRequest, Peer], Session]] = {
        "log": following.Following,
        "exec": commands.Command,
        "attach": commands.Attachment,
        "portforward": ports.Forwarding,
    }
    return kinds[request.kind](agent, request, peer)
