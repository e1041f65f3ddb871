"""What an agent does not do while the runtime has an error, and when it continues."""

import pytest

from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from actors.node.sync_loop import retry_at
from sim.api.types import Obj
from sim.options.node.agent import parse_node_agent
from sim.units import MS, SECOND
from tests.actor.node.fake import one_node
from tests.actor.node.test_agent import behaving


@pytest.mark.parametrize(
    ("at_ms", "turn_ms"),
    [(0, 0), (1, 100), (100, 100), (301, 700), (3101, 6300), (6301, 11300), (30000, 31300)],
)
def test_retries_follow_sleeps_that_double_to_five_seconds(at_ms: int, turn_ms: int) -> None:
    assert retry_at(7 * SECOND, 7 * SECOND + at_ms * MS) == 7 * SECOND + turn_ms * MS


async def test_failed_runtime_suspends_admission_starts_deletions_and_readiness() -> None:
    """The error is found at 25 s and gone at 65 s: the loop sleeps from its next iteration on, and
    checks first 41.3 s after that.
    """
    probe = {"httpGet": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1}
    asks = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "99"}}}]}
    async with one_node(behaving(unhealthy_after_us=20 * SECOND)) as (kernel, api, node):
        api.bind("probed", {"containers": [{"name": "c", "image": "i", "readinessProbe": probe}]})
        api.bind("going")
        await kernel.run_until(22 * SECOND)
        node.fail_runtime("no")
        await kernel.run_until(26 * SECOND)
        api.bind("new")
        api.bind("large", asks)
        api.delete("going", 30)
        await kernel.run_until(61 * SECOND)
        node.heal_runtime()
        await kernel.run_until(66_200_000)
        assert api.ready("probed") and api.events(
            "Unhealthy"
        )  # probes continue, their results have no effect
        assert not api.events("Killing") and len(api.events("Started")) == 2 and not api.events("OutOfcpu")
        await kernel.run_until(69 * SECOND)
        assert not api.ready("probed") and api.ready("new")
        assert api.pod("large")["status"]["reason"] == "OutOfcpu" and not api.has("going")
        for reason in ("Killing", "OutOfcpu"):
            (told,) = api.events(reason)
            assert 66_300_000 <= told[0] <= 67_310_000


async def test_memory_eviction_happens_although_runtime_is_not_ready() -> None:
    rule = Rule(ContainerBehaviour(memory_bytes=1 << 30))
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=(rule,)))) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(22 * SECOND)
        node.fail_runtime("no")
        await kernel.run_until(31 * SECOND)
        node.set_pressure("memory", 0)
        await kernel.run_until(43 * SECOND)
        assert [at for at, _ in api.events("Evicted")] == [40 * SECOND]
        assert api.pod("web")["status"]["reason"] == "Evicted"


