"""Connections of a client to ports of a pod.

Each connection has two channels: bytes, and an error; the client opens it by the port's number in
the channel of the error.

Holds: a client has at most `CONNECTIONS_MAX` connections at once; a connection ends with its
session, and its session with the pod's sandbox.

Mirrors  pkg/kubelet/server/server.go: getPortForward; pkg/kubelet/cri/streaming/portforward/
         {httpstream,websocket}.go (v1.25); containerd pkg/cri/server/sandbox_portforward_linux.go
         (v1.6): once one direction has ended, the other has one more second; the end of the
         client's bytes is not passed on.
Differs  of the two addresses of localhost only that of IPv4 is dialled.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from actors.node.agent import NodeAgent
from actors.node.programs.network.fabric import LOOPBACK, Network
from actors.node.programs.network.sockets import ERRORS, WINDOW, Connection, SocketError
from actors.node.server.inputs import Input
from actors.node.server.logs import find_worker
from actors.node.server.peer import Peer, Refused, Session
from sim.api.streams import StreamRequest
from sim.units import SECOND, go_quote

CONNECTIONS_MAX = 256  # as many streams as a connection of SPDY has here
LINGER_US = SECOND  # sandbox_portforward_linux.go: portForward, timeout
PORT_MAX = 65535


class _Forwarded:
    """One connection: copies in both directions.

    port: as the client has written it
    over: True once nothing is copied any more
    """

    def __init__(self, session: Forwarding, channel: int, port: str) -> None:
        """channel: of the bytes; that of the error is the next"""
        self._session, self._channel = session, channel
        self.port, self.over = port, False
        self._held: list[bytes] = []  # before the connection is made
        self._input: Input | None = None
        self._connection: Connection | None = None
        self._eof = False
        self._attempt = session.network.connect(LOOPBACK, int(port))
        if self._attempt.ready:
            self._connected()
        else:
            self._attempt.watch(self._connected)

    def put(self, data: bytes) -> None:
        """Bytes of the client; b"": their end."""
        if self.over:
            self._session.peer.acknowledge(len(data))
            return
        if self._input is None:
            self._held.append(data)
            return
        self._input.put(data)
        if not data:
            self._half_ended()

    def _connected(self) -> None:
        if self.over:
            return
        connection = self._attempt.connection
        if connection is None:
            self.close(self._session.refusal(self.port))
            return
        self._connection = connection
        self._input = Input(self._session.peer.acknowledge, connection, closes=False)
        held, self._held = self._held, []
        for data in held:
            self.put(data)
        self.pull()

    def pull(self) -> None:
        """Copy what the program has written, as far as the client has room."""
        connection, peer = self._connection, self._session.peer
        if connection is None or self.over or self._eof:
            return
        while peer.free:
            data = connection.read(min(peer.free, WINDOW))
            if data is None:
                connection.readable.watch(self.pull)
                return
            if not data:
                self._eof = True
                self._half_ended()
                return
            peer.send(self._channel, data)
        peer.room.watch(self.pull)

    def _half_ended(self) -> None:
        """One direction has ended."""
        connection, source = self._connection, self._input
        assert connection is not None
        assert source is not None
        error = ""
        if connection.error:
            route = f"tcp4 {connection.local}->{connection.peer}"
            why = f"read {route}: read: {ERRORS[connection.error].lower()}"
            error = self._session.failure(self.port, why)
        if self._eof and source.closed:
            self.close(error)
        else:
            self._session.later(lambda: self.close(error))

    def close(self, error: str = "") -> None:
        """End the connection.  error: why, for the client"""
        if self.over:
            return
        self.over = True
        connection, peer = self._connection, self._session.peer
        if self._input is not None:
            self._input.close()
        if connection is None:
            self._attempt.abandon()
        else:
            connection.readable.unwatch(self.pull)
            connection.close()
        peer.acknowledge(sum(map(len, self._held)))
        peer.room.unwatch(self.pull)
        if error:
            peer.send_line(self._channel + 1, error.encode())
        peer.close(self._channel + 1)
        peer.close(self._channel)
        self._session.forget(self._channel)


class Forwarding(Session):
    """One client's connections to a pod."""

    def __init__(self, agent: NodeAgent, request: StreamRequest, peer: Peer) -> None:
        worker = find_worker(agent, request.namespace, request.name)
        if worker is None:
            raise Refused(404, "pod does not exist")
        runtime = worker.runtime
        if runtime is None or not runtime.ready:
            raise Refused(500, f'pod not found ("{request.name}_{request.namespace}")')
        self.peer, self._runtime, self._ctx = peer, runtime, agent.ctx
        self.network: Network = agent.machine.programs_of(runtime, agent.ctx.kernel).network()
        self._sandbox = sha256(f"{runtime.uid}/{runtime.attempt}".encode()).hexdigest()
        self._shares_host = bool(worker.pod["spec"].get("hostNetwork"))
        self._open: dict[int, _Forwarded] = {}

    def put(self, channel: int, data: bytes) -> None:
        """See `Session`."""
        if channel % 2:
            self.peer.acknowledge(len(data))
            if data:
                self._begin(channel - 1, data.decode("ascii", "replace"))
        elif channel in self._open:
            self._open[channel].put(data)
        else:
            self.peer.acknowledge(len(data))

    def _begin(self, channel: int, port: str) -> None:
        why = ""
        if not (port.isascii() and port.isdecimal() and 0 < int(port) <= PORT_MAX):
            why = f"invalid port {port}"
        elif len(self._open) >= CONNECTIONS_MAX:
            why = "too many open files"
        if not why and channel not in self._open:
            try:
                begun = _Forwarded(self, channel, port)
            except SocketError as error:
                why = error.text.lower()
            else:
                if not begun.over:
                    self._open[channel] = begun
                return
        self.peer.send_line(channel + 1, self.refusal(port, why).encode())
        self.peer.close(channel + 1)
        self.peer.close(channel)

    def refusal(self, port: str, why: str = "connection refused") -> str:
        """What the client is shown about a port that cannot be connected to."""
        return self.failure(
            port,
            f'failed to connect to localhost:{port} inside namespace "{self._sandbox}", '
            f"IPv4: dial tcp4 127.0.0.1:{port}: connect: {why} IPv6 dial tcp6 [::1]:{port}: connect: {why} ",
        )

    def failure(self, port: str, why: str) -> str:
        """What the client is shown about a connection that has failed."""
        namespace = "host" if self._shares_host else f"/var/run/netns/cni-{self._sandbox[:8]}"
        return (
            f"error forwarding port {port} to pod {self._sandbox}, uid : failed to execute portforward in network "
            f"namespace {go_quote(namespace)}: {why}"
        )

    def later(self, close: Callable[[], None]) -> None:
        """Close a connection after a while."""
        self._ctx.call_later_us(LINGER_US, lambda _: close())

    def forget(self, channel: int) -> None:
        """A connection is over."""
        self._open.pop(channel, None)

    def poll(self) -> None:
        """See `Session`: a stream ends with its pod's sandbox."""
        if not self._runtime.ready:
            self.stop()
            self.peer.end()

    def stop(self) -> None:
        """See `Session`."""
        for connection in tuple(self._open.values()):
            connection.close()
