"""Memory of NUMA nodes for containers."""

from __future__ import annotations

import pytest

from actors.node.resources.hints import Hint
from actors.node.resources.memory_policy import MemoryPolicy
from actors.node.resources.refusals import Unallocatable
from actors.node.resources.state import Allocations
from actors.node.resources.topology import Topology
from tests.unit.actors.node.resources.machines import container, machine, pod, simple

GI = 1 << 30
TWO = machine(8, numa=2)  # 16 GiB on each
RESERVED = {0: {"memory": GI}}


def policy(
    state: Allocations, hint: Hint = Hint(None, True), topology: Topology = TWO, reserved=RESERVED
) -> MemoryPolicy:
    return MemoryPolicy(topology, reserved, state, lambda uid, name: hint)


def allocate(made: MemoryPolicy, one) -> None:
    for each in (*one["spec"]["initContainers"], *one["spec"]["containers"]):
        made.allocate(one, each)


def free(state: Allocations, resource: str = "memory") -> list[float]:
    return [node.tables[resource].free / GI for node in state.numa]


def test_reserved_memory_and_huge_pages_are_not_free() -> None:
    state = Allocations()
    policy(state, topology=machine(8, numa=2, hugepages_1Gi="4Gi"))
    assert (free(state), free(state, "hugepages-1Gi")) == ([13, 14], [2, 2])


def test_container_gets_memory_of_one_numa_node() -> None:
    state = Allocations()
    made = policy(state)
    allocate(made, simple("a", memory="10Gi"))
    assert [(block.nodes, block.size) for block in state.memory["a"]["c"]] == [(0b01, 10 * GI)]
    allocate(made, simple("b", memory="10Gi"))
    assert state.memory["b"]["c"][0].nodes == 0b10
    assert free(state) == [5, 6]
    made.release("a", "c")
    assert free(state) == [15, 6]
    assert "a" not in state.memory


def test_burstable_pod_gets_no_memory() -> None:
    state = Allocations()
    one = container(cpu=1, memory="1Gi")
    one["resources"]["limits"] = {}
    policy(state).allocate(pod("a", one), one)
    assert not state.memory


def test_group_of_numa_nodes_serves_only_as_a_group() -> None:
    state = Allocations()
    made = policy(state)
    allocate(made, simple("a", memory="20Gi"))
    assert (state.memory["a"]["c"][0].nodes, free(state)) == (0b11, [0, 11])
    one = simple("b", memory="5Gi")
    hints = made.hints(one, one["spec"]["containers"][0])
    assert hints == {"memory": [Hint(0b11, False)]}  # one node could serve it, but is in a group
    with pytest.raises(Unallocatable, match="failed to find the default preferred hint"):
        allocate(made, one)
    allocate(policy(state, Hint(None, False)), one)
    assert free(state) == [0, 6]
    made.release("a", "c")
    made.release("b", "c")
    assert [node.cells for node in state.numa] == [0b01, 0b10]


def test_single_user_keeps_a_numa_node_out_of_groups() -> None:
    state = Allocations()
    made = policy(state)
    allocate(made, simple("a", memory="1Gi"))
    one = simple("b", memory="20Gi")
    assert made.hints(one, one["spec"]["containers"][0]) == {}
    with pytest.raises(Unallocatable) as refusal:
        allocate(made, one)
    assert refusal.value.message == (
        "Allocate failed due to [memorymanager] failed to get the default NUMA affinity, "
        "no NUMA nodes with enough memory is available, which is unexpected"
    )


def test_hint_that_is_too_small_is_extended() -> None:
    state = Allocations()
    allocate(policy(state, Hint(0b10, True)), simple("a", memory="20Gi"))
    assert state.memory["a"]["c"][0].nodes == 0b11
    state = Allocations()
    made = policy(state)
    allocate(made, simple("x", memory="15Gi"))
    with pytest.raises(Unallocatable, match="failed to find NUMA nodes to extend"):
        allocate(policy(state, Hint(0b01, True)), simple("a", memory="10Gi"))


def test_app_container_uses_the_memory_of_init_containers() -> None:
    state = Allocations()
    made = policy(state)
    one = pod("a", container("c", cpu=1, memory="6Gi"), init=(container("i", cpu=1, memory="10Gi"),))
    allocate(made, one)
    assert free(state) == [5, 16]  # ten GiB for both together
    assert [block.size // GI for block in state.memory["a"]["i"]] == [4]
    made.started(one, "i")
    assert "i" in state.memory["a"]
    made.started(one, "c")
    assert free(state) == [9, 16]


def test_huge_pages_come_from_the_same_numa_node() -> None:
    state = Allocations()
    made = policy(state, topology=machine(8, numa=2, hugepages_1Gi="4Gi"))
    one = pod("a", container(cpu=1, memory="1Gi", hugepages_1Gi="2Gi"))
    both = [Hint(0b01, True), Hint(0b10, True), Hint(0b11, False)]
    assert made.hints(one, one["spec"]["containers"][0]) == {"memory": both, "hugepages-1Gi": both}
    allocate(made, one)
    assert {block.resource: block.nodes for block in state.memory["a"]["c"]} == {
        "memory": 1,
        "hugepages-1Gi": 1,
    }
    assert state.numa[0].assignments == 2


def test_memory_outlives_the_agent_and_is_not_taken_twice() -> None:
    state = Allocations()
    one = simple("a", memory="10Gi")
    allocate(policy(state), one)
    again = policy(state)
    allocate(again, one)
    assert free(state) == [5, 16]
    assert again.hints(one, one["spec"]["containers"][0]) == {"memory": [Hint(0b01, True)]}


def test_pod_hints_sum_the_containers() -> None:
    made = policy(Allocations())
    one = pod("a", container("c", cpu=1, memory="10Gi"), container("d", cpu=1, memory="10Gi"))
    assert made.pod_hints(one) == {"memory": [Hint(0b11, True)]}
