"""A log that is followed until its container has ended, or read once.

Mirrors  pkg/kubelet/kuberuntime/logs/logs.go: ReadLogs, waitLogs (v1.25).
Differs  the end of a container is seen at the next look, once a second.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.node.agent import NodeAgent
from actors.node.programs.waits import Source
from actors.node.runtime.logs import LogReader
from actors.node.server.logs import clock_of, find_log
from actors.node.server.peer import Peer, Refused, Session
from sim.api.streams import STDERR, STDOUT, StreamRequest


class LineSender:
    """Sends the lines of a log as they are written, as far as the client takes them.

    single: all in one channel; otherwise by their stream
    """

    def __init__(self, agent: NodeAgent, reader: LogReader, peer: Peer, *, single: bool) -> None:
        self._agent, self._reader, self._peer = agent, reader, peer
        self._single = single
        self._watched: set[Source] = set()

    def send(self) -> bool:
        """Send what is new; True if nothing can follow."""
        clock, peer = clock_of(self._agent), self._peer
        if peer.ended:
            return True
        while (free := peer.free) and (lines := self._reader.read(clock, most=free)):
            for stream, data in lines:
                peer.send_line(STDERR if stream == "stderr" and not self._single else STDOUT, data)
        for source in (self._reader.written, None if peer.room.ready else peer.room):
            if source is not None and source not in self._watched:
                self._watched.add(source)
                source.watch(self._again(source))
        return self._reader.at_end(clock) and peer.room.ready

    @property
    def waits(self) -> bool:
        """True while the client has to take what it has been sent, before more is."""
        return not self._peer.room.ready

    def _again(self, source: Source) -> Callable[[], None]:
        def again() -> None:
            self._watched.discard(source)
            # Not at once: a program may be writing.
            self._agent.ctx.call_later_us(0, self._send_later)

        return again

    def _send_later(self, _: object) -> None:
        self.send()

    def stop(self) -> None:
        """Send nothing any more."""
        self._reader.done = True


class Following(Session):
    """One client that follows a log."""

    def __init__(self, agent: NodeAgent, request: StreamRequest, peer: Peer) -> None:
        assert request.log is not None
        self._peer, self._follows = peer, request.log.follow
        names = request.namespace, request.name, request.container
        reader, code, text = find_log(agent, *names, request.log)
        if reader is None:
            raise Refused(code, text)
        self._sender = LineSender(agent, reader, peer, single=True)

    def put(self, channel: int, data: bytes) -> None:
        """A client of a log has nothing to say."""
        self._peer.acknowledge(len(data))

    def poll(self) -> None:
        """Send what has been written."""
        if self._sender.send() or not (self._follows or self._sender.waits):
            self._peer.end()

    def stop(self) -> None:
        """The client has gone."""
        self._sender.stop()
