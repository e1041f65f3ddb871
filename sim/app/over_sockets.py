"""A cluster with actors that reach its API servers through sockets of the loopback.

A run of it has the trace of a run over channels in the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from sim.api.types import Endpoint
from sim.app.cluster import Cluster
from sim.client.rest.channel import Channel
from sim.kernel import Context
from sim.wire.loopback import Loopback


class SocketsCluster(Cluster):
    """A cluster with messages that cross sockets.  Fast paths, which send none, are off."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more | {"fast": False})
        self.loopback = Loopback()

    def connect(
        self, ctx: Context, doors: Mapping[str, Endpoint] | None = None, host: str = ""
    ) -> list[Channel]:
        """Channels from an actor to every API server, with messages that cross sockets."""
        return super().connect(ctx, self.loopback.servers(doors or self.api_servers), host)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            return await super().__aexit__(kind, error, traceback)
        finally:
            self.loopback.close()
