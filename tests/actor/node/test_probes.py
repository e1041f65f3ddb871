"""What makes an agent probe, besides the ticks of its probes: each sync probes unready containers."""

from itertools import pairwise

import pytest

from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Override, Rule, RuntimeProfile
from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.node.fake import FakeApi, one_node
from tests.actor.node.test_agent import behaving


def probed(name: str, period_s: int, **more: int) -> Obj:
    probe = {"httpGet": {"port": 80}, "periodSeconds": period_s, **more}
    return {"name": name, "image": "i", "readinessProbe": probe}


def failures(api: FakeApi) -> list[float]:
    return [at / SECOND for at, _ in api.events("Unhealthy")]


async def test_container_that_becomes_ready_has_the_others_probed_at_once() -> None:
    """`slow` could be found ready from 5 s on, but its own next tick is at 60 s."""
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


async def test_container_that_turns_unready_is_probed_again_by_next_sync() -> None:
    async with one_node(behaving(unhealthy_after_us=30 * SECOND)) as (kernel, api, _):
        await kernel.run_until(40 * SECOND)
        api.bind("web", {"containers": [probed("c", 20, failureThreshold=2)]})
        await kernel.run_until(125 * SECOND)
        first, second, extra, later = failures(api)
        assert 19.9 <= second - first <= 20.1
        assert extra - second < 0.1 and 19.9 <= later - second <= 20.1


async def test_unready_container_is_also_probed_by_resyncs() -> None:
    """A probe every 50 s, and one every 60 to 91 s besides."""
    async with one_node(behaving(unhealthy_after_us=0)) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [probed("c", 50)]})
        await kernel.run_until(1100 * SECOND)
        seen = failures(api)
        ticks = [at for at in seen if abs((at - 100) % 50) < 0.01]
        extra = [at for at in seen if at not in ticks][1:]  # the first is the one at its start
        assert len(ticks) >= 19 and all(abs((at - 100) % 50) < 0.01 for at in ticks)
        gaps = [later - earlier for earlier, later in pairwise(extra)]
        assert len(gaps) >= 10 and all(60 <= gap <= 91 for gap in gaps)


async def test_back_off_of_killed_container_counts_from_earlier_ends() -> None:
    """Each instance lives for 20 s or a little more: the first end does not count, then 10, 20 and
    40 s count from the end before the last, unless 40 s have passed; from then on a later attempt
    counts from the last end.
    """
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
async def test_initial_delay_counts_from_second_in_which_container_started(
    delay_s: int, ready_s: int
) -> None:
    """It starts at 100.4 s; the probe ticks every second."""
    async with one_node() as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [probed("c", 1, initialDelaySeconds=delay_s)]})
        await kernel.run_until(ready_s * SECOND - 100_000)
        assert not api.ready("web")
        await kernel.run_until(ready_s * SECOND + 100_000)
        assert api.ready("web")


@pytest.mark.parametrize("kind", ["livenessProbe", "readinessProbe", "startupProbe"])
async def test_tick_after_end_of_container_syncs_pod_and_delays_its_restart(
    kind: str,
) -> None:
    """A relist shows the end within a second.  A tick after that, before the back-off is over,
    causes a sync that fails, so that the next attempt comes 10 to 15 s after it and not after the
    first.
    """
    probe = {"httpGet": {"port": 80}, "periodSeconds": 11}
    async with one_node(behaving(exit_after_us=1500_000, exit_code=1)) as (kernel, api, _):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [{"name": "c", "image": "i", kind: probe}]})
        await kernel.run_until(120 * SECOND)
        _, second, third, *_ = [at / SECOND for at, _ in api.events("Started")]
        tick = next(at for at in range(60, 120, 11) if at > second + 1.5 + 1.1)
        assert second + 1.5 + 5 < tick and tick + 10 <= third <= tick + 17.2


async def test_without_probes_restart_waits_for_its_own_retry_only() -> None:
    async with one_node(behaving(exit_after_us=1500_000, exit_code=1)) as (kernel, api, _):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [{"name": "c", "image": "i"}]})
        await kernel.run_until(120 * SECOND)
        _, second, third, *_ = [at / SECOND for at, _ in api.events("Started")]
        assert 10 <= third - second - 1.5 <= 17.2


