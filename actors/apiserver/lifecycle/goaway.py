"""Connections that end now and then, so that clients spread over the servers (--goaway-chance).

Turns replies into replies of which a share, drawn at random, says that the connection is to be used no more (GOAWAY): what is
under way on it goes on, watches too, and the client's next request goes to the next server.

Mirrors  kubernetes v1.25 apiserver pkg/server/filters/goaway.go (probabilisticGoawayDecider).
Differs  the next server is the next in the client's order, where upstream's load balancer chooses one; clients from outside are
         never told (upstream: those of HTTP/2 are).
"""

from __future__ import annotations

from msgspec.structs import replace

from sim.api.types import Reply
from sim.kernel import Context


class Goaway:
    """Of one incarnation.  chance: of each reply."""

    def __init__(self, ctx: Context, chance: float) -> None:
        self._draw = ctx.stream("goaway").random
        self._chance = chance

    def mark(self, reply: Reply) -> Reply:
        if self._draw() >= self._chance:
            return reply
        return replace(reply, headers={**reply.headers, "Connection": "close"})
