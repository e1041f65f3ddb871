"""The ASGI application: a request becomes an exchange, and the chain of stages answers it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sim.wire.exchange import Exchange, Response, serve_exchange

if TYPE_CHECKING:
    from quart_trio import QuartTrio

Answer = Callable[[Exchange], Coroutine[Any, Any, Response]]


class Application:
    """The application of a served cluster.

    Quart answers ASGI scopes other than HTTP requests, and a program may add its own pages below
    `pages` to `quart`.  Every other path belongs to the API's own router; these requests bypass
    Quart's router, which would raise and catch NotFound for each and leave 12 KB of reference
    cycles.
    """

    def __init__(self, answer: Answer, pages: str = "") -> None:
        """answer: answers a request of the API

        pages: prefix of the paths that Quart routes, such as "/pages/"; "" for none
        """
        self._answer = answer
        self._pages = pages

    @cached_property
    def quart(self) -> QuartTrio:
        """The application of Quart, made when it is first needed: few servers are asked for it."""
        from quart_trio import QuartTrio

        return QuartTrio("orrery", static_folder=None)

    def answerer(self, path: str) -> Answer | None:
        """What answers a request of the API; None for a page of Quart."""
        return None if self._pages and path.startswith(self._pages) else self._answer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, or let Quart do it."""
        if scope["type"] == "http" and not (self._pages and scope["path"].startswith(self._pages)):
            await serve_exchange(self._answer, scope, receive, send)
        else:
            await self.quart(scope, receive, send)
