"""What a machine has left, and when it will be short."""

from actors.node.runtime.forecast import (
    available,
    capacity,
    first_below,
    least_available,
    memory_of,
    pressed,
    turns,
)
from actors.node.runtime.image_store.gc import gc_floor, removable
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, RuntimeProfile
from actors.node.runtime.ramps import Ramp
from sim.units import SECOND

GI = 1 << 30


def machine(own_disk: int = 0, **images: int) -> Machine:
    profile = RuntimeProfile(warm=False, images=images, image_disk_bytes=own_disk)
    return Machine(NodeSpec("n", capacity={"memory": "8Gi", "ephemeral-storage": "100Gi"}, profile=profile))


def running(node: Machine, at_us: int = 0, **behaviour: int) -> None:
    pod = node.run_sandbox("uid", "default", "web", "10.0.0.0/24", "")
    node.start(pod, "c", "i", ContainerBehaviour(**behaviour), at_us)


def press(node: Machine, available_bytes: int, ramp_us: int = 0) -> None:
    node.press("memory", [pressed(node, "memory", available_bytes, 0, ramp_us)])


def test_ramp_changes_in_a_straight_line_between_two_instants() -> None:
    ramp = Ramp(0, 100, 10, 20)
    assert [ramp.at(at) for at in (0, 10, 15, 20, 99)] == [0, 0, 50, 100, 100]
    assert Ramp(0, 7, 5, 5).at(5) == 7


def test_memory_of_a_leak_grows_from_its_start_and_meets_a_limit() -> None:
    node = machine()
    running(node, memory_from=GI, memory_bytes=11 * GI, memory_ramp_us=100 * SECOND)
    (container,) = node.pods["uid"].containers
    assert [memory_of(container, at * SECOND) / GI for at in (0, 10, 50)] == [1, 2, 6]
    assert container.out_of_memory_us(3 * GI) == 20 * SECOND + 1
    assert container.out_of_memory_us(GI // 2) == 1


def test_pressure_leaves_available_amount_given_present_use_of_pods() -> None:
    node = machine()
    running(node, memory_bytes=2 * GI)
    press(node, GI)
    assert available(node, "memory", 0) == GI
    node.pods["uid"].containers[-1].end(5, 0)
    assert available(node, "memory", 5) == 3 * GI
    node.end_pressure("memory")
    assert available(node, "memory", 5) == 8 * GI


def test_available_amount_is_never_below_zero() -> None:
    node = machine()
    running(node, memory_bytes=20 * GI)
    assert available(node, "memory", 0) == 0


def test_images_use_disk_of_node_unless_they_have_their_own() -> None:
    node = machine(big=30 * GI)
    assert available(node, "nodefs", 0) == available(node, "imagefs", 0) == 70 * GI
    node = machine(50 * GI, big=30 * GI)
    assert (available(node, "nodefs", 0), available(node, "imagefs", 0)) == (100 * GI, 20 * GI)
    assert capacity(node, "imagefs-inodes") == 50 * GI // 16384


def test_logs_stay_with_dead_container_and_volumes_end_with_pod() -> None:
    node = machine()
    running(node, log_bytes=GI, volume_bytes=2 * GI, layer_bytes=4 * GI)
    assert available(node, "nodefs", 0) == 93 * GI
    pod = node.pods["uid"]
    pod.containers[-1].end(1, 0)
    node.stop_sandbox(pod)
    assert available(node, "nodefs", 1) == 95 * GI
    node.remove("uid")
    assert available(node, "nodefs", 1) == 100 * GI


def test_volume_is_counted_once_for_all_instances_of_its_container() -> None:
    node = machine()
    running(node, exit_after_us=1, log_bytes=GI, volume_bytes=8 * GI)
    behaviour = ContainerBehaviour(log_bytes=GI, volume_bytes=8 * GI)
    node.start(node.pods["uid"], "c", "i", behaviour, 5)
    assert available(node, "nodefs", 5) == 90 * GI


def test_shortage_on_rising_use_is_found_to_the_microsecond() -> None:
    node = machine()
    running(node, memory_bytes=4 * GI, memory_ramp_us=4 * SECOND)
    press(node, 2 * GI, 3 * SECOND)

    def left(at_us: int) -> int:
        return available(node, "memory", at_us)

    at_us = first_below(left, 4 * GI, turns(node, 0), 0)
    assert at_us is not None
    assert left(at_us) < 4 * GI <= left(at_us - 1)
    assert first_below(left, 1, turns(node, 0), 0) is not None  # 8 - 6 - 4 is below zero
    assert first_below(left, 0, turns(node, 0), 0) is None


def test_shortage_that_ends_with_a_container_is_found_before_its_end() -> None:
    node = machine()
    running(node, memory_bytes=8 * GI, memory_ramp_us=8 * SECOND, exit_after_us=5 * SECOND)

    def left(at_us: int) -> int:
        return available(node, "memory", at_us)

    assert first_below(left, 4 * GI, turns(node, 0), 0) == 4 * SECOND + 1
    assert first_below(left, 3 * GI, turns(node, 0), 0) is None


def test_least_available_amount_counts_ramps_at_their_maximum() -> None:
    node = machine()
    running(node, memory_bytes=2 * GI, memory_ramp_us=10 * SECOND)
    press(node, 7 * GI, 10 * SECOND)
    assert least_available(node, "memory", 0) == available(node, "memory", 10 * SECOND) == 5 * GI


def test_container_is_killed_when_it_exceeds_its_memory_limit() -> None:
    node = machine()
    running(node, memory_bytes=4 * GI, memory_ramp_us=4 * SECOND)
    container = node.pods["uid"].containers[-1]
    node.limit_memory(container, 4 * GI, 0)
    assert container.running(5 * SECOND)
    node.limit_memory(container, GI, 0)
    assert memory_of(container, SECOND) == GI
    assert container.exit_us == SECOND + 1
    assert (container.exit_code, container.reason) == (137, "OOMKilled")


def test_images_are_removed_from_85_percent_of_use_on() -> None:
    assert 100 - (gc_floor(1000, 85) - 1) * 100 // 1000 >= 85
    assert 100 - gc_floor(1000, 85) * 100 // 1000 < 85


def test_unused_images_are_removed_oldest_first_and_young_ones_stay() -> None:
    images = {"used": 1, "old-b": 1, "old-a": 1, "pulled": 1, "young": 1}
    known = {"pulled": 50, "young": 500}
    assert removable(images, ["used"], known, {}, 100) == ["old-a", "old-b", "pulled"]
    assert removable(images, ["used"], known, {"old-a": 50}, 100) == ["old-b", "pulled", "old-a"]
    assert removable(images, ["used"], known, {}, -100) == ["old-a", "old-b"]
