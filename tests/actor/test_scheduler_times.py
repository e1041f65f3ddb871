"""When the scheduler tries a pod again and what it says each time, to the millisecond, against a
real API server.

A try after a flush of back-offs comes a cycle later; those flushes come each second since the
leader began.
"""

import math

import pytest

from actors.scheduler.actor import CYCLE_US
from sim.api.types import Reply
from sim.ident import NAMES
from sim.units import SECOND
from tests.actor.test_scheduler import a_rig, condition_of, hold, lose

N = NAMES["orch"]
SOON_US = 20_000  # an event's way to the scheduler and a cycle


class Tries:
    """The instants at which a pod was tried."""

    def __init__(self, rig):
        self.rig = rig
        self.of = {}
        kind = rig.kernel.kind("schedule", "pod", "node", "message")
        rig.kernel.trace.listen(kind, self._note)

    def _note(self, _, at_us, cause, values):
        self.of.setdefault(values[0].partition("/")[2], []).append(at_us)

    def flushed_us(self, began_us, at_us):
        """The try that follows the first flush at or after an instant."""
        return began_us + math.ceil((at_us - began_us) / SECOND) * SECOND + CYCLE_US


async def began_us(rig):
    """When the leader began: known by a pod that only a flush brings to its second try."""
    tries = Tries(rig)
    await rig.node("probe", cpu="0")
    await rig.pod("probe", cpu="1")
    await rig.run_s(0.1)
    await rig.change("pods", "probe", {"metadata": {"labels": {"a": "b"}}}, "default")
    await rig.run_s(2.5)
    second = tries.of["probe"][1]
    await rig.ask("delete", "pods", "default", "probe")
    await rig.ask("delete", "nodes", "", "probe")
    return (second - CYCLE_US) % SECOND


async def come_and_go(rig, name, node="n1", **more):
    """A pod that has its node is made and deleted at once."""
    await rig.pod(name, cpu="0", nodeName=node, **more)
    await rig.ask("delete", "pods", "default", name)


async def test_tries_under_constant_events_back_off_and_come_with_the_flush_each_second():
    async with a_rig() as rig:
        began = await began_us(rig)
        tries = Tries(rig)
        await rig.node("n1", cpu="2")
        await rig.pod("big", cpu="3")
        for index, pause_s in enumerate([0.4] * 10 + [1.5] * 20):  # always within the back-off
            await come_and_go(rig, f"p{index}")
            await rig.run_s(pause_s)
        found = tries.of["big"]
        wanted = found[:1]
        for backoff_s in (1, 2, 4, 8, 10):
            wanted.append(tries.flushed_us(began, wanted[-1] + backoff_s * SECOND))
        assert found[: len(wanted)] == wanted


@pytest.mark.parametrize(
    ("change", "again"),
    [
        ({"metadata": {"annotations": {"a": "b"}}}, True),
        ({"metadata": {"labels": {"a": "b"}}}, True),
        ({"metadata": {"finalizers": ["x.io/hold"]}}, False),
        ({"status": {"message": "m"}}, False),
    ],
)
async def test_change_of_a_waiting_pod_retries_it_except_status_and_finalizers(change, again):
    async with a_rig() as rig:
        tries = Tries(rig)
        await rig.node("n1", cpu="2")
        await rig.pod("big", cpu="3")
        await rig.run_s(10)
        at_us = rig.kernel.now_us
        await rig.change("pods", "big", change, "default", "status" if "status" in change else "")
        await rig.run_s(30)
        later = [at - at_us for at in tries.of["big"][1:]]
        assert [0 < each < SOON_US for each in later] == [True] * again


async def test_an_event_within_the_back_off_waits_for_its_end():
    async with a_rig() as rig:
        began = await began_us(rig)
        tries = Tries(rig)
        await rig.node("n1", cpu="2")
        await rig.pod("big", cpu="3")
        await rig.run_s(0.3)
        await rig.node("n2", cpu="8")
        await rig.run_s(5)
        first = tries.of["big"][0]
        assert tries.of["big"] == [first, tries.flushed_us(began, first + SECOND)]
        assert await rig.node_of("big") == "n2"


