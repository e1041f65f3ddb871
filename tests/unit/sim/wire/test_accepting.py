"""The accept loop where descriptors are lacking, the guard of a connection, and the bound below the limit."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest
import trio
import trio.testing

from sim.wire.accepting import accept_connections, guarded
from sim.wire.descriptors import RESERVED, connections_below


class _Listener:
    """Gives what it was made with, an exception where it is one, then waits for ever."""

    def __init__(self, *results: Any) -> None:
        self._results = list(results)

    async def accept(self) -> Any:
        await trio.lowlevel.checkpoint()
        if not self._results:
            await trio.sleep_forever()
        result = self._results.pop(0)
        if isinstance(result, OSError):
            raise result
        return result


async def accepted(*results: Any) -> list[Any]:
    taken: list[Any] = []
    listener: Any = _Listener(*results)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept_connections, listener, taken.append)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return taken


def lacking() -> OSError:
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_lack_of_descriptors_closes_only_the_newest_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused, served = (trio.testing.memory_stream_pair()[0] for _ in range(2))
    assert await accepted(lacking(), refused, served) == [served]
    with pytest.raises(trio.ClosedResourceError):
        await refused.send_all(b"x")
    await served.send_all(b"x")
    assert [record.getMessage() for record in caplog.records] == [
        "a connection was refused: Too many open files"
    ]


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
    await accepted(lacking(), trio.testing.memory_stream_pair()[0])
    assert calls == ["open", "close", "open", "close"]


async def test_accept_loop_raises_other_errors() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await accepted(OSError(errno.EBADF, "closed"))
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


@pytest.mark.parametrize(
    ("limit", "most"), [(1024, 1024 - RESERVED), (256, 256 - RESERVED), (64, 32), (1, 1)]
)
def test_connections_stay_below_the_limit_of_descriptors(limit: int, most: int) -> None:
    assert connections_below(limit) == most