async def test_runtime_dependents_start_when_runtime_is_first_ready() -> None:
    options = parse_node_agent({"shutdown-grace-period": "30s"})
    async with one_node(options=options) as (kernel, api, node):
        assert [at for at, _ in api.events("NodeAllocatableEnforced")] == [0]
        node.crash_agent()
        node.fail_runtime("no")
        node.set_pressure("memory", 0)
        node.start_agent()  # checks of the runtime are at 20, 25, … s
        node.shutdown()
        await kernel.run_until(23 * SECOND)
        assert not node.machine.powered  # this was not delayed
        node.power_on()  # at 23 s; checks of memory could be at 33, 43, … s
        await kernel.run_until(50 * SECOND)
        node.heal_runtime()  # seen at 53
        await kernel.run_until(62_900_000)
        assert [at // SECOND for at, _ in api.events("NodeAllocatableEnforced")] == [0, 53]
        assert not api.events("EvictionThresholdMet")
        await kernel.run_until(63_100_000)
        assert len(api.events("EvictionThresholdMet")) == 1
        node.shutdown()
        await kernel.run_until(64 * SECOND)
        assert len(api.events("Shutdown")) == 1


async def test_kill_after_sleep_of_loop_keeps_its_grace_with_waiting_probe() -> None:
    """The pod is deleted, and found unready, while the runtime is not ready: the kill that follows
    lasts for the whole grace period, and the pod is deleted after that.
    """
    probe = {"httpGet": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1}
    asks = {"containers": [{"name": "c", "image": "i", "readinessProbe": probe}]}
    async with one_node(behaving(unhealthy_after_us=20 * SECOND, stop_us=None)) as (kernel, api, node):
        api.bind("web", asks)
        await kernel.run_until(30 * SECOND)
        (container,) = node.machine.pods[api.pod("web")["metadata"]["uid"]].containers
        node.fail_runtime("no")
        await kernel.run_until(50 * SECOND)
        api.delete("web", 12)
        await kernel.run_until(61 * SECOND)
        node.heal_runtime()
        await kernel.run_until(100 * SECOND)
        (killed_us, _), *_ = api.events("Killing")
        assert container.exit_us == killed_us + 12 * SECOND
        assert not api.has("web")
        removed = api.writes("delete", "pods")
        assert len(removed) == 1 and container.exit_us <= removed[0] <= container.exit_us + 2 * SECOND


async def failures_of_start(
    spec: NodeSpec, given: Obj, seconds: int, silent_ms: int
) -> tuple[list[tuple[int, str]], int]:
    """Failures of a pod bound at 20 s, with a runtime that falls silent some time after that.

    Returns them with their times in microseconds since then, and when its container started ("" is
    0).
    """
    async with one_node(spec, parse_node_agent(given)) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(20 * SECOND + silent_ms * MS)
        node.hang_runtime()
        await kernel.run_until((20 + seconds) * SECOND)
        node.heal_runtime()
        await kernel.run_until((20 + seconds + 30) * SECOND)
        told = [*api.events("FailedCreatePodSandBox"), *api.events("Failed")]
        return [(at - 20 * SECOND, text) for at, text in told], api.events("Started")[0][0] - 20 * SECOND


SLOW_START = NodeSpec("n1", profile=RuntimeProfile(start_us=3 * SECOND))


@pytest.mark.parametrize(("given", "limit"), [({}, 120), ({"runtime-request-timeout": "10s"}, 10)])
async def test_unanswered_sandbox_call_is_given_up_after_twice_the_timeout(given: Obj, limit: int) -> None:
    spec = NodeSpec("n1", profile=RuntimeProfile(sandbox_us=3 * SECOND))
    failures, started_us = await failures_of_start(spec, given, 400, 500)
    late = "Failed to create pod sandbox: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    assert [text for _, text in failures] == [late]
    assert 2 * limit * SECOND <= failures[0][0] <= (2 * limit + 1) * SECOND
    assert started_us >= 400 * SECOND  # nothing starts before


@pytest.mark.parametrize(("given", "limit"), [({}, 120), ({"runtime-request-timeout": "10s"}, 10)])
async def test_unanswered_start_is_given_up_and_answered_one_succeeds(given: Obj, limit: int) -> None:
    failures, started_us = await failures_of_start(SLOW_START, given, limit + 20, 1500)
    assert [text for _, text in failures] == ["Error: context deadline exceeded"]
    assert limit * SECOND <= failures[0][0] <= (limit + 2) * SECOND
    assert started_us >= (limit + 20) * SECOND
    failures, started_us = await failures_of_start(SLOW_START, given, limit - 5, 1500)
    assert not failures and started_us == (limit - 5) * SECOND


async def test_start_on_disk_slower_than_timeout_fails_and_is_retried() -> None:
    options = parse_node_agent({"runtime-request-timeout": "8s"})
    async with one_node(options=options) as (kernel, api, node):
        node.slow_runtime(7 * SECOND)
        api.bind("web")
        await kernel.run_until(26 * SECOND)  # while the sandbox is made
        node.slow_runtime(8 * SECOND)
        await kernel.run_until(200 * SECOND)
        assert [text for _, text in api.events("Failed")] == ["Error: context deadline exceeded"]
        node.slow_runtime(1 * SECOND)
        await kernel.run_until(211 * SECOND)
        assert "running" in api.pod("web")["status"]["containerStatuses"][0]["state"]
        assert len(api.events("Failed")) == 1


async def test_unanswered_check_of_runtime_ends_with_the_answer() -> None:
    """From 25 s on each check waits for two minutes and the next begins 5 s later: the one of 150 s
    waits when the runtime answers.
    """
    async with one_node() as (kernel, _, node):
        await kernel.run_until(22 * SECOND)
        node.hang_runtime()
        await kernel.run_until(227 * SECOND)
        assert node.machine.agent.runtime.errors()[0] == "container runtime is down"
        node.heal_runtime()
        await kernel.run_until(227 * SECOND + 1)
        assert node.machine.agent.runtime.errors() == []
        node.hang_runtime()  # checks at 232, 357
        await kernel.run_until(354 * SECOND)
        node.heal_runtime()
        await kernel.run_until(356 * SECOND)
        assert node.machine.agent.runtime.errors() == ["container runtime is down"]
        await kernel.run_until(357 * SECOND)
        assert node.machine.agent.runtime.errors() == []


@pytest.mark.parametrize(
    ("timeout", "healed_ms", "evicted_ms"),
    [("2m", 47_300, 47_300), ("7s", 29_900, 30_000), ("7s", 40_100, 40_100), ("7s", 53_900, 53_900)],
)
async def test_memory_check_waits_for_statistics_of_the_runtime(
    timeout: str, healed_ms: int, evicted_ms: int
) -> None:
    """The check of 30 s waits with any timeout: the call for the images' disk has none."""
    rule = Rule(ContainerBehaviour(memory_bytes=1 << 30))
    options = parse_node_agent({"runtime-request-timeout": timeout})
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=(rule,))), options) as (
        kernel,
        api,
        node,
    ):
        api.bind("web")
        await kernel.run_until(25 * SECOND)
        node.hang_runtime()
        node.set_pressure("memory", 0)
        await kernel.run_until(healed_ms * MS)
        node.heal_runtime()
        await kernel.run_until(60 * SECOND)
        assert [at for at, _ in api.events("Evicted")] == [evicted_ms * MS]