@pytest.mark.parametrize(("wanted", "ready_s"), [(1, 101), (2, 102), (3, 110), (4, 120)])
async def test_new_container_is_probed_again_by_sync_after_first_check(wanted: int, ready_s: int) -> None:
    """Its initial state, not ready, is a result like any other.  Ticks are at 100, 110, 120 s,
    relists every second.
    """
    async with one_node() as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [probed("c", 10, successThreshold=wanted)]})
        await kernel.run_until(ready_s * SECOND - 100_000)
        assert not api.ready("web")
        await kernel.run_until(ready_s * SECOND + 100_000)
        assert api.ready("web")


async def test_failing_new_container_is_reported_twice_within_a_second() -> None:
    async with one_node(behaving(unhealthy_after_us=0)) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [probed("c", 10)]})
        await kernel.run_until(135 * SECOND)
        assert failures(api) == pytest.approx([101, 102, 110, 120, 130], abs=0.01)


def written_states(api: FakeApi, since_us: int) -> list[tuple[bool, bool]]:
    """Each status of the pod written since then: (the container has started, it is ready)."""
    written = [
        body["status"]
        for at, verb, what, body in api.log
        if verb == "patch" and at >= since_us and what == "pods/web"
    ]
    shown = [status["containerStatuses"][0] for status in written if "containerStatuses" in status]
    return [(status["started"], status["ready"]) for status in shown]


async def test_new_agent_shows_ready_container_as_not_ready_for_a_moment() -> None:
    """Its probe begins with a failure and finds the container ready in the same check."""
    async with one_node() as (kernel, api, node):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [probed("c", 10)]})
        await kernel.run_until(100 * SECOND)
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(130 * SECOND)
        assert written_states(api, 100 * SECOND) == [(True, False), (True, True)]
        first, second = [at for at in api.writes("patch", "pods/web") if at >= 100 * SECOND]
        assert second - first < 100_000


async def test_new_agent_shows_started_container_as_not_started_for_one_period() -> None:
    """The first check finds it shown as started, and does not probe it; from then on it is not
    started.  The sync that follows derives its readiness.
    """
    startup = {"httpGet": {"port": 80}, "periodSeconds": 10}
    async with one_node() as (kernel, api, node):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [{"name": "c", "image": "i", "startupProbe": startup}]})
        await kernel.run_until(100 * SECOND)
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(130 * SECOND)
        assert written_states(api, 100 * SECOND) == [
            (False, True),
            (False, False),
            (True, False),
            (True, True),
        ]
        gone, _, _, back = [at for at in api.writes("patch", "pods/web") if at >= 100 * SECOND]
        assert gone < 111 * SECOND and 10 * SECOND <= back - gone <= 10 * SECOND + 100_000


async def test_first_probe_of_new_agent_keeps_its_time_after_init_containers() -> None:
    """The init container ends before the first tick, which comes within a minute."""
    first = {"name": "first", "image": "i", "command": ["sleep", "3"]}
    async with one_node(seed=5) as (kernel, api, node):
        node.crash_agent()
        api.bind("web", {"initContainers": [first], "containers": [probed("c", 60)]})
        node.start_agent()
        await kernel.run_until(82 * SECOND)
        assert api.ready("web")


async def test_probe_of_new_agent_checks_twice_if_a_sync_requested_a_check() -> None:
    """The sync that shows the container requests a check; the first tick comes within an hour, and
    a sync after it.
    """
    async with one_node(behaving(unhealthy_after_us=0)) as (kernel, api, node):
        node.crash_agent()
        api.bind("web", {"containers": [probed("c", 3600)]})
        node.start_agent()
        await kernel.run_until(3620 * SECOND)
        first, second, third, resync, *_ = failures(api)
        assert first > 30 and first == second == third < resync - 50


@pytest.mark.parametrize("kinds", [["livenessProbe"], ["readinessProbe", "livenessProbe"]])
async def test_probes_with_equal_ticks_do_not_delay_each_other(kinds: list[str]) -> None:
    """It fails from 55 s after its start, at 155 s: the third failure of either probe is at 180 s.
    The sync after the one leaves the other's tick where it is.
    """
    probe = {"httpGet": {"port": 80}, "periodSeconds": 10, "failureThreshold": 3}
    async with one_node(behaving(unhealthy_after_us=55 * SECOND)) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [{"name": "c", "image": "i", **dict.fromkeys(kinds, probe)}]})
        await kernel.run_until(200 * SECOND)
        texts = [(at / SECOND, text) for at, text in api.events("Unhealthy") if text.startswith("Liveness")]
        assert [at for at, _ in texts] == pytest.approx([160, 170, 180], abs=0.01)
        (killed, _) = api.events("Killing")[0]
        assert 180 <= killed / SECOND <= 181.01


