"""`orrery serve` as a process, with clients that send nonsense, take all descriptors, or do not
read.
"""

from __future__ import annotations

import resource
import signal
import socket

import pytest
import trio

from tests.bench.wire_fuzz import (
    GONE,
    HOST,
    Outcome,
    Server,
    crowd,
    encrypted,
    fuzz,
    get,
    judged,
    serving,
    settle,
    trusting,
)

pytestmark = pytest.mark.slow
DESCRIPTORS, CONNECTIONS = 256, 300
UNREAD = 20 * b"GET /openapi/v2 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n\r\n"


def test_server_survives_mutated_bytes_and_serves_all_other_clients() -> None:
    with serving() as server:
        outcome = judged(server, trio.run(fuzz, server, 300, 1))
    assert outcome.failures == []
    assert outcome.codes["400"] > 0


def test_more_connections_than_descriptors_are_all_served() -> None:
    with serving(DESCRIPTORS) as server:
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (DESCRIPTORS, DESCRIPTORS)
        outcome = judged(server, trio.run(crowd, server, CONNECTIONS))
    assert outcome.failures == []
    assert len(outcome.served_s) == CONNECTIONS


async def use_up(server: Server, outcome: Outcome, spare: int) -> None:
    """Leave the server a number of descriptors, open more connections than that, close them and
    open another.
    """
    before, context, kept, refused = server.descriptors, trusting(), [], 0
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (before + spare, before + spare))
    for _ in range(spare + 5):
        try:
            kept.append(await encrypted(server.port, context))
        except GONE:
            refused += 1
    assert refused >= 5
    assert [await get(stream) for stream in kept] == [200] * len(kept)
    for stream in kept:
        await trio.aclose_forcefully(stream)
    await settle(server, before, outcome)
    async with await encrypted(server.port, context) as stream:
        assert await get(stream) == 200


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="asks Linux")
def test_lack_of_descriptors_costs_the_newest_connections_only() -> None:
    with serving() as server:
        outcome = Outcome()
        trio.run(use_up, server, outcome, 10)
        judged(server, outcome)
        assert server.log == ["a connection was refused: Too many open files"]
    assert outcome.failures == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_server_though_a_client_does_not_read(number: signal.Signals) -> None:
    with serving() as server, socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect((HOST, server.port))
        with trusting().wrap_socket(raw, server_hostname=HOST) as client:
            client.sendall(UNREAD.replace(b"TOKEN", server.token.encode()))
            assert client.recv(12) == b"HTTP/1.1 200"  # the rest is left unread
            outcome = judged(server, Outcome(), number)
    assert outcome.failures == []
