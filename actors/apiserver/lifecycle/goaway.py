"""Connections that are closed at random, so that clients spread over the servers (--goaway-chance).

Marks a random share of replies, after which the client uses the connection for no new request
(GOAWAY).  Requests in flight and watches continue on it; the next request goes to the next server.

Mirrors  kubernetes v1.25 apiserver pkg/server/filters/goaway.go (probabilisticGoawayDecider).
Differs  - The next server is the next in the client's order; upstream's load balancer chooses one.
         - Connections of clients from outside are never closed (upstream closes those of HTTP/2).
"""

from __future__ import annotations

from msgspec.structs import replace

from sim.api.types import Reply
from sim.kernel import Context


class Goaway:
    """The marker of one incarnation.

    chance: probability for each reply
    """

    def __init__(self, ctx: Context, chance: float) -> None:
        self._draw = ctx.stream("goaway").random
        self._chance = chance

    def mark(self, reply: Reply) -> Reply:
        """Return the reply, with a random chance marked to close its connection."""
        if self._draw() >= self._chance:
            return reply
        return replace(reply, headers={**reply.headers, "Connection": "close"})
