"""The parts of a group's machines besides their capacity, from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sim.api.kinds.common.resources import is_extended
from sim.errors import Problems
from sim.faults.shared.parameters import Amount
from sim.options.machines import PLAIN, DeviceSpec, TopologySpec, devices_problem, topology_problem
from sim.scenario.read.source import Document, Path_
from sim.scenario.schema.sections import NodeGroup
from sim.units import quantity_value


def machine_parts(
    document: Document,
    duration: Callable[[str, Path_], int],
    group: NodeGroup,
    capacity: Mapping[str, str],
    path: Path_,
) -> tuple[TopologySpec, tuple[DeviceSpec, ...], int]:
    """The topology of a group's machines, their devices, and the size of their swap.

    Raises InputError.

    duration: reads a duration, with its place
    """
    entry, problems, error = group.topology, Problems(), document.error
    memory, swap_bytes = tuple(str(amount) for amount in entry.memory), 0
    with problems.part():
        swap_bytes = _bytes(document, group.swap, (*path, "swap"))
    with problems.part():
        for index, amount in enumerate(memory):
            _bytes(document, amount, (*path, "topology", "memory", index))
    problems.report()
    topology = TopologySpec(entry.sockets, entry.numa_nodes, entry.threads_per_core, memory)
    if topology != PLAIN and (text := topology_problem(topology, capacity)):
        problems.add(error((*path, "topology"), text))
    result: dict[str, DeviceSpec] = {}
    for index, one in enumerate(group.devices):
        here: Path_ = (*path, "devices", index)
        ids = tuple(one.ids) or tuple(f"dev-{number}" for number in range(one.count or 0))
        register_us = 0
        with problems.part():
            register_us = duration(one.register_after, (*here, "registerAfter"))
        spec = DeviceSpec(one.resource, ids, tuple(one.numa), one.env, register_us)
        if one.resource in result or one.resource in capacity:
            problems.add(error((*here, "resource"), f"the group has {one.resource} already"))
        elif not is_extended(one.resource):
            what = f"{one.resource!r} is no extended resource, such as example.com/gpu"
            problems.add(error((*here, "resource"), what))
        elif text := devices_problem(
            spec, topology.numa_nodes, counted=one.count is not None and bool(one.ids)
        ):
            problems.add(error(here, text))
        result[one.resource] = spec
    problems.report()
    return topology, tuple(result.values()), swap_bytes


def _bytes(document: Document, amount: Amount, path: Path_) -> int:
    """The bytes of a quantity.  Raises InputError."""
    try:
        return quantity_value(amount)
    except ValueError:
        raise document.error(path, f"{amount!r} is not a quantity", "write it as 16Gi or 512Mi") from None
