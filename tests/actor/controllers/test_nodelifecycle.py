"""The node lifecycle controller against the real API server: events, and rejected requests."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from actors.controllers.nodelifecycle import loop
from actors.controllers.nodelifecycle.decide import Health
from actors.controllers.nodelifecycle.examine import Seen, Steps, monitor_node
from sim.api.store import Item
from sim.api.types import Obj
from sim.units import MS, SECOND, format_time
from tests.actor.apiserver.cluster import SCHEME
from tests.actor.controllers.workload import POD_SPEC, World, world

LOOPS = ("nodelifecycle",)
N = SCHEME.names
PERIOD = 5 * SECOND
GONE = f"{N.node_agent.capitalize()} stopped posting node status."


def ready(w: World, status: str = "True") -> Obj:
    now = format_time(w.kernel.epoch_us + w.kernel.now_us)
    said = {"type": "Ready", "status": status, "reason": "r", "lastHeartbeatTime": now}
    return {"status": {"conditions": [{**said, "lastTransitionTime": now}]}}


def condition(obj: Obj, kind: str = "Ready") -> Obj:
    found: Obj = next(c for c in obj["status"]["conditions"] if c["type"] == kind)
    return found


async def events_of(w: World, name: str) -> list[tuple[str, str]]:
    """(reason, message) of events about a node or a pod."""
    events = await w.stored("events")
    found = [e for e in events if e["involvedObject"]["name"] == name]
    found.sort(key=lambda e: int(e["metadata"]["resourceVersion"]))
    return [(e["reason"], e["message"]) for e in found]


async def node_of(w: World) -> Obj:
    (node,) = await w.stored("nodes", "")
    return node


async def begun(w: World, **spec: Any) -> None:
    """Create a ready node, and a ready pod on it."""
    await w.create("nodes", {"metadata": {"name": "n"}}, "")
    await report(w)
    pod = {"metadata": {"name": "p"}, "spec": {**POD_SPEC, "nodeName": "n", **spec}}
    await w.create("pods", pod)
    await w.make_ready("p")
    await w.settle(2 * PERIOD)


async def report(w: World, status: str = "True", name: str = "n") -> None:
    merge = N.media_merge_patch
    patch = ready(w, status)
    reply = await w.plane.ask(
        "patch", "nodes", "", name, body=patch, subresource="status", content_type=merge
    )
    assert reply.ok, reply.message


async def taint(w: World, *taints: Obj) -> None:
    body = {"spec": {"taints": list(taints)}}
    reply = await w.plane.ask("patch", "nodes", "", "n", body=body, content_type=N.media_merge_patch)
    assert reply.ok, reply.message


async def test_node_events_are_recorded_on_registration_silence_and_removal() -> None:
    async with world(LOOPS) as w:
        await begun(w)
        await w.settle(50 * SECOND)
        found = {
            c["type"]: (c["status"], c["reason"], c["message"])
            for c in (await node_of(w))["status"]["conditions"]
        }
        never = f"{N.node_agent.capitalize()} never posted node status."
        assert found == {
            "Ready": ("Unknown", "NodeStatusUnknown", GONE),
            **dict.fromkeys(
                ("MemoryPressure", "DiskPressure", "PIDPressure"),
                ("Unknown", "NodeStatusNeverUpdated", never),
            ),
        }
        assert condition(await w.get("pods", "p"))["status"] == "False"
        assert await events_of(w, "p") == [("NodeNotReady", "Node is not ready")]
        await w.plane.ask("delete", "nodes", "", "n")
        await w.settle(2 * PERIOD)
        assert await events_of(w, "n") == [
            ("RegisteredNode", "Node n event: Registered Node n in Controller"),
            ("NodeNotReady", "Node n status is now: NodeNotReady"),
            ("RemovingNode", "Node n event: Removing Node n from Controller"),
        ]


async def test_silent_node_is_passed_over_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    updated: list[str] = []

    def counted(health: Health, node: Obj, lease: Item | None, seen: Seen) -> Steps[None]:
        updated.append(health.name)
        return monitor_node(health, node, lease, seen)

    monkeypatch.setattr(loop.examine, "monitor_node", counted)
    async with world(LOOPS) as w:
        await begun(w)
        await w.create("nodes", {"metadata": {"name": "other"}}, "")

        async def spend(passes: int) -> None:
            """The other node reports in time, so that its zone stays in order."""
            for _ in range(passes):
                await report(w, name="other")
                await w.settle(PERIOD)
            node = next(node for node in await w.stored("nodes", "") if node["metadata"]["name"] == "n")
            tainted = [(one["key"], one["effect"]) for one in node["spec"]["taints"]]
            assert (N.taint_unreachable, "NoExecute") in tainted

        await w.settle(10 * SECOND)
        await spend(18)
        updated.clear()
        await spend(6)
        assert "n" not in updated
        await taint(w)
        await spend(2)
        assert "n" in updated


async def test_rejected_status_is_retried_six_times_a_pass_on_a_fresh_read() -> None:
    async with world(LOOPS) as w:
        await begun(w)
        w.quota.refuse(7, "update", "nodes/status", 409, "Conflict", "the object has been modified")
        wrote = w.quota.watch("update", "nodes/status")
        await w.settle(60 * SECOND)
        assert len(wrote) == 8
        # Ticks count from the first failure; the next pass begins one period after the end of this.
        gaps = [round((b - a) / MS) for a, b in pairwise(wrote)]
        assert all(18 <= gap <= 24 for gap in (*gaps[:5], *gaps[6:])) and 5000 <= gaps[5] <= 5006
        assert condition(await node_of(w))["reason"] == "NodeStatusUnknown"


async def test_eviction_sends_up_to_five_deletes_and_one_event() -> None:
    async with world(LOOPS) as w:
        await begun(w)
        w.quota.refuse(9, "delete", "pods", 500, "InternalError", "no")
        deletes = w.quota.watch("delete", "pods")
        await taint(w, {"key": "k", "effect": "NoExecute"})
        await w.settle(60 * SECOND)
        pauses_ms = [round((b - a) / MS) for a, b in pairwise(deletes)]
        assert pauses_ms == [11] * 4  # 10 ms and two link delays
        marked = ("TaintManagerEviction", "Marking for deletion Pod default/p")
        assert (await events_of(w, "p")).count(marked) == 1
        await taint(w, {"key": "k", "effect": "NoExecute"}, {"key": "k2", "effect": "NoExecute"})
        await w.settle(SECOND)
        assert len(deletes) == 10 and await w.names("pods") == []


async def test_removed_taint_cancels_pending_evictions() -> None:
    async with world(LOOPS) as w:
        await begun(
            w,
            tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 15}],
        )
        await taint(w, {"key": "k", "effect": "NoExecute"})
        await w.settle(14 * SECOND)
        await taint(w)
        await w.settle(2 * SECOND)
        assert await events_of(w, "p") == [("TaintManagerEviction", "Cancelling deletion of Pod default/p")]
        await taint(w, {"key": "k", "effect": "NoExecute"})
        await w.settle(16 * SECOND)
        assert (await events_of(w, "p"))[1:] == [
            ("TaintManagerEviction", "Marking for deletion Pod default/p")
        ]
        assert await w.names("pods") == []


async def test_recreated_node_without_taint_cancels_pending_evictions() -> None:
    async with world(LOOPS) as w:
        await begun(w, tolerations=[{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}])
        await taint(w, {"key": "k", "effect": "NoExecute"})
        await w.settle(5 * SECOND)
        await w.plane.ask("delete", "nodes", "", "n")
        await w.settle(5 * SECOND)
        assert await events_of(w, "p") == []  # not cancelled yet
        await w.create("nodes", {"metadata": {"name": "n"}}, "")
        await w.settle(30 * SECOND)
        assert await events_of(w, "p") == [("TaintManagerEviction", "Cancelling deletion of Pod default/p")]
        assert await w.names("pods") == ["p"]


async def test_node_labels_are_corrected_even_if_taints_are_rejected() -> None:
    """The taint is added at the node's next event."""
    async with world(LOOPS) as w:
        w.quota.refuse(1, "get", "nodes", 500, "InternalError", "no")
        made = {"metadata": {"name": "n", "labels": {N.label_os: "linux"}}, "spec": {"unschedulable": True}}
        await w.create("nodes", made, "")
        await w.settle(2 * SECOND)
        node = await node_of(w)
        assert node["metadata"]["labels"][N.label_beta_os] == "linux"
