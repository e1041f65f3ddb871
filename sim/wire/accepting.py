"""The accept loop of every listener, and the guard around every connection.

Turns a listener into connections that are handed to a callback.  A lack of descriptors costs the
newest connection: a descriptor is kept in reserve, given up to accept that connection, and taken
again when the connection is closed. Without it, the connection would stay in the queue of the
listener and its client would wait without an answer.

Holds: the loop ends only when its listener is closed or it is cancelled; an exception of one
connection ends that connection and leaves one line in the log.

Mirrors  golang net/http server.go (Server.Serve: temporary errors of accept; conn.serve: recovered
         panics), at go1.19.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from sim.errors import first_of

LOG = logging.getLogger(__name__)
LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
RETRY_S = 0.1
REASON_MAX = 200  # letters of an exception's text in a log line


async def accept_connections(
    listener: trio.SocketListener,
    take: Callable[[trio.SocketStream], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Accept until cancelled.  take: is given each connection and returns at once."""
    with _Reserve() as reserve:
        task_status.started()
        lacking = False  # since the last connection that was taken
        pending = False  # a connection is in the queue
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if error.errno not in LACKING:
                    raise
                if pending:
                    if not lacking:
                        LOG.error("a connection was refused: %s", error.strerror)
                    lacking = True
                    await _refuse_newest(listener, reserve)
                else:
                    # Linux reports this also while no connection waits.
                    await trio.lowlevel.wait_readable(listener.socket)
                pending = not pending
                continue
            lacking = pending = False
            take(stream)


async def _refuse_newest(listener: trio.SocketListener, reserve: _Reserve) -> None:
    """Close the connection that there is no descriptor for."""
    reserve.give_up()
    try:
        with trio.move_on_after(RETRY_S):  # its client may have gone
            refused = await listener.accept()
            refused.socket.close()
    except OSError:
        await trio.sleep(RETRY_S)  # another part of the process took the descriptor
    finally:
        reserve.take()


class _Reserve:
    """A descriptor kept open, to be closed when no other is left."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def __enter__(self) -> _Reserve:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.give_up()

    def take(self) -> None:
        """Opens the reserve."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(os.devnull, os.O_RDONLY)
            except OSError:
                return  # it is tried again after the next connection

    def give_up(self) -> None:
        """Closes the reserve."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def guarded(peer: str) -> Iterator[None]:
    """Log exceptions of one connection, one line, instead of raising them.  Cancellation passes."""
    try:
        yield
    except* Exception as met:
        log_failure(peer, met)


def log_failure(peer: str, met: ExceptionGroup[Exception]) -> None:
    """Write one line about the first exception of a connection: what it was and where it was
    raised.
    """
    error = first_of(met)
    place, trace = "", error.__traceback__
    while trace is not None:
        place, trace = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}", trace.tb_next
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:REASON_MAX]
    LOG.error("connection of %s closed: %s (%s)", peer, reason, place)