async def test_node_label_does_not_retry_a_pod_that_does_not_tolerate_the_nodes_taint():
    """Node updates are checked like new nodes: by room, affinity, ports and NoSchedule taints, not
    by others.
    """
    async with a_rig() as rig:
        tries = Tries(rig)
        await rig.node("n1", cpu="2")
        taint = {"key": "k", "effect": "NoSchedule"}
        await rig.change("nodes", "n1", {"spec": {"taints": [taint]}})
        await rig.pod("web")
        await rig.run_s(5)
        await rig.change("nodes", "n1", {"metadata": {"labels": {"a": "b"}}})
        await rig.run_s(5)
        assert len(tries.of["web"]) == 1
        await rig.change("nodes", "n1", {"spec": {"taints": [{**taint, "effect": "NoExecute"}]}})
        await rig.run_s(5)
        await rig.change("nodes", "n1", {"metadata": {"labels": {"a": "c"}}})
        await rig.run_s(5)
        assert len(tries.of["web"]) == 3


async def test_the_next_leader_begins_with_the_highest_priority_and_then_the_longest_wait():
    async with a_rig("scheduler-0", "scheduler-1") as rig:
        tries = Tries(rig)
        await rig.node("n1", cpu="64")
        for name, value in (("high", 5), ("higher", 9)):
            await rig.priority_class(name, value)
        leader = (await rig.lease())["spec"]["holderIdentity"].partition("_")[0]
        rig.supervisor[leader].crash("test")
        for name, priority in (("z", ""), ("b", "high"), ("a", "high"), ("y", ""), ("c", "higher")):
            await rig.pod(name, **({"priorityClassName": priority} if priority else {}))
        await rig.pod("foreign", schedulerName="another")
        await rig.run_s(30)
        order = sorted(tries.of, key=lambda name: tries.of[name])
        assert order == ["c", "b", "a", "z", "y"]
        at_us = [tries.of[name][0] for name in order]
        assert [at - at_us[0] for at in at_us] == [0, CYCLE_US, 2 * CYCLE_US, 3 * CYCLE_US, 4 * CYCLE_US]
        assert "conditions" not in (await rig.get("foreign"))["status"]


async def test_pod_waits_for_its_slow_victim_only_and_its_successor_keeps_the_room():
    async with a_rig("scheduler-0", "scheduler-1") as rig:
        tries = Tries(rig)
        await rig.priority_class("high", 9)
        await rig.node("n1", cpu="2")
        await rig.pod("low", cpu="2", metadata={"finalizers": ["x.io/hold"]})
        await rig.run_s(1)
        await rig.pod("high", cpu="2", priorityClassName="high")
        await rig.run_s(1)
        leader = (await rig.lease())["spec"]["holderIdentity"].partition("_")[0]
        rig.supervisor[leader].crash("test")
        await rig.run_s(30)
        assert len(tries.of["high"]) == 2
        assert condition_of(await rig.get("high"))["message"] == (
            "0/1 nodes are available: 1 Insufficient cpu. "
            "preemption: not eligible due to a terminating pod on the nominated node."
        )
        await rig.pod("meek", cpu="2")
        await rig.run_s(1)
        at_us = rig.kernel.now_us
        await rig.let_go("low")
        await rig.run_s(20)
        assert await rig.node_of("high") == "n1"
        assert 0 < tries.of["high"][2] - at_us < SOON_US
        assert await rig.node_of("meek") is None


async def test_a_pod_of_higher_priority_takes_over_the_room_that_another_waits_for():
    async with a_rig() as rig:
        for name, value in (("high", 9), ("higher", 99)):
            await rig.priority_class(name, value)
        await rig.node("n1", cpu="2")
        await rig.pod("low", cpu="2", metadata={"finalizers": ["x.io/hold"]})
        await rig.run_s(1)
        await rig.pod("second", cpu="2", priorityClassName="high")
        await rig.run_s(1)
        assert (await rig.get("second"))["status"]["nominatedNodeName"] == "n1"
        await rig.pod("first", cpu="2", priorityClassName="higher")
        await rig.run_s(1)
        assert "nominatedNodeName" not in (await rig.get("second"))["status"]
        assert (await rig.get("first"))["status"]["nominatedNodeName"] == "n1"


