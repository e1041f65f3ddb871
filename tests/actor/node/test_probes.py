"""What makes an agent probe, beside the ticks of its probes: each sync of a pod probes those that are not ready."""

from itertools import pairwise

import pytest

from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.node.fake import FakeApi, one_node
from tests.actor.node.test_agent import behaving


def probed(name: str, period_s: int, **more: int) -> Obj:
    probe = {"httpGet": {"port": 80}, "periodSeconds": period_s, **more}
    return {"name": name, "image": "i", "readinessProbe": probe}


def failures(api: FakeApi) -> list[float]:
    return [at / SECOND for at, _ in api.events("Unhealthy")]


async def test_a_container_that_becomes_ready_has_the_others_probed_at_once() -> None:
    """`slow` could be seen as ready from 5 s on, but its own next tick is at 60 s."""
    rules = (
        Rule(ContainerBehaviour(healthy_after_us=20 * SECOND), container="quick"),
        Rule(ContainerBehaviour(healthy_after_us=5 * SECOND), container="slow"),
    )
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=rules))) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [probed("quick", 1), probed("slow", 60)]})
        await kernel.run_until(120 * SECOND)
        assert not api.ready("web")
        await kernel.run_until(123 * SECOND)
        assert api.ready("web")


async def test_a_container_that_turns_unready_is_probed_once_more_by_the_sync_that_follows() -> None:
    async with one_node(behaving(unhealthy_after_us=30 * SECOND)) as (kernel, api, _):
        await kernel.run_until(40 * SECOND)
        api.bind("web", {"containers": [probed("c", 20, failureThreshold=2)]})
        await kernel.run_until(125 * SECOND)
        first, second, extra, later = failures(api)
        assert 19.9 <= second - first <= 20.1
        assert extra - second < 0.1 and 19.9 <= later - second <= 20.1


async def test_a_container_that_stays_unready_is_probed_by_resyncs_too() -> None:
    """A probe each 50 s, and one each 60 to 91 s beside it."""
    async with one_node(behaving(unhealthy_after_us=0)) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [probed("c", 50)]})
        await kernel.run_until(1100 * SECOND)
        seen = failures(api)
        ticks = [at for at in seen if abs((at - 100) % 50) < 0.01]
        extra = [at for at in seen if at not in ticks][1:]  # the first is that of its start
        assert len(ticks) >= 19 and all(abs((at - 100) % 50) < 0.01 for at in ticks)
        gaps = [later - earlier for earlier, later in pairwise(extra)]
        assert len(gaps) >= 10 and all(60 <= gap <= 91 for gap in gaps)


async def test_a_container_that_is_killed_is_held_back_by_the_ends_before_that_alone() -> None:
    """Each lives for 20 s or a little more: the first end is not counted at all, then 10, 20 and 40 s count from the end
    before the last, where less than 40 s have not passed; from then on a try later counts from the last end."""
    probe = {"httpGet": {"port": 80}, "periodSeconds": 10, "failureThreshold": 3}
    async with one_node(behaving(unhealthy_after_us=0, stop_us=0)) as (kernel, api, _):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [{"name": "c", "image": "i", "livenessProbe": probe}]})
        await kernel.run_until(1000 * SECOND)
        started = [at / SECOND for at, _ in api.events("Started")]
        killed = [at / SECOND for at, _ in api.events("Killing")]
        assert all(18 <= end - start <= 31 for start, end in zip(started, killed, strict=False))
        delays = [start - end for end, start in zip(killed, started[1:], strict=False)]
        assert delays[:4] == [pytest.approx(0.1, abs=0.01)] * 4
        assert len(delays) >= 7
        for wanted, delay in zip((40, 80, 160), delays[4:], strict=False):
            assert wanted <= delay <= wanted + 16.2


@pytest.mark.parametrize(("delay_s", "ready_s"), [(0, 101), (2, 102), (3, 103), (20, 120)])
async def test_an_initial_delay_counts_from_the_second_in_which_the_container_started(
    delay_s: int, ready_s: int
) -> None:
    """It starts at 100.4 s; a look at it each second."""
    async with one_node() as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [probed("c", 1, initialDelaySeconds=delay_s)]})
        await kernel.run_until(ready_s * SECOND - 100_000)
        assert not api.ready("web")
        await kernel.run_until(ready_s * SECOND + 100_000)
        assert api.ready("web")


