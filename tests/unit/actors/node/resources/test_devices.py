"""Devices of plug-ins: amounts, allocation, health and hints."""

from __future__ import annotations

import pytest

from actors.node.resources.devices import DeviceManager
from actors.node.resources.hints import Hint
from actors.node.resources.refusals import Unallocatable
from actors.node.resources.state import Allocations
from sim.options.machines import DeviceSpec
from tests.unit.actors.node.resources.machines import container, pod

GPU = "example.com/gpu"
SPEC = DeviceSpec(GPU, ("a", "b", "c", "d"), (0, 0, 1, 1), "GPUS")


def manager(state=None, hint=Hint(), broken=(), spec=SPEC, registered=True) -> DeviceManager:
    made = DeviceManager([spec], 2, {GPU: broken}, state or Allocations(), lambda uid, name: hint)
    if registered:
        made.register(GPU)
    return made


def gpus(name: str, count: int):
    one = container(name)
    one["resources"] = {"limits": {GPU: str(count)}, "requests": {GPU: str(count)}}
    return one


def take(made: DeviceManager, uid: str, count: int, init: int = 0) -> None:
    one = pod(uid, gpus("c", count), init=(gpus("i", init),) if init else ())
    for each in (*one["spec"]["initContainers"], *one["spec"]["containers"]):
        made.allocate(one, each)


def refusal(made: DeviceManager, uid: str, count: int) -> str:
    with pytest.raises(Unallocatable) as found:
        take(made, uid, count)
    assert found.value.reason == "UnexpectedAdmissionError"
    return str(found.value)


def test_amounts_count_all_and_healthy_devices() -> None:
    assert manager(broken=("b",)).amounts() == ({GPU: "4"}, {GPU: "3"})


def test_plugin_that_never_registered_has_no_resource() -> None:
    assert manager(registered=False).amounts() == ({}, {})


def test_restarted_agent_has_none_until_the_plugin_registers() -> None:
    state = Allocations()
    take(manager(state), "p", 2)
    again = manager(state, registered=False)
    assert again.amounts() == ({GPU: "0"}, {GPU: "0"})
    assert refusal(again, "p", 2) == f"no healthy devices present; cannot allocate unhealthy devices {GPU}"
    again.register(GPU)
    take(again, "p", 2)
    assert again.of_container("p", "c") == {GPU: ("a", "b")}


def test_devices_are_exclusive_and_freed() -> None:
    made = manager()
    take(made, "p", 3)
    text = f"requested number of devices unavailable for {GPU}. Requested: 2, Available: 1"
    assert refusal(made, "q", 2) == text
    made.release("p")
    take(made, "q", 2)
    assert made.environment("q", "c") == {"GPUS": "a,b"}
    assert made.environment("q", "other") == {}


def test_unhealthy_device_is_not_given_and_fails_its_owner() -> None:
    take(made := manager(broken=("a",)), "p", 1)
    assert made.of_container("p", "c") == {GPU: ("b",)}
    made.unhealthy = {GPU: ("b",)}
    text = f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {GPU}"
    assert refusal(made, "p", 1) == text


def test_changed_request_is_refused() -> None:
    take(made := manager(), "p", 1)
    assert refusal(made, "p", 2) == f'pod "p" container "c" changed request for resource "{GPU}" from 1 to 2'


def test_app_container_uses_devices_of_the_init_container() -> None:
    take(made := manager(), "p", 3, init=2)
    assert made.of_container("p", "i") == {GPU: ("a", "b")}
    assert made.of_container("p", "c") == {GPU: ("a", "b", "c")}


@pytest.mark.parametrize(("nodes", "ids"), [(None, ("a", "b", "c")), (0b10, ("c", "d", "a"))])
def test_devices_near_to_the_hint_come_first(nodes, ids) -> None:
    take(made := manager(hint=Hint(nodes, True)), "p", 3)
    assert made.of_container("p", "c") == {GPU: ids}


def test_hints_are_of_devices_with_a_numa_node() -> None:
    one = pod("p", gpus("c", 2))
    assert manager().hints(one, gpus("c", 2)) == {GPU: [Hint(1, True), Hint(2, True), Hint(3, False)]}
    assert manager().hints(one, gpus("c", 3)) == {GPU: [Hint(3, True)]}
    assert manager(broken=("a",)).hints(one, gpus("c", 2)) == {GPU: [Hint(2, True), Hint(3, False)]}
    assert manager().hints(one, gpus("c", 5)) == {GPU: []}
    assert manager(spec=DeviceSpec(GPU, ("a",))).hints(one, gpus("c", 1)) == {GPU: None}
    assert manager().pod_hints(pod("p", gpus("c", 2), gpus("d", 1))) == {GPU: [Hint(3, True)]}


def test_admission_counts_what_pods_have_even_without_a_plugin() -> None:
    take(made := manager(), "p", 2)
    assert made.sanitized("p", {GPU: "0", "cpu": "8"}) == {GPU: "2", "cpu": "8"}
    assert made.sanitized("q", {GPU: "0"}) is None
