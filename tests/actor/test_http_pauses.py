"""The HTTP front in a process that is stopped for a while: no request and no answer is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sim.wire.exchange import SEND_S
from sim.wire.http.fronts.line import KEEP_ALIVE_S, Line
from sim.wire.http.gateway import REQUEST_TIMEOUT_S
from tests.actor.test_http import MAPS, served
from tests.actor.test_http_connections import GET, dial

PUT = "PUT {}/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\nContent-Length: {}\r\n\r\n"
BODY = b'{"metadata":{"name":"a"}}'

pytestmark = pytest.mark.usefixtures("each_front")


@pytest.fixture
def clock() -> MockClock:
    """Trio's time passes only by pauses, and so a limit ends only by one."""
    return MockClock()


async def get(stream: trio.SocketStream, path: str = "/version") -> int:
    """The code of the answer to a GET."""
    await stream.send_all(GET.format(path).encode())
    answer = b""
    while not answer.rstrip().endswith(b"}"):
        part = await stream.receive_some()
        assert part, answer
        answer += part
    return int(answer.split()[1])


def stopped_in(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, clock: MockClock, seconds: float
) -> Callable[[], int]:
    """Stop the process after each call of a method; returns the number of times."""
    method, stops = getattr(owner, name), 0

    async def paused(self: Any, *arguments: Any) -> Any:
        nonlocal stops
        result = await method(self, *arguments)
        stops += 1
        clock.jump(seconds)
        await trio.lowlevel.checkpoint()
        return result

    monkeypatch.setattr(owner, name, paused)
    return lambda: stops


@pytest.mark.parametrize("pause_s", [2.3, SEND_S + 1, 2 * KEEP_ALIVE_S])
async def test_connection_is_usable_after_a_pause_within_an_answer(
    monkeypatch: pytest.MonkeyPatch, clock: MockClock, pause_s: float
) -> None:
    async with served() as (_, client), await dial(client) as stream:
        stops = stopped_in(monkeypatch, Line, "write", clock, pause_s)
        for _ in range(4):
            assert await get(stream) == 200
        assert stops() >= 4


async def test_request_with_a_body_after_a_pause_is_carried_out(clock: MockClock) -> None:
    async with served() as (_, client), await dial(client) as stream:
        assert (await client.post(MAPS, content=BODY)).status_code == 201
        await stream.send_all(PUT.format(MAPS, len(BODY)).encode() + BODY[:5])
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        clock.jump(REQUEST_TIMEOUT_S + 1)
        await stream.send_all(BODY[5:])
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_idle_connection_outlives_a_pause(clock: MockClock) -> None:
    async with served() as (_, client), await dial(client) as stream:
        for _ in range(2):
            assert await get(stream) == 200
            clock.jump(2 * KEEP_ALIVE_S)
