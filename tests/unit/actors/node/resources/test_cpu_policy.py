"""Processors that containers have for themselves, and the hints about them."""

from __future__ import annotations

import pytest

from actors.node.resources.cpu_policy import BY_SOCKET, DISTRIBUTE, FULL_CORES, CpuPolicy, option_problem
from actors.node.resources.hints import Hint
from actors.node.resources.refusals import Unallocatable
from actors.node.resources.state import Allocations
from actors.node.resources.topology import cpu_text
from tests.unit.actors.node.resources.machines import container, cpus, machine, pod, simple

ANY = Hint()


def policy(topology, state=None, hint=ANY, reserved=0, count=1, **options) -> CpuPolicy:
    named = {key.replace("_", "-"): value for key, value in options.items()}
    return CpuPolicy(topology, named, count, reserved, state or Allocations(), lambda uid, name: hint)


def test_low_cores_are_reserved_and_shared() -> None:
    state = Allocations()
    made = policy(machine(8, threads=2), state, count=2)
    assert cpu_text(made.reserved) == "0,4"
    made.allocate(simple("a", 2), container(cpu=2, memory="1Gi"))
    assert cpu_text(state.cpus["a"]["c"]) == "1,5"
    assert cpu_text(state.shared) == "0,2-4,6-7"


@pytest.mark.parametrize("cpu", ["1500m", "500m"])
def test_part_of_a_cpu_is_shared(cpu) -> None:
    state = Allocations()
    policy(machine(8), state).allocate(simple("a", cpu), container(cpu=cpu, memory="1Gi"))
    assert not state.cpus


def test_burstable_pod_shares_cpus() -> None:
    state = Allocations()
    one = container(cpu=2, memory="1Gi")
    del one["resources"]["limits"]["memory"]
    policy(machine(8), state).allocate(pod("a", one), one)
    assert not state.cpus


def test_exhausted_cpus_refuse_with_upstreams_text() -> None:
    made = policy(machine(4), count=1)
    made.allocate(simple("a", 2), container(cpu=2, memory="1Gi"))
    with pytest.raises(Unallocatable) as refusal:
        made.allocate(simple("b", 2), container(cpu=2, memory="1Gi"))
    text = "Allocate failed due to not enough cpus available to satisfy request, which is unexpected"
    assert (refusal.value.reason, refusal.value.message) == ("UnexpectedAdmissionError", text)


def test_full_cores_refuse_an_odd_request() -> None:
    one = container(cpu=3, memory="1Gi")
    with pytest.raises(Unallocatable) as refusal:
        policy(machine(8, threads=2), full_pcpus_only=True).allocate(pod("a", one), one)
    text = "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
    assert (refusal.value.reason, refusal.value.message) == ("SMTAlignmentError", text)
    policy(machine(8, threads=2)).allocate(pod("a", one), one)  # the other value


@pytest.mark.parametrize(("distribute", "taken"), [(False, "1-2,8-15"), (True, "1-5,8-12")])
def test_distribution_takes_the_same_from_each_numa_node(distribute, taken) -> None:
    state = Allocations()
    made = policy(machine(16, numa=2), state, distribute_cpus_across_numa=distribute)
    made.allocate(simple("a", 10), container(cpu=10, memory="1Gi"))
    assert cpu_text(state.cpus["a"]["c"]) == taken


def test_app_container_takes_the_cpus_of_the_init_container() -> None:
    state = Allocations()
    init, app = container("i", cpu=2, memory="1Gi"), container("c", cpu=3, memory="1Gi")
    made, one = policy(machine(8), state), pod("a", app, init=(init,))
    made.allocate(one, init)
    made.allocate(one, app)
    assert cpu_text(state.cpus["a"]["i"]) == "1-2"
    assert cpu_text(state.cpus["a"]["c"]) == "1-3"
    made.release("a", "i")  # its sibling keeps them
    assert cpu_text(state.shared) == "0,4-7"
    made.release("a", "c")
    assert cpu_text(state.shared) == "0-7"


