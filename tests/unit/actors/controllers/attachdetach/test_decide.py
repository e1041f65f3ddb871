"""The steps of a pass: what is detached, attached and written, and what follows a refused answer."""

from __future__ import annotations

from collections.abc import Callable

from actors.controllers.attachdetach.decide import (
    PERIOD_US,
    UNMOUNT_MAX_US,
    Action,
    Answer,
    AskDriver,
    Attach,
    Detach,
    Force,
    PassAt,
    Seen,
    WriteStatus,
    reconcile,
    use_problem,
)
from actors.controllers.attachdetach.state import World
from actors.controllers.shared.steps import Event
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.ident import NAMES

N = NAMES["orch"]
PAIR, OTHER = ("v", "n1"), ("v", "n2")
DISK: Obj = {"metadata": {"name": "disk"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
SHARED: Obj = {"metadata": {"name": "disk"}, "spec": {"accessModes": ["ReadWriteMany"]}}


def pod(name: str) -> Obj:
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}}


def node(ready: str = "True", *taints: str) -> Obj:
    return {
        "metadata": {"name": "n1"},
        "spec": {"taints": [{"key": key} for key in taints]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def seen(
    live: Obj | None = None, pending: bool = False, wait_us: int = 0, sync_period_us: int | None = None
) -> Seen:
    return Seen(N, lambda _: live, lambda _: pending, lambda *_: wait_us, True, sync_period_us)


def drive(
    world: World, view: Seen, now_us: int = 0, answer: Callable[[Action], bool] = lambda _: True
) -> list[Action]:
    """All actions of a pass, with the answers of a function."""
    actions: list[Action] = []
    steps = reconcile(world, view, now_us)
    try:
        action = next(steps)
        while True:
            actions.append(action)
            action = steps.send(Answer(answer(action), now_us))
    except StopIteration:
        return actions


def unwanted(mounted: bool = False) -> World:
    """A volume that is attached, reported by its node, and needed by no pod."""
    world = World()
    world.mark(PAIR, DISK, confirmed=True)
    world.reports["n1"].due = False
    world.attached[PAIR].mounted = mounted
    return world


def test_volume_is_detached_after_its_node_ceases_to_report_it() -> None:
    assert drive(unwanted(), seen(node())) == [WriteStatus("n1", None), Detach(PAIR, "v", verifies=True)]


def test_volume_is_reported_again_when_the_status_is_not_written() -> None:
    world = unwanted()
    retry = PassAt(PERIOD_US)
    actions = drive(world, seen(node()), answer=lambda action: not isinstance(action, WriteStatus))
    assert actions[:2] == [WriteStatus("n1", None), retry]
    assert not [action for action in actions if isinstance(action, Detach)]
    assert [*world.reports["n1"].volumes] == ["v"]


def test_mounted_volume_waits_for_six_minutes_even_at_a_dead_node() -> None:
    world = unwanted(mounted=True)
    assert drive(world, seen(node("Unknown"))) == [PassAt(UNMOUNT_MAX_US + 1)]
    assert drive(world, seen(node("Unknown")), UNMOUNT_MAX_US) == [PassAt(UNMOUNT_MAX_US + 1)]
    late = drive(world, seen(node("Unknown")), UNMOUNT_MAX_US + 1)
    assert late[1:] == [Force("n1", UNMOUNT_MAX_US + 1, False), Detach(PAIR, "v", verifies=False)]
    world = unwanted(mounted=True)
    drive(world, seen(node()))
    assert drive(world, seen(node()), UNMOUNT_MAX_US + 1) == []  # a healthy node is never forced


def test_node_out_of_service_loses_a_mounted_volume_at_once() -> None:
    live = node("Unknown", N.taint_out_of_service)
    assert drive(unwanted(mounted=True), seen(live))[1:] == [
        Force("n1", 0, True),
        Detach(PAIR, "v", verifies=False),
    ]


def test_volume_with_a_pending_operation_is_left_alone() -> None:
    assert drive(unwanted(), seen(node(), pending=True)) == []
    assert drive(unwanted(), seen(node(), wait_us=500), 7) == [PassAt(507)]


def test_wanted_volume_is_attached_once() -> None:
    world = World()
    world.want(PAIR, DISK, pod("a"))
    assert drive(world, seen(node())) == [Attach(PAIR, "v", world.wanted[PAIR])]
    assert world.wanted[PAIR].under_way and drive(world, seen(node())) == []


def test_exclusive_volume_warns_each_pod_once_while_it_is_elsewhere() -> None:
    world = World()
    world.mark(OTHER, DISK, confirmed=True)
    world.want(OTHER, DISK, pod("first"))
    world.reports["n2"].due = False
    world.want(PAIR, DISK, pod("a"))
    text = 'Multi-Attach error for volume "disk" Volume is already used by pod(s) first'
    assert drive(world, seen(node())) == [Event(pod("a"), "Warning", "FailedAttachVolume", text)]
    assert drive(world, seen(node())) == []


def test_shared_volume_is_attached_to_a_second_node() -> None:
    world = World()
    world.mark(OTHER, SHARED, confirmed=True)
    world.want(OTHER, SHARED, pod("first"))
    world.reports["n2"].due = False
    world.want(PAIR, SHARED, pod("a"))
    assert drive(world, seen(node())) == [Attach(PAIR, "v n1", world.wanted[PAIR])]


def test_wanted_volume_keeps_its_attachment_and_the_six_minutes_start_again() -> None:
    world = unwanted(mounted=True)
    drive(world, seen(node()))
    world.want(PAIR, DISK, pod("a"))
    assert drive(world, seen(node()), UNMOUNT_MAX_US + 1) == []
    assert world.attached[PAIR].detach_since_us is None and not world.open


def test_drivers_are_asked_each_period_and_a_lost_attachment_is_noted() -> None:
    world = unwanted()
    world.want(PAIR, DISK, pod("a"))
    assert drive(world, seen(node(), sync_period_us=100), 100) == [PassAt(101)]
    view = seen(node(), sync_period_us=100)
    assert drive(world, view, 101, lambda action: not isinstance(action, AskDriver)) == [
        AskDriver(PAIR),
        PassAt(101),
        PassAt(202),
    ]
    assert not world.attached and [*world.open] == [PAIR]


def test_use_by_the_node_forbids_to_detach_and_a_missing_node_does_not() -> None:
    def reply(*in_use: str) -> Reply:
        return Reply(200, item=Item("k", {"status": {"volumesInUse": [*in_use]}}, 1, 1))

    assert use_problem(reply("w"), "v") == ""
    assert use_problem(reply("v"), "v") == "volume is still in use by node, according to Node status"
    assert use_problem(Reply(404, body={"reason": "NotFound"}), "v") == ""
    assert use_problem(Reply(503, body={"reason": "x", "message": "away"}), "v") == "away"


def test_detach_that_may_not_begin_lets_the_node_report_the_volume_again() -> None:
    world = unwanted()
    actions = drive(world, seen(node()), answer=lambda action: not isinstance(action, Detach))
    again = WriteStatus("n1", [{"name": "v", "devicePath": ""}])
    assert actions == [WriteStatus("n1", None), Detach(PAIR, "v", verifies=True), again]


def test_wanted_volume_waits_for_a_running_operation_and_for_a_pause() -> None:
    world = World()
    world.want(PAIR, DISK, pod("a"))
    assert drive(world, seen(node(), pending=True)) == []
    assert drive(world, seen(node(), wait_us=500), 7) == [PassAt(507)]
    assert not world.wanted[PAIR].under_way


def test_status_of_a_gone_node_is_not_written() -> None:
    assert drive(unwanted(), seen(None)) == [Detach(PAIR, "v", verifies=True)]
