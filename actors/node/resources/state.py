"""What the managers have allocated: the checkpoint on the machine's disk, which outlives the agent.

Mirrors  pkg/kubelet/cm: cpumanager/state, memorymanager/state, devicemanager/checkpoint (v1.25).
Differs  the options of an agent do not change while a machine exists, so that a checkpoint is never
         that of another policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from sim.dataclass import dataclass


@dataclass(slots=True, eq=False)
class Table:
    """One resource of a NUMA node in bytes: what containers may have, and how it is divided."""

    allocatable: int
    free: int
    reserved: int = 0


@dataclass(slots=True, eq=False)
class NumaState:
    """The memory of one NUMA node.

    tables: resource -> its bytes
    assignments: how many amounts of memory containers have on it
    cells: the NUMA nodes that are used together with it, as a set
    """

    tables: Mapping[str, Table]
    cells: int
    assignments: int = 0


@dataclass(slots=True, eq=False)
class Block:
    """Memory of one container.  nodes: the set of NUMA nodes that it comes from"""

    nodes: int
    resource: str
    size: int


@dataclass(slots=True, eq=False)
class Allocations:
    """All that containers have, by pod uid and container name.

    shared: the processors that no container has for itself
    applied: the shared processors as containers without processors of their own may use them
    started: id of an instance -> its processors, until the next reconciliation
    registered: resources of the plug-ins that have ever registered
    plugins_ready: True if all are registered when the next agent starts, as in an established
        cluster
    """

    shared: int = 0
    cpus: dict[str, dict[str, int]] = field(default_factory=dict)
    applied: int = 0
    started: dict[str, int] = field(default_factory=dict)
    numa: list[NumaState] = field(default_factory=list)
    memory: dict[str, dict[str, list[Block]]] = field(default_factory=dict)
    devices: dict[str, dict[str, dict[str, tuple[str, ...]]]] = field(default_factory=dict)
    registered: list[str] = field(default_factory=list)
    plugins_ready: bool = False
