"""The accept loop where descriptors are lacking, and the guard of a connection."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from sim.wire.accepting import accept_connections, guarded


class _Listener:
    """A listener with next accepts that raise the exceptions in `failures`."""

    def __init__(self, listener: trio.SocketListener, *failures: OSError) -> None:
        self.failures = list(failures)
        self.socket = listener.socket
        self._listener = listener

    async def accept(self) -> trio.SocketStream:
        if self.failures:
            raise self.failures.pop(0)
        return await self._listener.accept()


@asynccontextmanager
async def accepting(*failures: OSError) -> AsyncIterator[tuple[_Listener, Callable[[], Any]]]:
    """An accept loop that answers each connection with one byte; yields its listener and how to
    connect.
    """
    (real,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    listener: Any = _Listener(real, *failures)

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(b"x")

    def take(stream: trio.SocketStream) -> None:
        nursery.start_soon(serve, stream)

    async def answer() -> bytes:
        async with await trio.testing.open_stream_to_socket_listener(real) as stream:
            with trio.fail_after(5):
                return bytes(await stream.receive_some())

    async with real, trio.open_nursery() as nursery:
        nursery.start_soon(accept_connections, listener, take)
        yield listener, answer
        nursery.cancel_scope.cancel()


def lacking() -> OSError:
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_lack_of_descriptors_closes_only_the_newest_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with accepting(lacking(), lacking()) as (_, answer):
        assert [await answer() for _ in range(3)] == [b"", b"x", b"x"]
    assert [record.getMessage() for record in caplog.records] == [
        "a connection was refused: Too many open files"
    ]


async def test_lack_of_descriptors_while_no_connection_waits_closes_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with accepting(lacking()) as (listener, answer):
        await trio.testing.wait_all_tasks_blocked()
        assert not listener.failures
        assert await answer() == b"x"
    assert not caplog.records


async def test_accept_loop_gives_the_reserved_descriptor_to_the_refused_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    really_open, really_close = os.open, os.close

    def opened(*arguments: Any) -> int:
        calls.append("open")
        return really_open(*arguments)

    def closed(descriptor: int) -> None:
        calls.append("close")
        really_close(descriptor)

    monkeypatch.setattr("sim.wire.accepting.os.open", opened)
    monkeypatch.setattr("sim.wire.accepting.os.close", closed)
    async with accepting(lacking(), lacking()) as (_, answer):
        assert await answer() == b""
        await trio.testing.wait_all_tasks_blocked()
    assert calls == ["open", "close", "open", "close"]


async def test_accept_loop_raises_other_errors() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with accepting(OSError(errno.EBADF, "closed")):
            await trio.sleep_forever()
    assert raised.group_contains(OSError, match="closed")


def test_exception_of_a_guarded_connection_is_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with guarded("a client"):
        raise ExceptionGroup("nursery", [ExceptionGroup("inner", [ValueError("two\nlines")])])
    (record,) = caplog.records
    assert record.getMessage().startswith("connection of a client closed: ValueError: two lines (")
    assert record.exc_info is None


def test_guard_lets_cancellation_pass() -> None:
    with pytest.raises(KeyboardInterrupt), guarded("a client"):
        raise KeyboardInterrupt
