"""The steps of the examination of a node: what is written, and what follows a refused write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.controllers.nodelifecycle.decide import NO_EXECUTE, Counted, Health, Healthy, Phase, Settled
from actors.controllers.nodelifecycle.examine import (
    Action,
    Answer,
    Attribute,
    Count,
    MarkPods,
    Queue,
    Seen,
    Swap,
    Unqueue,
    WriteSilence,
    mark_node_as_reachable,
    monitor_node,
    node_ref,
)
from actors.controllers.shared.steps import Event, Get, Sleep
from sim.api.objects import condition_of
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.ident import NAMES
from sim.units import MS, SECOND, format_time

N = NAMES["orch"]
NOW = 1_800_000_000 * SECOND
GRACE, STARTUP = 40 * SECOND, 60 * SECOND
Refuse = Callable[[Action], bool]


def node(status: str | None = "True", *taints: str) -> Obj:
    listed = [{"key": key, "effect": NO_EXECUTE} for key in taints]
    ready = [] if status is None else [{"type": "Ready", "status": status, "lastHeartbeatTime": "t0"}]
    meta = {"name": "n", "uid": "u", "creationTimestamp": format_time(NOW - 90 * SECOND)}
    return {"metadata": meta, "spec": {"taints": listed}, "status": {"conditions": ready}}


def drive(
    obj: Obj, silent_s: int = 0, unmarked: dict[str, None] | None = None, refuse: Refuse = lambda _: False
) -> tuple[list[Action], Health]:
    """All actions for a node with its last heartbeat so long ago; a read gives it again."""
    health = Health("n", "leases/n")
    health.standing, health.ready, health.probe_us = Phase.DUE, condition_of(obj, "Ready"), -silent_s * SECOND
    seen = Seen(N, GRACE, STARTUP, {} if unmarked is None else unmarked, 0, NOW)
    steps, actions, now_us = monitor_node(health, obj, None, seen), list[Action](), 0
    try:
        action = next(steps)
        while True:
            actions.append(action)
            now_us += action.us if isinstance(action, Sleep) else 0
            done = not refuse(action)
            reply = Reply(200, item=Item("k", obj, 1, 1)) if done else Reply(409, body={})
            action = steps.send(Answer(reply, done, now_us, NOW + now_us))
    except StopIteration:
        return actions, health


def only(*kinds: type[Any]) -> Refuse:
    return lambda action: isinstance(action, kinds)


def test_healthy_node_needs_only_its_lease_from_now_on() -> None:
    obj = node()
    actions, health = drive(obj)
    assert actions == [Count(health, obj, True), Attribute(health, "True"), Unqueue(obj)]
    assert health.standing == Healthy(obj)


def test_node_is_silent_after_its_grace_period_and_not_at_its_end() -> None:
    assert not [a for a in drive(node(), 40)[0] if isinstance(a, WriteSilence)]
    write, count, *_ = drive(node(), 41)[0]
    assert isinstance(write, WriteSilence) and write.silent_us == 41 * SECOND
    assert isinstance(count, Count) and not count.ready


def test_silent_node_marks_its_pods_now_and_is_tainted_by_the_next_pass() -> None:
    unmarked: dict[str, None] = {}
    actions, health = drive(node(), 41, unmarked)
    assert [type(a) for a in actions] == [WriteSilence, Count, Attribute, Unqueue, Event, MarkPods]
    assert health.standing is Phase.DUE and unmarked == {}
    for taints, again in (((), True), ((N.taint_unreachable,), False)):
        (queued,) = [a for a in drive(node("Unknown", *taints), 41)[0] if isinstance(a, Queue)]
        assert queued.again is again


def test_pods_that_could_not_be_marked_are_tried_again() -> None:
    unmarked: dict[str, None] = {}
    _, health = drive(node(), 41, unmarked, only(MarkPods))
    assert unmarked == {"n": None} and health.ref == {}
    assert MarkPods("n") in drive(node("Unknown"), 41, unmarked)[0]
    assert unmarked == {}


def test_changed_reason_of_a_taint_swaps_it() -> None:
    obj = node("False", N.taint_unreachable)
    assert Swap(obj, (N.taint_not_ready,), (N.taint_unreachable,)) in drive(obj)[0]


def test_node_that_is_ready_again_loses_both_taints_one_after_the_other() -> None:
    obj = node("True", N.taint_not_ready, N.taint_unreachable)
    actions, health = drive(obj)
    assert actions[2:] == [
        Swap(obj, (), (N.taint_unreachable,)),
        Swap(obj, (), (N.taint_not_ready,)),
        Unqueue(obj),
    ]
    assert health.standing is Phase.DUE  # until the taints are gone
    steps = mark_node_as_reachable(obj, N)
    assert next(steps) == actions[2]
    rest = []
    try:
        rest.append(steps.send(Answer(Reply(409, body={}), False, 0, NOW)))
    except StopIteration:
        pass
    assert rest == []  # a refused removal leaves the node in its queue


def test_node_without_a_status_has_the_startup_grace_period() -> None:
    assert [type(action) for action in drive(node(None), 60)[0]] == [Count]
    write = drive(node(None), 61)[0][0]
    assert isinstance(write, WriteSilence) and write.silent_us == 61 * SECOND
    assert write.node["status"]["conditions"][0]["reason"] == "NodeStatusNeverUpdated"


def test_refused_status_is_tried_six_times_and_the_node_is_left_out() -> None:
    actions, health = drive(node(), 41, refuse=only(WriteSilence))
    assert sum(isinstance(action, WriteSilence) for action in actions) == 6
    assert [action.us for action in actions if isinstance(action, Sleep)] == [20 * MS] * 5
    assert actions[-1] == Count(health, None) and health.standing is Phase.DUE


def test_node_that_cannot_be_read_again_is_left_out_at_once() -> None:
    actions, _ = drive(node(), 41, refuse=only(WriteSilence, Get))
    assert [type(action) for action in actions] == [WriteSilence, Get, Count]


def test_silent_node_is_settled_once_all_that_follows_is_done() -> None:
    obj, lease = node("Unknown", N.taint_unreachable), Item("k", {"spec": {}}, 1, 1)
    for verdict, counted, settled in (
        (7, Counted.NOT_READY, True),
        (0, Counted.NOT_READY, False),
        (7, Counted.OUT, False),
    ):
        health = Health("n", "leases/n")
        health.standing, health.ready, health.probe_us = Phase.DUE, condition_of(obj, "Ready"), -90 * SECOND
        health.verdict, health.counted = verdict, counted
        for _ in monitor_node(health, obj, lease, Seen(N, GRACE, STARTUP, {}, 0, NOW)):
            pass  # nothing of this asks for an answer
        assert (health.standing == Settled(obj, lease)) is settled
        assert health.ref == node_ref(obj)
