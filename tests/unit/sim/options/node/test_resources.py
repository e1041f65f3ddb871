"""Rules between the options of reservations and managers, in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.resources.checks import problem_of
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.machines import DeviceSpec, TopologySpec, devices_problem, topology_problem
from sim.options.node.agent import parse_node_agent

CAPACITY = {"cpu": "8", "memory": "16Gi"}


def parsed(**flags: Any):
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    return parse_node_agent(given, names=NAMES["kubernetes"])


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"enforce_node_allocatable": "pods,none"}, "may not contain additional enforcements"),
        ({"enforce_node_allocatable": "pots"}, 'option "pots" specified'),
        ({"enforce_node_allocatable": "system-reserved"}, "system-reserved-cgroup must be specified"),
        ({"enforce_node_allocatable": "kube-reserved"}, "kube-reserved-cgroup must be specified"),
        ({"cgroups_per_qos": False}, "not supported unless cgroups-per-qos is set to true"),
        ({"reserved_cpus": "0", "kube_reserved_cgroup": "/k"}, "can't use reserved-cpus with"),
        ({"cpu_cfs_quota_period": "10ms"}, "requires feature gate CustomCPUCFSQuotaPeriod"),
        (
            {"cpu_cfs_quota_period": "2s", "feature_gates": "CustomCPUCFSQuotaPeriod=true"},
            "must be between 1usec and 1sec, inclusive",
        ),
        (
            {"topology_manager_policy": "restricted", "feature_gates": "TopologyManager=false"},
            "topology-manager-policy restricted requires feature gate TopologyManager",
        ),
        (
            {"topology_manager_scope": "pod", "feature_gates": "TopologyManager=false"},
            "topology-manager-scope pod requires feature gate TopologyManager",
        ),
        ({"topology_manager_policy": "x"}, '"x" must be one of: ["none" "best-effort" "restricted"'),
        ({"topology_manager_scope": "x"}, '"x" must be one of: "container", or "pod"'),
        ({"cpu_manager_policy": "x"}, 'unknown policy: "x"'),
        ({"memory_manager_policy": "x"}, 'unknown policy: "x"'),
        (
            {"cpu_manager_policy_options": "a=b", "feature_gates": "CPUManagerPolicyOptions=false"},
            "require feature gates CPUManager, CPUManagerPolicyOptions enabled",
        ),
        ({"reserved_memory": "0"}, "numaNodeID:type=quantity"),
        ({"reserved_memory": "0:disk=1Gi"}, "unknown type"),
        ({"reserved_memory": "0:memory=0"}, "reserved memory may not be zero for NUMA node 0"),
        ({"reserved_memory": "0:memory=1,memory=2"}, "duplicate value for NUMA node 0"),
    ],
)
def test_options_that_contradict_each_other_are_refused(flags: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        parsed(**flags)
    assert text in error.value.message


STATIC = {"cpu_manager_policy": "static", "kube_reserved": "cpu=1"}
MEMORY = {"memory_manager_policy": "Static", "eviction_hard": "memory.available<100Mi"}
BY_SOCKET = {"cpu_manager_policy_options": "align-by-socket=true"}
ALPHA = {"feature_gates": "CPUManagerPolicyAlphaOptions=true"}


@pytest.mark.parametrize(
    ("flags", "topology", "text"),
    [
        ({"cpu_manager_policy": "static"}, {}, "unable to determine reserved CPU resources"),
        (STATIC, {}, ""),
        ({"cpu_manager_policy_options": "full-pcpus-only=true"}, {}, "unsupported options=map[full-pcpus-only:true]"),
        ({**STATIC, "cpu_manager_policy_options": "y=true"}, {}, 'unknown CPU Manager Policy option: "y"'),
        ({**STATIC, **BY_SOCKET}, {}, "Alpha-level Options not enabled"),
        ({**STATIC, **BY_SOCKET, **ALPHA}, {}, ""),
        ({**STATIC, **BY_SOCKET, **ALPHA}, {"sockets": 2}, "number of sockets are more than number of NUMA"),
        (
            {**STATIC, **BY_SOCKET, **ALPHA, "topology_manager_policy": "single-numa-node"}, {},
            "Topolgy manager single-numa-node policy is incompatible",
        ),
        ({**MEMORY, "reserved_memory": "0:memory=100Mi"}, {}, ""),
        ({**MEMORY, "reserved_memory": "0:memory=50Mi;1:memory=50Mi"}, {"numa_nodes": 2}, ""),
        ({**MEMORY, "reserved_memory": "0:memory=200Mi"}, {}, 'amount "200Mi" of type "memory" is not equal to the value "100Mi"'),
        ({**MEMORY, "reserved_memory": "1:memory=100Mi"}, {}, "references a NUMA node 1 that does not exist"),
        ({"memory_manager_policy": "Static", "eviction_hard": ""}, {}, "you should specify the system reserved memory"),
        ({"topology_manager_policy": "restricted"}, {"numa_nodes": 16}, "more than 8 NUMA Nodes"),
        ({}, {"numa_nodes": 16}, ""),
    ],
)  # fmt: skip
def test_agent_that_would_not_start_is_refused(
    flags: dict[str, Any], topology: dict[str, int], text: str
) -> None:
    found = problem_of(parsed(**flags), CAPACITY, TopologySpec(**topology))
    assert (found is None) is (text == "")
    assert text in (found or ("", ""))[1]


@pytest.mark.parametrize(
    ("topology", "text"),
    [
        (TopologySpec(2, 2, 2), ""),
        (TopologySpec(3), "8 processors cannot be divided into 3 equal parts of cores with 1 threads"),
        (TopologySpec(1, 1, 3), "cannot be divided"),
        (TopologySpec(2, 8), ""),
        (TopologySpec(1, 2, 1, ("1Gi",)), "1 amounts for 2 NUMA nodes"),
        (TopologySpec(1, 2, 1, ("4Gi", "4Gi")), "is not the capacity 16Gi"),
    ],
)
def test_topology_fits_the_capacity(topology: TopologySpec, text: str) -> None:
    assert text in (topology_problem(topology, CAPACITY) or "")
    assert (text == "") is (topology_problem(topology, CAPACITY) is None)


@pytest.mark.parametrize(
    ("spec", "counted", "text"),
    [
        (DeviceSpec("a/b", ("x", "y"), (0, 1)), False, ""),
        (DeviceSpec("a/b", ("x",)), True, "either a count or ids"),
        (DeviceSpec("a/b", ()), False, "either a count or ids"),
        (DeviceSpec("a/b", ("x", "x")), False, "the same id"),
        (DeviceSpec("a/b", ("x",), (2,)), False, "one of 2 NUMA nodes"),
        (DeviceSpec("a/b", ("x", "y"), (1,)), False, "one of 2 NUMA nodes"),
    ],
)
def test_devices_have_ids_and_numa_nodes_of_the_machine(spec: DeviceSpec, counted: bool, text: str) -> None:
    assert text in (devices_problem(spec, 2, counted=counted) or "")
    assert (text == "") is (devices_problem(spec, 2, counted=counted) is None)
