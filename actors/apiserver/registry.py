"""What the verbs of one incarnation of an API server share, put together from the server's parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from actors.apiserver.options import ApiServerOptions
from actors.apiserver.ports import Authorizer
from sim.api.kinds.core.component_status import Probed
from sim.api.schema.scheme import Scheme
from sim.api.types import Reply
from sim.api.verbs.call import Call, Identities, Registry, Rules
from sim.kernel import Context


class Parts(Protocol):
    """The parts of a server that verbs use; the composition root sets those that it alone knows.

    log: serves pods/log
    probed, agent_listens: see `Registry`
    """

    sees: Scheme
    options: ApiServerOptions
    authorizer: Authorizer
    log: Callable[[Call, Any, str], Reply | None] | None
    identities: Identities | None
    probed: Probed | None
    agent_listens: Callable[[str], bool] | None


def make_registry(server: Parts, ctx: Context, rules: Rules) -> Registry:
    """The registry of an incarnation."""
    options = server.options
    return Registry(
        server.sees,
        rules,
        ctx.stream("objects").getrandbits,
        ctx.wall_us,
        options.service_cidr,
        server.log,
        options.collects,
        options.checks_fields,
        options.node_ports,
        options.gates,
        identities=server.identities,
        authorizer=server.authorizer,
        user_rules=server.authorizer.user_rules,
        probed=server.probed,
        agent_listens=server.agent_listens,
        counting=lambda: ctx.kernel.meters,
    )
