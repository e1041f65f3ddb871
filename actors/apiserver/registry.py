"""What the verbs of one incarnation of an API server share, put together from the server's parts."""

from __future__ import annotations

from functools import partial

from actors.apiserver.options import ApiServerOptions
from actors.apiserver.ports import Authorizer
from actors.apiserver.surroundings import Surroundings
from sim.api.scheme.scheme import Scheme
from sim.api.verbs.call import Registry, Rules
from sim.kernel import Context
from sim.kernel.measure import count, observe


def make_registry(
    ctx: Context,
    rules: Rules,
    sees: Scheme,
    options: ApiServerOptions,
    authorizer: Authorizer,
    around: Surroundings,
) -> Registry:
    """The registry of an incarnation.  sees: the kinds that the server knows."""
    return Registry(
        sees,
        rules,
        ctx.stream("objects").getrandbits,
        ctx.wall_us,
        options.service_cidr,
        around.log,
        options.enable_garbage_collector,
        options.checks_fields,
        options.node_ports,
        options.gates,
        identities=around.identities,
        authorizer=authorizer,
        user_rules=authorizer.user_rules,
        probed=around.probed,
        agent_listens=around.agent_listens,
        stream=around.stream,
        dial=around.dial,
        count=partial(count, ctx.kernel),
        observe=partial(observe, ctx.kernel),
    )
