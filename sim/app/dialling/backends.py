"""Connections to programs behind proxies: the API server's end, as a stream of bytes.

Channel 0 has the bytes in both directions, channel 1 the text of the error that broke the
connection.

Holds: at most `WINDOW` bytes wait for the client; the stream ends with the connection, and the
connection with the stream.

Mirrors  apimachinery v1.25 pkg/util/proxy/dial.go (dialURL).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator

from actors.node.programs.ends import BrokenPipe
from actors.node.programs.network.dialer import DIAL_S, NotDialled, dialled
from actors.node.programs.network.driving import Driven
from actors.node.programs.network.fabric import Network
from actors.node.programs.network.sockets import ERRORS, Address, Connection
from actors.node.programs.network.tls import Trust
from actors.node.programs.waits import Wait
from sim.api.streams import WINDOW, StreamRequest
from sim.api.types import Reply
from sim.kernel import Context
from sim.units import SECOND

BYTES, BROKEN = 0, 1


class BackendStream:
    """One connection (`sim.api.streams.Stream`)."""

    def __init__(
        self,
        ctx: Context,
        network: Network,
        request: StreamRequest,
        failed: Callable[[str], Reply],
        left: Callable[[BackendStream], None],
    ) -> None:
        """ctx: of the API server; network: of its host; failed: the answer where nothing is reached

        left: called at the end
        """
        self.request, self.ended = request, False
        self._ctx, self._network, self._failed, self._left = ctx, network, failed, left
        self._notify: Callable[[], None] | None = None
        self._came: deque[tuple[int, bytes]] = deque()
        self._untaken = 0  # bytes that the client has not read
        self._unsent: deque[tuple[bytes, Callable[[], None]]] = deque()
        self._connection: Connection | None = None
        self._driven: Driven[Connection | str] | None = None

    def open(self, opened: Callable[[Reply], None]) -> None:
        """See `Stream`."""
        host, port = self.request.backend
        trust = Trust() if self.request.encrypted else None

        def steps() -> Generator[Wait, None, Connection | str]:
            kernel = self._ctx.kernel
            until_us = kernel.now_us + DIAL_S * SECOND
            try:
                return (
                    yield from dialled(
                        self._network, Address(host, port), lambda: kernel.now_us, until_us, trust
                    )
                )
            except NotDialled as error:
                return str(error)

        def done(found: Connection | str) -> None:
            if isinstance(found, str):
                opened(self._failed(found))
                self._finish()
            else:
                self._connection = found
                opened(Reply(200))

        self._driven = Driven(self._ctx, steps(), done)

    def attach(self, notify: Callable[[], None]) -> None:
        """See `Stream`."""
        self._notify = notify
        self._pull()

    def take(self) -> list[tuple[int, bytes]]:
        """See `Stream`."""
        came = list(self._came)
        self._came.clear()
        return came

    def took(self, size: int) -> None:
        """See `Stream`."""
        self._untaken -= size
        self._pull()

    def put(self, channel: int, data: bytes, taken: Callable[[], None]) -> None:
        """See `Stream`."""
        if self.ended or channel != BYTES or self._connection is None:
            taken()
            return
        self._unsent.append((data, taken))
        if len(self._unsent) == 1:
            self._push()

    def stop(self) -> None:
        """See `Stream`."""
        if not self.ended:
            self._finish()

    def _push(self) -> None:
        """Write what waits, as far as there is room."""
        connection = self._connection
        assert connection is not None
        while self._unsent:
            data, taken = self._unsent[0]
            try:
                written = connection.write(data) if data else 0
            except BrokenPipe:
                written = len(data)  # the reader meets the end too
            if not data:
                connection.shutdown()
            if written < len(data):
                self._unsent[0] = data[written:], taken
                connection.writable.watch(self._push)
                return
            self._unsent.popleft()
            taken()

    def _pull(self) -> None:
        """Read what the program has written, as far as the client has room."""
        connection = self._connection
        if connection is None or self.ended:
            return
        connection.readable.unwatch(self._pull)
        before = len(self._came)
        while self._untaken < WINDOW:
            data = connection.read(WINDOW - self._untaken)
            if data is None:
                connection.readable.watch(self._pull)
                break
            if not data:
                if connection.error:
                    text = f"read tcp {connection.local}->{connection.peer}: read: {ERRORS[connection.error].lower()}"
                    self._came.append((BROKEN, text.encode()))
                self._finish()
                return
            self._untaken += len(data)
            self._came.append((BYTES, data))
        if len(self._came) > before and self._notify is not None:
            self._notify()

    def _finish(self) -> None:
        self.ended = True
        if self._driven is not None:
            self._driven.cancel()
        connection = self._connection
        if connection is not None:
            connection.readable.unwatch(self._pull)
            connection.writable.unwatch(self._push)
            connection.close()
        unsent, self._unsent = self._unsent, deque()
        for _, taken in unsent:
            taken()
        self._left(self)
        if self._notify is not None:
            self._notify()
