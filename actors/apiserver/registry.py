"""What the verbs of one incarnation of an API server share, put together from the server's parts."""

from __future__ import annotations

from typing import Protocol

from actors.apiserver.options import ApiServerOptions
from actors.apiserver.ports import Authorizer
from actors.apiserver.surroundings import Surroundings
from sim.api.schema.scheme import Scheme
from sim.api.verbs.call import Registry, Rules
from sim.kernel import Context


class Parts(Protocol):
    """The parts of a server that verbs use; the composition root sets those that it alone knows.

    log: serves pods/log
    probed, agent_listens: see `Registry`
    """

    sees: Scheme
    options: ApiServerOptions
    authorizer: Authorizer
    around: Surroundings


def make_registry(server: Parts, ctx: Context, rules: Rules) -> Registry:
    """The registry of an incarnation."""
    options = server.options
    return Registry(
        server.sees,
        rules,
        ctx.stream("objects").getrandbits,
        ctx.wall_us,
        options.service_cidr,
        server.around.log,
        options.collects,
        options.checks_fields,
        options.node_ports,
        options.gates,
        identities=server.around.identities,
        authorizer=server.authorizer,
        user_rules=server.authorizer.user_rules,
        probed=server.around.probed,
        agent_listens=server.around.agent_listens,
        counting=lambda: ctx.kernel.meters,
    )
