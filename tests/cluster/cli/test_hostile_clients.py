"""`orrery serve` as a process, with clients that send nonsense, take all descriptors, or do not read."""

from __future__ import annotations

import resource
import signal
import socket

import pytest
import trio

from tests.bench.wire_fuzz import HOST, Outcome, crowd, fuzz, judged, serving, trusting

pytestmark = pytest.mark.slow
DESCRIPTORS, CONNECTIONS = 256, 300
UNREAD = 20 * b"GET /openapi/v2 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n\r\n"


def test_server_survives_mutated_bytes_and_serves_everybody_else() -> None:
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
