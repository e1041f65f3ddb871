"""Connections of a client to ports of a pod.

Each connection has two channels: bytes, and an error; the client opens it by the port's number in
the channel of the error.

Mirrors  pkg/kubelet/server/server.go: getPortForward; pkg/kubelet/cri/streaming/portforward/
         {httpstream,websocket}.go (v1.25); containerd pkg/cri/server/sandbox_portforward_linux.go
         (v1.6).
Differs  no program of a pod listens yet: each connection is refused.
"""

from __future__ import annotations

from hashlib import sha256

from actors.node.agent import NodeAgent
from actors.node.server.logs import find_worker
from actors.node.server.peer import Peer, Refused, Session
from sim.api.streams import StreamRequest
from sim.units import go_quote


class Forwarding(Session):
    """One client's connections to a pod."""

    def __init__(self, agent: NodeAgent, request: StreamRequest, peer: Peer) -> None:
        worker = find_worker(agent, request.namespace, request.name)
        if worker is None:
            raise Refused(404, "pod does not exist")
        runtime = worker.runtime
        if runtime is None or not runtime.ready:
            raise Refused(500, f'pod not found ("{request.name}_{request.namespace}")')
        self._peer, self._runtime = peer, runtime
        self._sandbox = sha256(f"{runtime.uid}/{runtime.attempt}".encode()).hexdigest()

    def put(self, channel: int, data: bytes) -> None:
        """See `Session`."""
        self._peer.acknowledge(len(data))
        if channel % 2 and data:
            self._refuse(channel, data.decode("ascii", "replace"))

    def _refuse(self, channel: int, port: str) -> None:
        namespace = go_quote(f"/var/run/netns/cni-{self._sandbox[:8]}")
        text = (
            f"error forwarding port {port} to pod {self._sandbox}, uid : failed to execute portforward in network "
            f"namespace {namespace}: failed to connect to localhost:{port} inside namespace "
            f'"{self._sandbox}", IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused '
            f"IPv6 dial tcp6 [::1]:{port}: connect: connection refused "
        )
        self._peer.send_line(channel, text.encode())
        self._peer.close(channel)
        self._peer.close(channel - 1)

    def poll(self) -> None:
        """See `Session`: a stream ends with its pod's sandbox."""
        if not self._runtime.ready:
            self._peer.end()

    def stop(self) -> None:
        """See `Session`."""
