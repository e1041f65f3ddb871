"""The connections of an API server to programs, which end with its process.

Holds: nothing of the pod network is imported before the first connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.api.streams import StreamRequest
from sim.api.types import Reply
from sim.kernel import Context

if TYPE_CHECKING:
    from actors.node.programs.network.fabric import Network
    from sim.app.dialling.backends import BackendStream


class Backends:
    """The connections of one API server.

    server: the API server's process; network: the sockets of its host
    """

    def __init__(self, server: Callable[[], Context], network: Callable[[], Network]) -> None:
        self._server, self._network = server, network
        self._streams: dict[BackendStream, None] = {}
        self._hooked: Context | None = None

    def dial(self, request: StreamRequest, failed: Callable[[str], Reply]) -> Reply:
        """A connection to the program that a request names.  failed: words what has gone wrong"""
        ctx = self._server()
        if ctx is not self._hooked:
            self._hooked = ctx
            ctx.on_stop(self._end)
        from sim.app.dialling.backends import BackendStream

        stream = BackendStream(ctx, self._network(), request, failed, self._left)
        self._streams[stream] = None
        return Reply(200, body="", stream=stream)

    def _left(self, stream: BackendStream) -> None:
        self._streams.pop(stream, None)

    def _end(self) -> None:
        """The API server's process ends."""
        for stream in tuple(self._streams):
            stream.stop()
