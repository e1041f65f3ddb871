"""Why an agent with given options would not start on a machine.  Pure.

Mirrors  pkg/kubelet/cm: cpumanager: NewManager, NewNonePolicy, ValidateStaticPolicyOptions;
         memorymanager: getTotalMemoryTypeReserved, validateReservedMemory, NewPolicyStatic;
         topologymanager: NewManager (v1.25).
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.node.resources.cpu_policy import BY_SOCKET, option_problem
from actors.node.resources.hints import NONE, NUMA_NODES_MAX, SINGLE
from actors.node.resources.managers import has_static_cpus, has_static_memory
from actors.node.thresholds import reserved_nano
from sim.options.features.gates import enabled
from sim.options.machines import TopologySpec
from sim.options.node.agent import NodeAgentOptions
from sim.units import NANO, format_quantity_nano


def problem_of(
    options: NodeAgentOptions, capacity: Mapping[str, str], topology: TopologySpec
) -> tuple[str, str] | None:
    """The option that is refused, and the agent's message."""
    if options.topology_manager_policy != NONE and topology.numa_nodes > NUMA_NODES_MAX:
        text = f"unsupported on machines with more than {NUMA_NODES_MAX} NUMA Nodes"
        return "topology-manager-policy", text
    if text := _cpu_problem(options, capacity, topology):
        return "cpu-manager-policy", text
    if has_static_memory(options) and (text := _memory_problem(options, capacity, topology)):
        return "reserved-memory", text
    return None


def _cpu_problem(options: NodeAgentOptions, capacity: Mapping[str, str], topology: TopologySpec) -> str:
    given = options.cpu_manager_policy_options
    if not has_static_cpus(options):
        shown = " ".join(f"{name}:{value}" for name, value in sorted(given.items()))
        return (
            f"new none policy error: None policy: received unsupported options=map[{shown}]" if given else ""
        )
    if not reserved_nano("cpu", capacity.get("cpu", "0"), options):
        return "[cpumanager] unable to determine reserved CPU resources for static policy"
    alpha, beta = (
        enabled(options.feature_gates, f"CPUManagerPolicy{stage}Options") for stage in ("Alpha", "Beta")
    )
    problem = option_problem(given, alpha=alpha, beta=beta)
    if problem is None and given.get(BY_SOCKET) == "true":
        if options.topology_manager_policy == SINGLE:
            problem = (
                f"Topolgy manager {SINGLE} policy is incompatible with CPUManager {BY_SOCKET} policy option"
            )
        elif topology.sockets > topology.numa_nodes:
            problem = "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
    return f"new static policy error: {problem}" if problem else ""


def _memory_problem(options: NodeAgentOptions, capacity: Mapping[str, str], topology: TopologySpec) -> str:
    total: dict[str, int] = {}
    for node, limits in options.reserved_memory.items():
        if node >= topology.numa_nodes:
            return f"the reserved memory configuration references a NUMA node {node} that does not exist on this machine"
        for name, size in limits.items():
            total[name] = total.get(name, 0) + size
    for name in sorted({"memory", *total}):
        held = reserved_nano(name, capacity.get(name, "0"), options)
        if held != total.get(name, 0) * NANO:
            given, wanted = (
                format_quantity_nano(nano, "BinarySI") for nano in (total.get(name, 0) * NANO, held)
            )
            return (
                f'the total amount "{given}" of type "{name}" is not equal to the value "{wanted}" '
                "determined by Node Allocatable feature"
            )
    return "" if total.get("memory") else "[memorymanager] you should specify the system reserved memory"
