"""How a process of the cluster itself connects to a program, with TLS or without.

Mirrors  apimachinery v1.25 pkg/util/net/http.go (SetTransportDefaults, the dialer's 30 s); golang
         net/dial.go, net/http transport.go at go1.19: the texts of failures.
Differs  TLS is a handshake of programs of their own (`actors.node.programs.network.tls`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from actors.node.programs.network.fabric import Network
from actors.node.programs.network.sockets import ERRORS, Address, Connection
from actors.node.programs.network.tls import TlsError, Trust, shake
from actors.node.programs.waits import Wait

DIAL_S = 30


class NotDialled(Exception):
    """There is no connection; the message is Go's."""


def dialled(
    network: Network,
    target: Address,
    now_us: Callable[[], int],
    until_us: int,
    trust: Trust | None,
) -> Generator[Wait, None, Connection]:
    """A connection from a host, which its owner closes.  Raises NotDialled.

    until_us: when to give up
    trust: how to verify the server's certificate; None for a connection without TLS
    """
    attempt = network.connect(target.host, target.port)
    taken = False
    try:
        while not attempt.ready:
            if now_us() >= until_us:
                raise NotDialled(f"dial tcp {target}: i/o timeout")
            yield Wait((attempt,), until_us)
        connection = attempt.connection
        if connection is None:
            raise NotDialled(f"dial tcp {target}: connect: {ERRORS[attempt.code].lower()}")
        if trust is not None:
            yield from shake(connection, trust, now_us, until_us)
        taken = True
        return connection
    except TlsError as error:
        raise NotDialled(str(error)) from None
    finally:
        if not taken:
            attempt.abandon()
