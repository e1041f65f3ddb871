"""Both sides of a connection between two programs, over a link or within a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.node.programs.network.sockets import Address, Connection, Message
from actors.node.programs.traffic import Traffic
from sim.kernel.connection import Connection as Line

if TYPE_CHECKING:
    from sim.kernel.kernel import Kernel


def joined(
    kernel: Kernel | None,
    source: str,
    node: str,
    client: Address,
    target: Address,
    goal: Address,
    seen: Address,
    kind: Callable[..., Connection] = Connection,
    *,
    at_once: bool = False,
    traffic: tuple[Traffic, Traffic] | None = None,
) -> tuple[Connection, Connection]:
    """Both sides of a new connection.

    target: as the client sees the server; seen: as the server sees the client
    kind: of the server's side; at_once: see `sim.kernel.connection`
    traffic: the interfaces of the client and of the server
    """
    ends: list[Connection] = []

    def to_server(message: Message) -> None:
        if traffic is not None and message[0] == "data":
            traffic[0].pass_to(traffic[1], len(message[1]))
        ends[1].take(message)

    def to_client(message: Message) -> None:
        if traffic is not None and message[0] == "data":
            traffic[1].pass_to(traffic[0], len(message[1]))
        ends[0].take(message)

    def lose() -> None:
        for end in ends:
            end.fail("ETIMEDOUT")

    if kernel is None or source == node:
        ends.append(Connection(client, target, to_server, _nothing))
        ends.append(kind(goal, seen, to_client, _nothing))
        return ends[0], ends[1]
    line = Line(kernel, source, node, to_server, to_client, lose, at_once=at_once)
    ends.append(Connection(client, target, line.up.send, line.close))
    ends.append(kind(goal, seen, line.down.send, line.close))
    return ends[0], ends[1]


def _nothing() -> None:
    pass