@pytest.mark.parametrize("kind", ["livenessProbe", "readinessProbe", "startupProbe"])
async def test_a_tick_that_finds_its_container_ended_syncs_the_pod_and_puts_its_next_start_off(
    kind: str,
) -> None:
    """The end is told by a relist within a second.  A tick after that, before the back-off is over, makes a sync of its
    own that fails, so that the next try comes 10 to 15 s after it and not after the first."""
    probe = {"httpGet": {"port": 80}, "periodSeconds": 11}
    async with one_node(behaving(exit_after_us=1500_000, exit_code=1)) as (kernel, api, _):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [{"name": "c", "image": "i", kind: probe}]})
        await kernel.run_until(120 * SECOND)
        _, second, third, *_ = [at / SECOND for at, _ in api.events("Started")]
        tick = next(at for at in range(60, 120, 11) if at > second + 1.5 + 1.1)
        assert second + 1.5 + 5 < tick and tick + 10 <= third <= tick + 17.2


async def test_without_probes_a_start_waits_for_its_own_retry_alone() -> None:
    async with one_node(behaving(exit_after_us=1500_000, exit_code=1)) as (kernel, api, _):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [{"name": "c", "image": "i"}]})
        await kernel.run_until(120 * SECOND)
        _, second, third, *_ = [at / SECOND for at, _ in api.events("Started")]
        assert 10 <= third - second - 1.5 <= 17.2


@pytest.mark.parametrize(("wanted", "ready_s"), [(1, 101), (2, 102), (3, 110), (4, 120)])
async def test_a_fresh_container_is_probed_again_by_the_sync_after_its_first_look(
    wanted: int, ready_s: int
) -> None:
    """That it is not ready to begin with is a result like any other.  Ticks are at 100, 110, 120 s, relists each second."""
    async with one_node() as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [probed("c", 10, successThreshold=wanted)]})
        await kernel.run_until(ready_s * SECOND - 100_000)
        assert not api.ready("web")
        await kernel.run_until(ready_s * SECOND + 100_000)
        assert api.ready("web")


async def test_a_fresh_container_that_fails_is_told_of_twice_within_a_second() -> None:
    async with one_node(behaving(unhealthy_after_us=0)) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [probed("c", 10)]})
        await kernel.run_until(135 * SECOND)
        assert failures(api) == pytest.approx([101, 102, 110, 120, 130], abs=0.01)


def told(api: FakeApi, since_us: int) -> list[tuple[bool, bool]]:
    """Each status of the pod that was written since then: whether its container has started, and is ready."""
    written = [
        body["status"]
        for at, verb, what, body in api.log
        if verb == "patch" and at >= since_us and what == "pods/web"
    ]
    shown = [status["containerStatuses"][0] for status in written if "containerStatuses" in status]
    return [(status["started"], status["ready"]) for status in shown]


async def test_a_new_agent_tells_a_ready_container_as_not_ready_for_a_moment() -> None:
    """Its probe begins with a failure, and finds it ready with the same look."""
    async with one_node() as (kernel, api, node):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [probed("c", 10)]})
        await kernel.run_until(100 * SECOND)
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(130 * SECOND)
        assert told(api, 100 * SECOND) == [(True, False), (True, True)]
        first, second = [at for at in api.writes("patch", "pods/web") if at >= 100 * SECOND]
        assert second - first < 100_000


async def test_a_new_agent_has_a_started_container_start_anew_for_a_period_of_its_startup_probe() -> None:
    """The first look finds it told of as started, and does not probe it; from then on it has not.  What that means for its
    readiness the sync tells that follows."""
    startup = {"httpGet": {"port": 80}, "periodSeconds": 10}
    async with one_node() as (kernel, api, node):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [{"name": "c", "image": "i", "startupProbe": startup}]})
        await kernel.run_until(100 * SECOND)
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(130 * SECOND)
        assert told(api, 100 * SECOND) == [(False, True), (False, False), (True, False), (True, True)]
        gone, _, _, back = [at for at in api.writes("patch", "pods/web") if at >= 100 * SECOND]
        assert gone < 111 * SECOND and 10 * SECOND <= back - gone <= 10 * SECOND + 100_000


