"""The controllers that run in every API server."""

from __future__ import annotations

from actors.apiserver.builtin.client_authorities import AuthorityKeeper, Trust
from actors.apiserver.builtin.definition_controller import DefinitionKeeper
from actors.apiserver.builtin.definition_services import DefinitionServices
from actors.apiserver.builtin.flow_status import Dangling
from actors.apiserver.builtin.rechecks import Rechecks
from actors.apiserver.ports import LocalStore, Server
from sim.api.verbs.call import Registry
from sim.kernel import Context


def begin_controllers(
    server: Server, store: LocalStore, registry: Registry, ctx: Context, trust: Trust
) -> None:
    """Begin the controllers of an incarnation, in the order of their first work."""
    if server.options.seats:
        Dangling(server, store, ctx)
    DefinitionKeeper(server, store, registry, ctx)
    DefinitionServices(server, store, ctx)
    AuthorityKeeper(server, store, ctx, trust)
    Rechecks(server, store, ctx)
