"""Bodies of HTTP/1.1 requests, by length and in chunks."""

from __future__ import annotations

import pytest
import trio

from sim.wire.exchange import BODY_MAX, DISCARDED_MAX
from sim.wire.http.fronts.bodies import LINE_MAX, DirectBody
from sim.wire.http.fronts.heads import CHUNKED
from sim.wire.http.fronts.http1 import Refused

CHUNKS = b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n"


async def never(_: DirectBody) -> None:
    raise AssertionError("all of it is there")


async def text_of(body: DirectBody) -> bytes | None:
    assert body.ended
    return await body.read()


@pytest.mark.parametrize("cut", range(len(CHUNKS)))
async def test_chunks_make_up_the_body_however_they_are_cut_up(cut: int) -> None:
    body = DirectBody(CHUNKED, never)
    assert body.take(CHUNKS[:cut]) == b""
    assert not body.ended
    assert body.take(CHUNKS[cut:] + b"next") == b"next"
    assert await text_of(body) == b"hello!"
    assert body.complete


async def test_body_has_the_announced_length() -> None:
    body = DirectBody(5, never)
    assert body.take(b"he") == b""
    assert body.take(b"llonext") == b"next"
    assert await text_of(body) == b"hello"


@pytest.mark.parametrize(
    "data",
    [
        b"x\r\n",
        b"\r\n",
        b"-1\r\n",
        b"0x5\r\n",
        b" 5\r\n",
        b"5 5\r\n",
        b"5\nhello\r\n",
        b"5\rhello\r\n",
        b"1" * 16 + b"\r\n",
        b"5;" + b"a" * LINE_MAX + b"\r\n",
        b"5" * (LINE_MAX + 1),
        b"5\r\nhello0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhello\r\r\n",
        b"0\r\nA: b\nB: c\r\n\r\n",
        b"0\r\n" + b"A: b\r\n" * 20_000,
    ],
)
def test_malformed_chunks_are_refused(data: bytes) -> None:
    body = DirectBody(CHUNKED, never)
    with pytest.raises(Refused) as met:
        body.take(data)
    assert met.value.code == 400


@pytest.mark.parametrize("chunked", [False, True])
async def test_body_beyond_the_limit_is_thrown_away_until_it_is_too_long(chunked: bool) -> None:
    size = DISCARDED_MAX + 1
    body = DirectBody(CHUNKED if chunked else size, never)
    if chunked:
        body.take(b"%x\r\n" % size)
    body.take(BODY_MAX * b" ")
    assert not body.too_large
    body.take(b" ")
    assert body.too_large
    assert await body.read() is None
    assert not body.ended
    body.take((size - BODY_MAX - 1) * b" ")
    assert body.ended
    assert body.complete is not chunked


async def test_rest_of_a_body_is_skipped_with_nothing_kept() -> None:
    parts = [b"he", b"llo"]

    async def more(body: DirectBody) -> None:
        await trio.lowlevel.checkpoint()
        body.take(parts.pop(0))

    body = DirectBody(5, more)
    await body.skip()
    assert body.complete
    assert await body.read() == b""
