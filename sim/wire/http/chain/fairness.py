"""The stage that classifies a request: headers of its answer name FlowSchema and priority level.

The replica that serves it queues it where requests take time (`actors.apiserver.fairness`).

Mirrors  kubernetes v1.25 apiserver pkg/server/filters/priority-and-fairness.go.
"""

from __future__ import annotations

from sim.ident import Names
from sim.wire.http.chain.request import HttpRequest


class Classification:
    """The stage."""

    def __init__(self, names: Names) -> None:
        self._headers = names.headers_flow

    def __call__(self, request: HttpRequest) -> None:
        """Notes the headers; there are none while priority and fairness is off."""
        fairness = None if request.server is None else request.server.seats
        if fairness is not None:
            schema, level = fairness.uids(request.user, request.attributes)
            request.flow = ((self._headers[0], schema), (self._headers[1], level))