async def test_a_young_agent_looks_for_the_first_time_when_that_is_due_whatever_ran_before() -> None:
    """The init container ends before the first tick, which comes within a minute."""
    first = {"name": "first", "image": "i", "command": ["sleep", "3"]}
    async with one_node(seed=5) as (kernel, api, node):
        node.crash_agent()
        api.bind("web", {"initContainers": [first], "containers": [probed("c", 60)]})
        node.start_agent()
        await kernel.run_until(82 * SECOND)
        assert api.ready("web")


async def test_a_young_agent_looks_once_more_where_a_sync_asked_for_that_before_its_first_tick() -> None:
    """The sync that tells of the container asks for a look; the first tick comes within an hour, and a sync after it."""
    async with one_node(behaving(unhealthy_after_us=0)) as (kernel, api, node):
        node.crash_agent()
        api.bind("web", {"containers": [probed("c", 3600)]})
        node.start_agent()
        await kernel.run_until(3620 * SECOND)
        first, second, third, resync, *_ = failures(api)
        assert first > 30 and first == second == third < resync - 50


@pytest.mark.parametrize("kinds", [["livenessProbe"], ["readinessProbe", "livenessProbe"]])
async def test_probes_that_tick_together_do_not_put_one_another_off(kinds: list[str]) -> None:
    """It is wedged 55 s after its start, at 155 s: the third failure of either is at 180 s.  The sync that follows the one, by
    which its pod is looked at, leaves the other's tick where it is."""
    probe = {"httpGet": {"port": 80}, "periodSeconds": 10, "failureThreshold": 3}
    async with one_node(behaving(unhealthy_after_us=55 * SECOND)) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [{"name": "c", "image": "i", **dict.fromkeys(kinds, probe)}]})
        await kernel.run_until(200 * SECOND)
        texts = [(at / SECOND, text) for at, text in api.events("Unhealthy") if text.startswith("Liveness")]
        assert [at for at, _ in texts] == pytest.approx([160, 170, 180], abs=0.01)
        (killed, _) = api.events("Killing")[0]
        assert 180 <= killed / SECOND <= 181.01


async def test_a_sync_that_takes_long_holds_up_no_probe_of_what_runs() -> None:
    """`slow` starts at 100.5 s, and its hook takes the sync until 110.5 s, when it has ended.  The next one, at 111 s, tells of
    `quick` as running, starts `slow` again, and takes as long."""
    probe = {"httpGet": {"port": 80}, "periodSeconds": 3, "failureThreshold": 2}
    hook = {"postStart": {"exec": {"command": ["sleep", "10"]}}}
    containers = [
        {"name": "quick", "image": "i", "livenessProbe": probe},
        {"name": "slow", "image": "i", "lifecycle": hook, "command": ["sleep", "10"]},
    ]
    rules = (Rule(ContainerBehaviour(unhealthy_after_us=0), container="quick"),)
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=rules))) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": containers})
        await kernel.run_until(130 * SECOND)
        assert failures(api)[:2] == pytest.approx([112, 115], abs=0.01)


async def test_what_has_ended_unseen_fails_its_probes_until_somebody_tells_of_it() -> None:
    """While `slow` ends, `quick` is told of as running, and its probe finds nobody there: the pod is not ready after two of those."""
    rules = (Rule(ContainerBehaviour(stop_us=None), container="slow"),)
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=rules))) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind(
            "web", {"containers": [probed("quick", 5, failureThreshold=2), {"name": "slow", "image": "i"}]}
        )
        await kernel.run_until(121 * SECOND)
        assert api.ready("web")
        api.delete("web", 20)
        await kernel.run_until(129 * SECOND)
        assert api.ready("web")
        await kernel.run_until(131 * SECOND)
        assert not api.ready("web")
        assert failures(api) == pytest.approx([125, 130], abs=0.01)
        states = [list(status["state"]) for status in api.pod("web")["status"]["containerStatuses"]]
        assert states == [["running"], ["running"]]
        await kernel.run_until(142 * SECOND)
        assert failures(api) == pytest.approx([125, 130, 135, 140], abs=0.01)


