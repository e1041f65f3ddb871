"""Certificates and tokens of a client that are replaced while it runs, over TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from sim.api.types import WatchEvent
from sim.wire.authority import Authority
from sim.wire.rest.access import PAIR_PERIOD_S, TOKEN_PERIOD_S, Source
from sim.wire.tls import Pair, server_context
from tests.unit.sim.wire.rest.fake_server import (
    HOST,
    OPENED,
    Asked,
    Stream,
    event,
    piece,
    pod,
    pods,
    world,
)

CLIENTS, SERVERS = Authority("clients"), Authority("servers")


def keep(folder: Path, pair: Pair) -> None:
    (folder / "crt").write_bytes(pair.certificate)
    (folder / "key").write_bytes(pair.key)


def shown(stream: Any) -> str:
    """The user of the certificate that a client has shown."""
    subject = (stream.getpeercert() or {"subject": ()})["subject"]
    return str({key: value for part in subject for key, value in part}.get("commonName", ""))


@pytest.mark.slow
async def test_a_certificate_that_is_replaced_is_shown_and_ends_no_watch(tmp_path: Path) -> None:
    first, second = (CLIENTS.client(name, ()) for name in ("first", "second"))
    keep(tmp_path, first)
    users: list[str] = []
    watched: list[Stream] = []

    async def reply(asked: Asked, stream: Stream) -> None:
        users.append(shown(stream))
        if "watch=true" in asked.path:
            watched.append(stream)
            await stream.send_all(OPENED)
        else:
            await stream.send_all(pods("a"))

    context = server_context(SERVERS.server((HOST,)), CLIENTS.pem)
    context.set_alpn_protocols(["http/1.1"])
    files = {
        "authorities": Source(SERVERS.pem),
        "certificate": Source(file=tmp_path / "crt"),
        "key": Source(file=tmp_path / "key"),
    }
    async with world(reply, context, **files) as found:
        now_s = trio.current_time()
        found.credentials._clock = lambda: now_s
        watch = (await found.ask("watch")).watch
        assert watch is not None
        events: list[WatchEvent] = []
        watch.attach(lambda: events.extend(watch.take()))
        (tmp_path / "crt").write_bytes(second.certificate)  # without its key so far
        assert (await found.ask()).code == 200
        now_s += PAIR_PERIOD_S
        assert (await found.ask()).code == 200
        keep(tmp_path, second)
        assert (await found.ask()).code == 200
        assert users == ["first", "first", "first", "second"]
        await watched[0].send_all(piece(event("ADDED", pod("b", 11))))
        await found.until(lambda: events)
        assert not watch.ended


async def test_a_token_that_is_replaced_is_sent_within_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    sent: list[str] = []

    async def reply(asked: Asked, stream: Stream) -> None:
        sent.append(asked.header("authorization"))
        await stream.send_all(pods("a"))

    context = server_context(SERVERS.server((HOST,)), b"")
    context.set_alpn_protocols(["http/1.1"])
    async with world(reply, context, authorities=Source(SERVERS.pem), token=Source(file=file)) as found:
        now_s = trio.current_time()
        found.credentials._clock = lambda: now_s
        await found.ask()
        file.write_text("second")
        await found.ask()
        now_s += TOKEN_PERIOD_S
        await found.ask()
        file.unlink()
        now_s += TOKEN_PERIOD_S
        await found.ask()
    assert sent == [f"Bearer {token}" for token in ("first", "first", "second", "second")]
