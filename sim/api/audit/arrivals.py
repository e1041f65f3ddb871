"""A request of a client in the process as audit sees it: the URI that it would have over HTTP.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/request/requestinfo.go, client-go rest/request.go
         (URL).
Differs  the user agent of such a client is its name alone, without version and platform.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from sim.api.audit.events import Arrival
from sim.api.auth.request_attributes import attributes_of
from sim.api.types import Request


def uri_of(request: Request) -> str:
    """Path and query of a request."""
    prefix = f"/apis/{request.group}/{request.version}" if request.group else f"/api/{request.version}"
    parts = [prefix]
    if request.namespace and request.resource != "namespaces":
        parts += ["namespaces", request.namespace]
    parts += [part for part in (request.resource, request.name, request.subresource) if part]
    options: Mapping[str, str] = request.options
    if request.verb == "watch":
        options = {**options, "watch": "true"}
    query = urlencode(sorted(options.items()))
    path = quote("/".join(parts))
    return f"{path}?{query}" if query else path


def arrival_of(request: Request, received_us: int, source_ip: str) -> Arrival:
    """The arrival of a request of a client in the process."""
    ips = (source_ip,) if source_ip else ()
    return Arrival(attributes_of(request), request.user, uri_of(request), received_us, ips, request.manager)
