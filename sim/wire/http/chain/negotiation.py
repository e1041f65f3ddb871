"""The stage of negotiation: the header Accept becomes the form of the answer, or 406.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/negotiation/negotiate.go, go-restful's
         route selection.
"""

from __future__ import annotations

from sim.ident import Names
from sim.wire.http.chain.request import HttpRequest
from sim.wire.http.forms import rendering
from sim.wire.http.forms.negotiation import check_patch, form_of, has_table
from sim.wire.http.forms.rendering import View


class Negotiation:
    """The stage."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def __call__(self, request: HttpRequest) -> None:
        """Notes the view.  Raises Refused."""
        names, target = self._names, request.target
        resource, verb = target.resource, target.verb
        watching, logged = verb == "watch", target.subresource == "log"
        if verb == "patch" and not resource.custom:
            check_patch(names, request.header("content-type"), request.header("content-length"))
        form = form_of(
            names,
            request.header("accept"),
            request.indents,
            convertible=not logged,
            tabular=has_table(resource, target.subresource),
            watching=watching,
            protobuf=not resource.json_only,
            routed=not resource.custom,
            listed=(watching or verb == "list") and request.exchange.method == "GET",
        )
        included = request.options.get("includeObject", "")
        request.view = View(names, resource, form, request.begun_us, included)
        if watching:
            rendering.check_included(request.view)
