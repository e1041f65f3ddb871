"""Browsers and watches at once: none waits long, and one that does not read costs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.actor.steered import steered
from tests.bench.viewers import follow_all

PROBES = 6


@pytest.mark.slow
async def test_viewers_and_watches_learn_of_each_change(tmp_path: Path) -> None:
    async with steered(tmp_path, nodes=20, pace=5) as at:
        await at.ask("POST", "/time/run", {"for": "10s", "fast": True})
        await at.ask("POST", "/time/resume")
        client = at.clients["root"]
        port = client.base_url.port
        assert port is not None

        async def connect() -> trio.abc.Stream:
            return await trio.open_tcp_stream("127.0.0.1", port)

        figures = await follow_all(client, connect, "root", 10, 10, PROBES)
        assert figures.missed == 0
        assert (len(figures.viewers), len(figures.watches)) == (10 * PROBES, 10 * PROBES)
        await at.ask("POST", "/time/pause")
