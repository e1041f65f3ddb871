"""A cluster plan's flags as typed options of each daemon, or one clear error with its place."""

from __future__ import annotations

from dataclasses import dataclass

from sim.errors import InputError
from sim.ident import NAMES
from sim.options.controller_manager import ControllerManagerOptions, parse_controller_manager
from sim.options.node_agent import NodeAgentOptions, parse_node_agent
from sim.options.scheduler import SchedulerOptions, parse_scheduler
from sim.scenario.plan import ClusterPlan


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of every daemon of a cluster; `nodes` by node name."""

    controller_manager: ControllerManagerOptions
    scheduler: SchedulerOptions
    nodes: dict[str, NodeAgentOptions]


def check_options(plan: ClusterPlan) -> ClusterOptions:
    """Type and check all flags.  Raises InputError."""
    names = NAMES[plan.naming]
    if plan.api_server.flags:
        flag = next(iter(plan.api_server.flags))
        raise InputError(
            f"the API server's option {flag} has no effect yet", plan.api_server.place, "leave it out"
        )
    manager, scheduler = plan.controller_manager, plan.scheduler
    of_group: dict[int, NodeAgentOptions] = {}
    nodes = {}
    for node in plan.nodes:
        # nodes of one group share their flags mapping: parse it once
        options = of_group.get(id(node.flags))
        if options is None:
            options = of_group[id(node.flags)] = parse_node_agent(node.flags, names=names, place=node.place)
        nodes[node.name] = options
    return ClusterOptions(
        parse_controller_manager(manager.flags, names=names, place=manager.place),
        parse_scheduler(scheduler.flags, names=names, place=scheduler.place),
        nodes,
    )
