"""The body of a request: how much of it is held, and when."""

from __future__ import annotations

import trio
import trio.testing

from sim.wire.exchange import BODY_MAX, DISCARDED_MAX, HELD_MAX, Body


async def test_body_holds_little_until_it_is_asked_for() -> None:
    body, taken = Body(), 0

    async def take() -> None:
        nonlocal taken
        for left in reversed(range(4)):
            await body.room()
            body.take(HELD_MAX * b"a", left > 0)
            taken += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        assert taken == 1
        assert await body.read() == 4 * HELD_MAX * b"a"


async def test_dropped_body_keeps_nothing() -> None:
    body = Body()
    body.take(b"a", True)
    body.drop()
    await body.room()
    body.take(HELD_MAX * b"a", True)
    body.take(b"b", False)
    assert body.ended
    assert await body.read() == b""


async def test_body_beyond_the_limit_is_none_and_ends_at_what_is_discarded() -> None:
    body = Body()
    body.take(BODY_MAX * b"a", True)
    assert not body.too_large
    body.take(b"a", True)
    assert await body.read() is None
    assert not body.ended
    body.take((DISCARDED_MAX - BODY_MAX) * b"a", True)
    assert body.ended


async def test_client_is_asked_for_its_body_once_it_is_read() -> None:
    asked = []

    async def ask() -> None:
        asked.append(True)
        body.take(b"a", False)

    body = Body(ask)
    assert not asked
    assert await body.read() == b"a"
    assert await body.read() == b"a"
    assert asked == [True]
