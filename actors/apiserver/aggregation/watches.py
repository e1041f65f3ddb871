"""Watches of simulated clients on resources that other servers answer.

Turns a watch into lists of the other server from time to time.

Holds: while no such watch is open, no event is scheduled.

Mirrors  kube-aggregator v1.25 pkg/apiserver/handler_proxy.go, which passes the stream on; apiserver
         pkg/endpoints/handlers/watch.go (a watch ends after its timeoutSeconds).
Differs  An event arrives with the next list, up to `AGAIN_US` after the change; a program of the
         library can have its watches list at once. A change that is undone between two lists is not
         seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from sim.api import status
from sim.api.aggregation.listed_watch import ListedWatch
from sim.api.store import Item
from sim.api.types import Reply, Request
from sim.kernel import Context
from sim.units import SECOND

AGAIN_US = 10 * SECOND
DEFAULT_S = 1800  # min-request-timeout of a server, of a watch that states none
_OF_WATCH = ("allowWatchBookmarks", "resourceVersion", "resourceVersionMatch", "timeoutSeconds", "watch")
_SEEN_MAX = 1000  # lists of clients that are remembered
Ask = Callable[[Request, Callable[[Reply], None]], None]


class _Open(NamedTuple):
    """An open watch.

    ask: the list by which it looks
    """

    watch: ListedWatch
    ask: Request


class AggregatedWatches:
    """The open watches of one replica.

    ask: sends a list to the other server; its reply arrives later
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._ctx: Context | None = None
        self._number = 0
        self._open: dict[int, _Open] = {}
        # What clients listed last, so that a watch begins there.
        self._listed: dict[tuple[str, ...], list[Item]] = {}

    def begin(self, ctx: Context) -> None:
        """Begin an incarnation, without watches."""
        self._ctx, self._open, self._listed = ctx, {}, {}

    def listed(self, request: Request, reply: Reply) -> None:
        """Remember what a client listed."""
        if reply.items is None:
            return
        key = _key(request)
        known = self._listed.pop(key, []) if request.options.get("continue") else []
        self._listed.pop(key, None)
        if len(self._listed) >= _SEEN_MAX:
            del self._listed[next(iter(self._listed))]
        self._listed[key] = [*known, *reply.items]

    def open(self, request: Request, respond: Callable[[Reply], None]) -> None:
        """Answer a watch, once the other server has answered a list."""
        ctx = self._ctx
        assert ctx is not None
        options = {name: value for name, value in request.options.items() if name not in _OF_WATCH}
        ask = msgspec.structs.replace(request, verb="list", options=options)

        def arrived(reply: Reply) -> None:
            if reply.items is None:
                respond(
                    Reply(503, body=status.service_unavailable(status.GENERIC[503])) if reply.ok else reply
                )
                return
            number = self._number = self._number + 1
            watch = ListedWatch(self._listed.get(_key(request), ()), lambda: self._close(number))
            watch.take_list(reply.items, reply.revision)
            self._open[number] = _Open(watch, ask)
            stated = request.options.get("timeoutSeconds", "")
            seconds = int(stated) if stated.isdecimal() and int(stated) else DEFAULT_S
            ctx.call_later_us(seconds * SECOND, lambda _: watch.close())
            self._look_later(number)
            respond(Reply(200, watch=watch))

        self._ask(ask, arrived)

    def look(self, group: str, version: str) -> None:
        """List at once for the watches of a group version, which has changed."""
        for number, each in list(self._open.items()):
            if (each.ask.group, each.ask.version) == (group, version):
                self._look(number)

    def _close(self, number: int) -> None:
        self._open.pop(number, None)

    def _look_later(self, number: int) -> None:
        assert self._ctx is not None
        self._ctx.call_later_us(AGAIN_US, self._look_again, number)

    def _look_again(self, number: int) -> None:
        if number in self._open:
            self._look(number)
            self._look_later(number)

    def _look(self, number: int) -> None:
        each = self._open[number]

        def arrived(reply: Reply) -> None:
            if number not in self._open:
                return
            if reply.items is None:
                each.watch.close()
            else:
                each.watch.take_list(reply.items, reply.revision)

        self._ask(each.ask, arrived)


def _key(request: Request) -> tuple[str, ...]:
    """What a client lists and watches."""
    selected = tuple(request.options.get(name, "") for name in ("labelSelector", "fieldSelector"))
    place = request.group, request.version, request.resource, request.namespace
    return (request.user.name, *place, *selected)
