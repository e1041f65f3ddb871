"""The attributes of a request for authorization.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from sim.api.aggregation.requests import path_of
from sim.api.auth.attributes import AccessAttributes
from sim.api.selectors import name_in_selector
from sim.api.types import Request


def attributes_of(request: Request) -> AccessAttributes:
    """What a user wants to do by a request.

    Without a resource it is the discovery document of a group version.
    The name of a list or watch is the only one that its selector allows; a namespace is in itself.
    """
    name, namespace = request.name, request.namespace
    if not request.resource:
        return AccessAttributes(request.verb, path_of(request))
    if not name and request.options and request.verb in ("list", "watch"):
        name = name_in_selector(request.options.get("fieldSelector", ""))
    elif request.resource == "namespaces" and not request.group:
        namespace = name
    return AccessAttributes(
        request.verb,
        group=request.group,
        version=request.version,
        resource=request.resource,
        subresource=request.subresource,
        namespace=namespace,
        name=name,
    )
