"""A cluster plan's flags as typed options of each daemon, or one clear error with its place."""

from __future__ import annotations

from dataclasses import dataclass

from actors.apiserver import ApiServerOptions
from sim.errors import InputError
from sim.ident import NAMES
from sim.machinery.admission import ORDER, Defaults
from sim.options.api_server import ApiServerFlags, parse_api_server
from sim.options.controller_manager import ControllerManagerOptions, parse_controller_manager
from sim.options.node_agent import NodeAgentOptions, parse_node_agent
from sim.options.scheduler import SchedulerOptions, parse_scheduler
from sim.scenario.plan import ClusterPlan
from sim.units import SECOND


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of every daemon of a cluster; `nodes` by node name."""

    api_server: ApiServerOptions
    controller_manager: ControllerManagerOptions
    scheduler: SchedulerOptions
    nodes: dict[str, NodeAgentOptions]


def check_options(plan: ClusterPlan) -> ClusterOptions:
    """Type and check all flags.  Raises InputError."""
    names = NAMES[plan.naming]
    server, manager, scheduler = plan.api_server, plan.controller_manager, plan.scheduler
    of_group: dict[int, NodeAgentOptions] = {}
    nodes = {}
    for node in plan.nodes:
        # nodes of one group share their flags mapping: parse it once
        options = of_group.get(id(node.flags))
        if options is None:
            options = of_group[id(node.flags)] = parse_node_agent(node.flags, names=names, place=node.place)
        nodes[node.name] = options
    flags = parse_api_server(server.flags, names=names, place=server.place)
    return ClusterOptions(
        api_server_options(flags, server.place),
        parse_controller_manager(manager.flags, names=names, place=manager.place),
        parse_scheduler(scheduler.flags, names=names, place=scheduler.place),
        nodes,
    )


def api_server_options(flags: ApiServerFlags, place: str) -> ApiServerOptions:
    """What a replica goes by.  Raises InputError for an admission plugin that there is not."""
    for plugin in flags.disabled_admission:
        if plugin not in ORDER:
            raise InputError(
                f"there is no admission plugin {plugin!r} here", place, f"known are: {', '.join(ORDER)}"
            )

    def limit(number: int) -> int | None:
        return None if flags.priority_and_fairness or not number else number

    reads, writes = flags.max_requests_inflight, flags.max_mutating_requests_inflight
    return ApiServerOptions(
        seats=reads + writes if flags.priority_and_fairness else 0,
        max_requests_inflight=limit(reads),
        max_mutating_requests_inflight=limit(writes),
        compaction_interval_us=flags.compaction_interval_us,
        service_cidr=flags.service_cidr,
        disabled_admission=flags.disabled_admission,
        event_ttl_us=flags.event_ttl_us,
        request_timeout_us=flags.request_timeout_us,
        min_watch_us=flags.min_request_timeout_s * SECOND,
        tolerations=Defaults(flags.not_ready_toleration_s, flags.unreachable_toleration_s),
    )
