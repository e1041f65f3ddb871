"""NamespaceAutoProvision: creates the absent namespace of a create, before the create itself.

The plugin writes, so it is no link of the chain: a create becomes first the create of its
namespace, by the API server itself, with all its defaults.

Mirrors  kubernetes v1.25 plugin/pkg/admission/namespace/autoprovision/admission.go.
"""

from __future__ import annotations

from collections.abc import Generator

from sim.api.refusals import Refusal
from sim.api.store import Answer, Op
from sim.api.types import CONFLICT, Request, UserInfo
from sim.api.verbs.call import Call
from sim.api.verbs.single import create_object


def provision(call: Call) -> Generator[Op, Answer, None]:
    """Creates the namespace of the request; another client may have been first."""
    names, name = call.registry.names, call.request.namespace
    request = Request(
        verb="create",
        resource="namespaces",
        user=UserInfo(names.user_apiserver, (names.group_masters, names.group_authenticated)),
        manager=names.component("apiserver"),
        cause=call.request.cause,
    )
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    resource = call.registry.scheme.resource("namespaces")
    try:
        yield from create_object(Call(request, resource, call.registry), obj)
    except Refusal as refusal:
        if refusal.code == CONFLICT and refusal.body.get("reason") == "AlreadyExists":
            return
        raise call.forbidden(call.request.name, str(refusal)) from None
