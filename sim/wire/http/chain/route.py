"""The stage of routing: a path leads to a resource, or the request is refused.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/installer.go.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.wire.exchange import Response
from sim.wire.http import routing
from sim.wire.http.chain.request import HttpRequest
from sim.wire.http.refused import Refused
from sim.wire.http.routing import NoRoute


class Route:
    """The stage.  no_page: makes the answer at a path without a group"""

    def __init__(self, no_page: Callable[[HttpRequest], Response]) -> None:
        self._no_page = no_page

    def __call__(self, request: HttpRequest) -> Response | None:
        """Notes the target.  Raises Refused."""
        try:
            target = routing.route(request.scheme, request.exchange.method, request.path, request.options)
        except NoRoute as error:
            if error.body is None:
                return self._no_page(request)
            request.counted, request.resource = error.resource is not None, error.resource
            raise Refused(error.body) from None
        request.target, request.resource, request.counted = target, target.resource, True
        return None