async def test_a_sync_of_a_new_agent_finds_that_nobody_has_seen_a_container_start() -> None:
    """The readiness probe, which ticks soon, tells of it as ready; the sync that follows asks the startup probe, which has not
    ticked yet."""
    startup = {"httpGet": {"port": 80}, "periodSeconds": 60}
    async with one_node(seed=2) as (kernel, api, node):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [{**probed("c", 2), "startupProbe": startup}]})
        await kernel.run_until(150 * SECOND)
        assert api.ready("web")
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(220 * SECOND)
        shown = told(api, 150 * SECOND)
        assert shown == [(True, False), (True, True), (False, False), (True, False), (True, True)]
        _, ready, gone, back, _ = [at for at in api.writes("patch", "pods/web") if at >= 150 * SECOND]
        assert gone - ready < 1_100_000 and back - gone > 2 * SECOND


@pytest.mark.parametrize("evicted", [False, True])
async def test_a_pod_that_is_said_to_have_failed_is_probed_no_more_while_it_ends(evicted: bool) -> None:
    """Its deadline passes, or it is evicted, at about 130 s; it has 30 s of grace; until it has ended it stays as ready as it was."""
    rules = (Rule(ContainerBehaviour(stop_us=None, unhealthy_after_us=35 * SECOND)),)
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=rules))) as (kernel, api, node):
        await kernel.run_until(100 * SECOND)
        deadline = {} if evicted else {"activeDeadlineSeconds": 30}
        api.bind("web", {"containers": [probed("c", 2, failureThreshold=1)], **deadline})
        await kernel.run_until(124 * SECOND)
        if evicted:
            node.set_pressure("memory", 0)
        await kernel.run_until(155 * SECOND)
        assert api.pod("web")["status"]["containerStatuses"][0]["state"].keys() == {"running"}
        assert failures(api) == [] and api.ready("web") is evicted
        await kernel.run_until(166 * SECOND)
        assert api.pod("web")["status"]["phase"] == "Failed" and failures(api) == []


async def test_the_sync_that_follows_a_probe_knows_what_all_say_that_tick_with_it() -> None:
    """`open` turns unready with the same tick as `wedged` has its last chance: that one is killed at once, not after a relist."""
    liveness = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 2}
    pods = {
        "containers": [
            probed("open", 5, failureThreshold=2),
            {**probed("wedged", 5), "livenessProbe": liveness},
        ]
    }
    async with one_node(behaving(unhealthy_after_us=12 * SECOND)) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", pods)
        await kernel.run_until(122 * SECOND)
        (killed_us,) = [at for at, _ in api.events("Killing")]
        assert killed_us / SECOND == pytest.approx(120, abs=0.01)


async def test_a_probe_meets_the_next_instance_before_anybody_tells_of_it() -> None:
    """Its hook takes 6 s, for which the status tells of the instance that was killed; another address it does not have."""
    hook = {"lifecycle": {"postStart": {"exec": {"command": ["sleep", "6"]}}}}
    liveness = {"httpGet": {"port": 80}, "periodSeconds": 20, "failureThreshold": 1}
    container = {**probed("c", 2, failureThreshold=100), "livenessProbe": liveness, **hook}
    async with one_node(behaving(unhealthy_after_us=1)) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [container]})
        await kernel.run_until(126_500_000)
        assert [at // SECOND for at, _ in api.events("Started")] == [100, 120]
        seen = [at for at in failures(api) if at > 121]
        assert seen == pytest.approx([122, 124, 126], abs=0.01)


async def test_what_has_ended_for_good_is_looked_at_once_more_by_which_its_pod_is_synced() -> None:
    """Which has the other container probed, at the relist after that tick."""
    rules = (
        Rule(ContainerBehaviour(exit_after_us=1 * SECOND), container="quick"),
        Rule(ContainerBehaviour(unhealthy_after_us=1), container="slow"),
    )
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=rules))) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [probed("quick", 6), probed("slow", 60)], "restartPolicy": "Never"})
        await kernel.run_until(120 * SECOND)
        assert failures(api) == pytest.approx([101, 102, 107], abs=1) and failures(api)[-1] > 106