def test_cpus_outlive_the_agent() -> None:
    state = Allocations()
    one = container(cpu=2, memory="1Gi")
    policy(machine(8), state).allocate(pod("a", one), one)
    again = policy(machine(8), state)
    again.allocate(pod("a", one), one)
    assert cpu_text(again.cpus_of("a", "c")) == "1-2"


def test_aligned_cpus_are_taken_first() -> None:
    state = Allocations()
    made = policy(machine(16, numa=2), state, hint=Hint(0b10, True))
    made.allocate(simple("a", 2), container(cpu=2, memory="1Gi"))
    assert cpu_text(state.cpus["a"]["c"]) == "8-9"
    made.allocate(simple("b", 7), container(cpu=7, memory="1Gi"))
    assert cpu_text(state.cpus["b"]["c"]) == "1,10-15"


@pytest.mark.parametrize(("by_socket", "taken"), [(False, "4-7,12"), (True, "1,4-7")])
def test_socket_alignment_takes_the_rest_from_the_socket(by_socket, taken) -> None:
    state = Allocations()
    made = policy(machine(16, sockets=2, numa=4), state, hint=Hint(0b10, True), align_by_socket=by_socket)
    state.shared &= cpus("0-7,12")
    made.allocate(simple("a", 5), container(cpu=5, memory="1Gi"))
    assert cpu_text(state.cpus["a"]["c"]) == taken


def test_hints_prefer_the_fewest_numa_nodes_that_could_ever_serve() -> None:
    made = policy(machine(16, numa=2), count=1)
    assert made.hints(simple("a", 7), container(cpu=7, memory="1Gi")) == {
        "cpu": [Hint(1, True), Hint(2, True), Hint(3, False)]
    }
    assert made.hints(simple("b", 8), container(cpu=8, memory="1Gi")) == {
        "cpu": [Hint(2, True), Hint(3, False)]
    }
    assert made.hints(simple("c", 9), container(cpu=9, memory="1Gi")) == {"cpu": [Hint(3, True)]}
    assert made.hints(simple("d", "500m"), container(cpu="500m", memory="1Gi")) == {}


@pytest.mark.parametrize(("by_socket", "preferred"), [(False, False), (True, True)])
def test_socket_alignment_prefers_numa_nodes_of_one_socket(by_socket, preferred) -> None:
    made = policy(machine(16, sockets=2, numa=4), align_by_socket=by_socket)
    found = dict(made.hints(simple("a", 2), container(cpu=2, memory="1Gi"))["cpu"])
    assert found[0b11] is preferred
    assert found[0b101] is False


def test_hints_of_allocated_cpus_are_those_of_their_place() -> None:
    made = policy(machine(16, numa=2), hint=Hint(2, True))
    one = simple("a", 2)
    made.allocate(one, one["spec"]["containers"][0])
    assert made.hints(one, one["spec"]["containers"][0]) == {"cpu": [Hint(2, True), Hint(3, False)]}
    assert made.pod_hints(one) == {"cpu": [Hint(2, True), Hint(3, False)]}
    changed = simple("a", 3)
    assert made.hints(changed, changed["spec"]["containers"][0]) == {"cpu": []}
    assert made.pod_hints(changed) == {"cpu": []}


def test_pod_hints_sum_the_containers() -> None:
    made = policy(machine(16, numa=2))
    one = pod("a", container("c", cpu=5, memory="1Gi"), container("d", cpu=4, memory="1Gi"))
    assert made.pod_hints(one) == {"cpu": [Hint(3, True)]}


@pytest.mark.parametrize(
    ("options", "stages", "problem"),
    [
        ({FULL_CORES: "true"}, (False, True), None),
        ({FULL_CORES: "true"}, (False, False), "Beta-level Options not enabled"),
        ({DISTRIBUTE: "true"}, (False, True), "Alpha-level Options not enabled"),
        ({BY_SOCKET: "true"}, (True, True), None),
        ({"x": "true"}, (True, True), 'unknown CPU Manager Policy option: "x"'),
        ({FULL_CORES: "1x"}, (True, True), "bad value"),
    ],
)
def test_options_need_the_gates_of_their_stages(options, stages, problem) -> None:
    found = option_problem(options, alpha=stages[0], beta=stages[1])
    assert (found is None) is (problem is None)
    assert (problem or "") in (found or "")
