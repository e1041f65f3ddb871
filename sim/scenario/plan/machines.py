"""The parts of a group's machines besides their capacity, from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sim.api.kinds.common.resources import is_extended
from sim.errors import Problems
from sim.options.machines import PLAIN, DeviceSpec, TopologySpec, devices_problem, topology_problem
from sim.scenario.read.source import Document, Path_
from sim.scenario.schema.sections import NodeGroup


def machine_parts(
    document: Document,
    duration: Callable[[str, Path_], int],
    group: NodeGroup,
    capacity: Mapping[str, str],
    path: Path_,
) -> tuple[TopologySpec, tuple[DeviceSpec, ...]]:
    """The topology of a group's machines, and their devices.  Raises InputError.

    duration: reads a duration, with its place
    """
    given, problems, error = group.topology, Problems(), document.error
    memory = tuple(str(amount) for amount in given.memory)
    topology = TopologySpec(given.sockets, given.numa_nodes, given.threads_per_core, memory)
    if topology != PLAIN and (text := topology_problem(topology, capacity)):
        problems.add(error((*path, "topology"), text))
    found: dict[str, DeviceSpec] = {}
    for index, one in enumerate(group.devices):
        here: Path_ = (*path, "devices", index)
        ids = tuple(one.ids) or tuple(f"dev-{number}" for number in range(one.count or 0))
        register_us = 0
        with problems.part():
            register_us = duration(one.register_after, (*here, "registerAfter"))
        spec = DeviceSpec(one.resource, ids, tuple(one.numa), one.env, register_us)
        if one.resource in found or one.resource in capacity:
            problems.add(error((*here, "resource"), f"the group has {one.resource} already"))
        elif not is_extended(one.resource):
            what = f"{one.resource!r} is no extended resource, such as example.com/gpu"
            problems.add(error((*here, "resource"), what))
        elif text := devices_problem(
            spec, topology.numa_nodes, counted=one.count is not None and bool(one.ids)
        ):
            problems.add(error(here, text))
        found[one.resource] = spec
    problems.report()
    return topology, tuple(found.values())
