"""Requests that an API server sends to itself, as its own user."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.apiserver.ports import Server
from sim.api.types import Obj, Reply, Request, UserInfo, Verb
from sim.ident import Names


def own_user(names: Names) -> UserInfo:
    """The user of an API server's own requests."""
    return UserInfo(names.user_apiserver, (names.group_masters, names.group_authenticated))


def write(
    server: Server,
    verb: Verb,
    plural: str,
    obj: Obj,
    respond: Callable[[Reply], None],
    options: Mapping[str, str] | None = None,
    subresource: str = "",
) -> None:
    """Create, update or delete an object.

    verb: a "delete" has the uid and the revision of `obj`, if it
        has them, as preconditions
    """
    resource, metadata = server.scheme.resource(plural), obj["metadata"]
    body: Obj | None = obj
    if verb == "delete":
        held = {key: metadata[key] for key in ("uid", "resourceVersion") if key in metadata}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": held} if held else None
    names = server.scheme.names
    request = Request(
        verb=verb,
        resource=resource.plural,
        subresource=subresource,
        group=resource.group,
        version=resource.version,
        namespace=metadata.get("namespace", ""),
        name="" if verb == "create" else metadata["name"],
        body=body,
        options=options or {},
        user=own_user(names),
        manager=names.component("apiserver"),
    )
    server.handle(request, respond)