GIVEN_UP = '"rpc error: code = DeadlineExceeded desc = context deadline exceeded"'
SLEEPS = {"preStop": {"exec": {"command": ["sleep", "4"]}}}
HOOKED: Obj = {
    "terminationGracePeriodSeconds": 10,
    "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i", "lifecycle": SLEEPS}],
}


async def failures_of_end(spec: Obj, hang_s: int, heal_s: int) -> tuple[list[tuple[float, str]], float, int]:
    """Failures of a pod that ignores SIGTERM and is deleted at 30 s, with a silent runtime.

    Returns them, when it is gone, and how often its containers were stopped, in seconds since the
    deletion.
    """
    async with one_node(behaving(stop_us=None), parse_node_agent({"runtime-request-timeout": "60s"})) as (
        kernel,
        api,
        node,
    ):
        api.bind("web", spec)
        await kernel.run_until(30 * SECOND)
        api.delete("web", 10)
        await kernel.run_until((30 + hang_s) * SECOND)
        node.hang_runtime()
        await kernel.run_until((30 + heal_s) * SECOND)
        uid = api.pod("web")["metadata"]["uid"]
        node.heal_runtime()
        await kernel.run_until((30 + heal_s + 40) * SECOND)
        told = [(at / SECOND - 30, text.replace(uid, "UID")) for at, text in api.events("FailedKillPod")]
        (gone,) = api.writes("delete", "pods")
        return told, gone / SECOND - 30, len(api.events("Killing"))


async def test_unanswered_kill_of_pod_is_reported_and_retried() -> None:
    """The stop is given up after the grace period and the timeout, that of the sandbox after the
    timeout.
    """
    told, gone, kills = await failures_of_end({"terminationGracePeriodSeconds": 10}, 5, 135)
    ((at, text),) = told
    assert 130 <= at <= 131 and at + 10 <= gone <= at + 18 and kills == 1
    assert text == (
        f'error killing pod: [failed to "KillContainer" for "c" with KillContainerError: {GIVEN_UP}, '
        f'failed to "KillPodSandbox" for "UID" with KillPodSandboxError: {GIVEN_UP}]'
    )


async def test_unanswered_stop_of_sandbox_is_retried_after_a_pause() -> None:
    told, gone, kills = await failures_of_end({"terminationGracePeriodSeconds": 10}, 5, 100)
    ((at, text),) = told
    assert 100 <= at <= 101 and at + 10 <= gone <= at + 18 and kills == 1
    assert text == f'error killing pod: failed to "KillContainer" for "c" with KillContainerError: {GIVEN_UP}'


@pytest.mark.parametrize(("hang_s", "heal_s", "late"), [(9, 84, ["c", "d"]), (12, 84, ["d"]), (12, 20, [])])
async def test_stop_of_each_container_has_its_own_limit(hang_s: int, heal_s: int, late: list[str]) -> None:
    """The container without a hook ends after 10 s and is given up after 70 s, the other after 14 s
    and 74 s.
    """
    told, _, _ = await failures_of_end(HOOKED, hang_s, heal_s)
    missing = [f'failed to "KillContainer" for "{name}" with KillContainerError: {GIVEN_UP}' for name in late]
    texts = [f"[{', '.join(missing)}]"] if len(missing) > 1 else missing
    assert [text for _, text in told] == [f"error killing pod: {text}" for text in texts]


async def test_unanswered_kill_after_failed_probe_is_retried() -> None:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1}
    spec = {"containers": [{"name": "c", "image": "i", "livenessProbe": probe}]}
    spec |= {"terminationGracePeriodSeconds": 10}
    options = parse_node_agent({"runtime-request-timeout": "20s"})
    async with one_node(behaving(stop_us=None, unhealthy_after_us=5 * SECOND), options) as (
        kernel,
        api,
        node,
    ):
        api.bind("web", spec)
        await kernel.run_until(28 * SECOND)
        (killed_us, _), *_ = api.events("Killing")
        node.hang_runtime()
        await kernel.run_until(killed_us + 40 * SECOND)  # given up after 30 s
        node.heal_runtime()
        await kernel.run_until(killed_us + 50 * SECOND)
        assert not api.events("FailedKillPod")
        started = [at for at, _ in api.events("Started")]
        assert len(started) == 2 and killed_us + 40 * SECOND <= started[1]


async def test_slow_disk_delays_stops_of_containers_together_then_sandbox() -> None:
    """Answers take 5 s more each: the containers are gone after 14 s at the latest, which shows
    after 19 s.
    """
    async with one_node(behaving(stop_us=None)) as (kernel, api, node):
        api.bind("web", HOOKED)
        await kernel.run_until(30 * SECOND)
        node.slow_runtime(5 * SECOND)
        api.delete("web", 10)
        await kernel.run_until(80 * SECOND)
        (gone,) = api.writes("delete", "pods")
        assert (
            24 <= gone / SECOND - 30 <= 24 + 12
        )  # A relist comes in between, one of which begins every 6 s and takes 5 s too.