async def test_repeated_event_is_a_series_and_the_condition_is_written_on_change_only():
    async with a_rig() as rig:
        await rig.node("n1", cpu="2")
        await rig.pod("big", cpu="3")
        await rig.run_s(1)
        first = await rig.get("big")
        for index in range(4):
            await rig.run_s(20)
            await come_and_go(rig, f"p{index}")
        await rig.run_s(20)
        told = await rig.events("FailedScheduling")
        # The first is of the pod without its condition, the others of one revision of it.
        assert [event.get("series", {}).get("count") for event in told] == [None, 2]
        assert (await rig.get("big"))["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        await rig.node("n2", cpu="1")
        await come_and_go(rig, "last")
        await rig.run_s(1)
        was, now = condition_of(first), condition_of(await rig.get("big"))
        assert now["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
        assert now["lastTransitionTime"] == was["lastTransitionTime"]


async def test_an_event_that_never_reached_a_server_is_there_with_its_first_repeat():
    async with a_rig() as rig:
        await rig.node("n1", cpu="2")
        await rig.run_s(1)
        handle = rig.server.handle
        lose(rig, "events")
        await rig.pod("big", cpu="3")
        await rig.run_s(1)
        await come_and_go(rig, "p0")
        await rig.run_s(150)  # it is given up
        rig.server.handle = handle
        await come_and_go(rig, "p1")
        await rig.run_s(1)
        (event,) = await rig.events("FailedScheduling")
        assert event["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert event["series"]["count"] == 2
        # Recorded minutes before.
        assert event["eventTime"] < event["series"]["lastObservedTime"][:17]


@pytest.mark.parametrize(
    ("again_s", "counts"),
    [
        # Recorded at 1, 390 and 780, with a sweep at 720, when the second is too young.
        (370, [None, 2]),
        (750, [None, None, None]),  # recorded at 1, 780 and 1560, with a sweep at 1440
    ],
)
async def test_event_is_forgotten_at_six_minutes_by_a_sweep_each_six_minutes(again_s, counts):
    async with a_rig(**{"pod-max-in-unschedulable-pods-duration": f"{again_s}s"}) as rig:
        await rig.node("n1", cpu="2")
        await rig.pod("big", cpu="3")
        await rig.run_s(1000 if again_s == 370 else 1700)
        told = await rig.events("FailedScheduling")
        assert [event.get("series", {}).get("count") for event in told] == counts


async def test_any_event_wakes_a_pod_that_no_plugin_refused():
    """Its node does not exist; where a plugin had refused it, the end of a pod would not help it."""
    async with a_rig() as rig:
        tries = Tries(rig)
        await rig.node("n1")
        field = {"key": "metadata.name", "operator": "In", "values": ["nowhere"]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        named = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        await rig.pod("lost", affinity=named)
        await rig.pod("picky", nodeSelector={"disk": "ssd"})
        await rig.run_s(5)
        assert condition_of(await rig.get("lost"))["reason"] == "SchedulerError"
        await come_and_go(rig, "p")
        await rig.run_s(5)
        assert (len(tries.of["lost"]), len(tries.of["picky"])) == (2, 1)


async def test_a_refused_bind_makes_forgotten_what_a_pod_waited_for():
    """Then no node is left, which is no plugin's doing, and any event brings it a try."""
    async with a_rig() as rig:
        tries = Tries(rig)
        await rig.node("n1")
        await rig.pod("picky", nodeSelector={"disk": "ssd"})
        await rig.run_s(3)
        let_through = hold(rig, "create", "binding", "picky")
        await rig.change("nodes", "n1", {"metadata": {"labels": {"disk": "ssd"}}})
        await rig.run_s(1)
        await rig.ask("delete", "nodes", "", "n1")
        let_through(Reply(409, body={"message": "no"}))
        await rig.run_s(10)
        assert condition_of(await rig.get("picky"))["message"] == "no nodes available to schedule pods"
        before = len(tries.of["picky"])
        await come_and_go(rig, "p")
        await rig.run_s(10)
        assert len(tries.of["picky"]) == before + 1


async def test_restarted_scheduler_keeps_nominated_room_from_its_first_try():
    """What waits for room says so in its status: a pod of the same priority that is tried before it
    gets none.
    """
    async with a_rig() as rig:
        await rig.priority_class("high", 9)
        await rig.node("n1", cpu="2")
        await rig.pod("low", cpu="2", metadata={"finalizers": ["x.io/hold"]})
        await rig.run_s(1)
        for name in ("b-waits", "a-is-listed-first"):
            await rig.pod(name, cpu="2", priorityClassName="high")
            await rig.run_s(1)
        scheduler = rig.supervisor["scheduler-0"]
        scheduler.crash("test")
        await rig.let_go("low")
        tries = Tries(rig)
        scheduler.start()
        await rig.run_s(30)
        assert tries.of["a-is-listed-first"][0] < tries.of["b-waits"][0]
        assert await rig.node_of("b-waits") == "n1"
        assert await rig.node_of("a-is-listed-first") is None


async def test_victims_are_deleted_in_turn_and_their_preemptor_is_retried_in_between():
    """The first one's end is seen during the try itself, which therefore ends in the back-off."""
    async with a_rig() as rig:
        began = await began_us(rig)
        tries = Tries(rig)
        await rig.priority_class("high", 9)
        await rig.node("n1", cpu="2")
        for name in ("low-1", "low-2"):
            await rig.pod(name, metadata={"finalizers": ["x.io/hold"]})
            await rig.run_s(1)
        await rig.pod("high", cpu="2", priorityClassName="high")
        await rig.pod("meek", cpu="3")
        await rig.run_s(10)
        first = tries.of["high"][0]
        assert tries.of["high"][1:] == [tries.flushed_us(began, first + SECOND)]
        assert tries.of["meek"][0] > first + CYCLE_US  # it had to wait for the answers
        assert condition_of(await rig.get("high"))["message"].endswith(
            "preemption: not eligible due to a terminating pod on the nominated node."
        )
        at_us = rig.kernel.now_us
        for name in ("low-1", "low-2"):
            await rig.let_go(name)
        await rig.run_s(10)
        # At the first one's end it is one too few; the second's comes within the back-off of four
        # seconds after that.
        third = tries.of["high"][2]
        assert 0 < third - at_us < SOON_US
        assert tries.of["high"][3:] == [tries.flushed_us(began, third + 4 * SECOND)]
        assert await rig.node_of("high") == "n1"


async def test_change_of_a_pod_during_the_deletion_of_its_victim_retries_it_at_once():
    async with a_rig() as rig:
        tries = Tries(rig)
        await rig.priority_class("high", 9)
        await rig.node("n1", cpu="2")
        await rig.pod("low", cpu="2", metadata={"finalizers": ["x.io/hold"]})
        await rig.run_s(1)
        let_through = hold(rig, "delete", "", "low")
        await rig.pod("high", cpu="2", priorityClassName="high")
        await rig.run_s(0.5)
        await rig.change("pods", "high", {"metadata": {"labels": {"a": "b"}}}, "default")
        await rig.run_s(0.5)
        at_us = rig.kernel.now_us
        let_through()
        await rig.run_s(0.5)
        first, second = tries.of["high"]
        assert first < at_us < second < at_us + SOON_US
        assert (await rig.get("high"))["status"]["nominatedNodeName"] == "n1"
        assert condition_of(await rig.get("high"))["message"].endswith(
            "preemption: not eligible due to a terminating pod on the nominated node."
        )
        await rig.let_go("low")
        await rig.run_s(10)
        assert await rig.node_of("high") == "n1"


async def test_a_try_lasts_until_the_status_of_a_pod_that_got_no_node_is_written():
    """No other pod is tried in between: pods that cannot be placed delay all others at the rate of
    the scheduler's client.
    """
    async with a_rig(**{"orch-api-qps": 1, "orch-api-burst": 2}) as rig:
        await rig.run_s(20)  # its lists take tokens too
        tries = Tries(rig)
        await rig.node("n1", cpu="2")
        let_through = hold(rig, "patch", "status", "big-0")
        for index in range(6):
            await rig.pod(f"big-{index}", cpu="3")
        await rig.pod("small", cpu="1")
        await rig.run_s(3)
        assert list(tries.of) == ["big-0"]
        at_us = rig.kernel.now_us
        let_through()
        await rig.run_s(10)
        assert await rig.node_of("small") == "n1"
        # two tokens are there, the others come one a second
        after_s = [(tries.of[f"big-{index}"][0] - at_us) / SECOND for index in range(1, 6)]
        assert [round(wait_s) for wait_s in after_s] == [0, 0, 0, 1, 2]
        assert round((tries.of["small"][0] - at_us) / SECOND) == 3


async def test_failed_deletion_of_a_victim_spares_the_others_and_nominates_no_node():
    async with a_rig() as rig:
        await rig.priority_class("high", 9)
        await rig.node("n1", cpu="2")
        for name in ("low-1", "low-2"):
            await rig.pod(name)
            await rig.run_s(1)
        sent_us = lose(rig, "pods", "delete")
        await rig.pod("high", cpu="2", priorityClassName="high")
        await rig.run_s(10)
        assert len(sent_us) == 1
        high = await rig.get("high")
        assert "nominatedNodeName" not in high["status"]
        assert condition_of(high)["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        await rig.pod("other")
        await come_and_go(rig, "any")
        await rig.run_s(10)
        assert len(sent_us) == 2