async def test_long_sync_delays_no_probe_of_running_container() -> None:
    """`slow` starts at 100.5 s, and its hook takes the sync until 110.5 s, when it has ended.  The
    next sync, at 111 s, shows `quick` as running, starts `slow` again, and takes as long.
    """
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


async def test_container_with_unshown_end_fails_its_probes() -> None:
    """While `slow` ends, `quick` is shown as running, and its probe gets no answer: the pod is not
    ready after two failures.
    """
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


async def test_sync_of_new_agent_counts_container_without_startup_result_as_unstarted() -> None:
    """The readiness probe, which ticks soon, shows the container as ready; the sync that follows
    checks the startup probe, which has not ticked yet.
    """
    startup = {"httpGet": {"port": 80}, "periodSeconds": 60}
    async with one_node(seed=2) as (kernel, api, node):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [{**probed("c", 2), "startupProbe": startup}]})
        await kernel.run_until(150 * SECOND)
        assert api.ready("web")
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(220 * SECOND)
        shown = written_states(api, 150 * SECOND)
        assert shown == [(True, False), (True, True), (False, False), (True, False), (True, True)]
        _, ready, gone, back, _ = [at for at in api.writes("patch", "pods/web") if at >= 150 * SECOND]
        assert gone - ready < 1_100_000 and back - gone > 2 * SECOND


@pytest.mark.parametrize("evicted", [False, True])
async def test_pod_shown_as_failed_is_not_probed_while_it_ends(evicted: bool) -> None:
    """Its deadline passes, or it is evicted, at about 130 s; it has a grace of 30 s; until it has
    ended it stays as ready as it was.
    """
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


async def test_sync_after_a_probe_sees_results_of_all_probes_of_that_tick() -> None:
    """`open` turns unready at the tick at which `wedged` fails for the last time: that one is
    killed at once, not after a relist.
    """
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


async def test_probe_reaches_next_instance_before_status_shows_it() -> None:
    """Its hook takes 6 s, during which the status shows the killed instance; there is only one
    address.
    """
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


async def test_finished_container_is_probed_once_more_and_its_pod_synced() -> None:
    """The sync has the other container probed, at the relist after that tick."""
    rules = (
        Rule(ContainerBehaviour(exit_after_us=1 * SECOND), container="quick"),
        Rule(ContainerBehaviour(unhealthy_after_us=1), container="slow"),
    )
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=rules))) as (kernel, api, _):
        await kernel.run_until(100 * SECOND)
        api.bind("web", {"containers": [probed("quick", 6), probed("slow", 60)], "restartPolicy": "Never"})
        await kernel.run_until(120 * SECOND)
        assert failures(api) == pytest.approx([101, 102, 107], abs=1) and failures(api)[-1] > 106


async def test_liveness_probe_of_removed_file_restarts_its_container() -> None:
    """The file goes after 30 s; the third failure in a row kills the shell, which ignores SIGTERM."""
    script = "touch /run/healthy; sleep 30; rm -f /run/healthy; sleep 600"
    probe = {"exec": {"command": ["cat", "/run/healthy"]}, "initialDelaySeconds": 5, "periodSeconds": 5}
    liveness = {"name": "c", "image": "busybox", "args": ["/bin/sh", "-c", script], "livenessProbe": probe}
    async with one_node() as (kernel, api, _):
        await kernel.run_until(60 * SECOND)
        api.bind("web", {"containers": [liveness], "terminationGracePeriodSeconds": 30})
        await kernel.run_until(150 * SECOND)
        (first, *_) = [at / SECOND for at, _ in api.events("Started")]
        assert 30 <= failures(api)[0] - first <= 36
        texts = [text for _, text in api.events("Unhealthy")]
        assert texts[0].endswith("cat: can't open '/run/healthy': No such file or directory\n")
        (killed, *_) = [at / SECOND for at, _ in api.events("Killing")]
        assert 40 <= killed - first <= 46
        assert api.pod("web")["status"]["containerStatuses"][0]["restartCount"] == 1
        assert api.pod("web")["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137


async def test_step_that_makes_containers_ready_precedes_their_handlers() -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    async with one_node() as (kernel, api, node):
        node.behave([Override({"answers_probes": True, "unhealthy_after_us": None}, pod_prefix="web")])
        for name in ("web", "other"):
            api.bind(name, {"containers": [{"name": "c", "image": "i", "readinessProbe": probe}]})
        await kernel.run_until(30 * SECOND)
        assert api.ready("web") and not api.ready("other")
