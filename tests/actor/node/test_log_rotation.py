"""Growing logs: their use of the node's disk, their rotation, and the evictions that they cause."""

from random import Random
from typing import Any

import pytest

from actors.node.runtime.forecast import log_bytes_of
from actors.node.runtime.log.files import LogFiles
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Override, Rule, RuntimeProfile
from actors.node.server.logs import read_log
from sim.api.types import Obj
from sim.kernel import Kernel
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import one_node

MI, GI = 1 << 20, 1 << 30


def logging(rate: int, **more: Any) -> NodeSpec:
    """A node of 10 GiB with programs that log at this rate."""
    rule = Rule(ContainerBehaviour(log_rate=rate, **more))
    capacity = {"cpu": "8", "memory": "8Gi", "ephemeral-storage": "10Gi"}
    return NodeSpec("n1", capacity=capacity, profile=RuntimeProfile(rules=(rule,)))


def limited(most: str) -> Obj:
    return {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"ephemeral-storage": most}}}]}


def used(node: Any, kernel: Kernel) -> int:
    return sum(
        log_bytes_of(node.machine, c, kernel.now_us) for p in node.machine.pods.values() for c in p.containers
    )


def test_rotated_files_are_compressed_but_the_newest_and_oldest_are_removed() -> None:
    log = LogFiles(1000, 0, 0)
    for second in (10, 20, 30, 40):
        log = log.rotate(4, second * SECOND)
    assert log.rotated == (10_000, 1000, 1000)
    assert log.whole(41 * SECOND) == 13_000
    assert log.rotate(2, 50 * SECOND).rotated == (10_000,)


async def test_log_is_rotated_at_first_tick_that_finds_its_maximum_size() -> None:
    """Ticks are at 10, 20 … s; the log that begins at 20.4 s has 9.6, 19.6 and 29.6 MiB there, and
    the third is enough.
    """
    options = parse_node_agent({"container-log-max-size": "25Mi", "container-log-max-files": 3})
    async with one_node(logging(MI), options) as (kernel, api, node):
        api.bind("web")
        sizes = []
        for at in range(25, 125, 10):
            await kernel.run_until(at * SECOND)
            sizes.append(round(used(node, kernel) / MI, 1))
        began = node.machine.agent.workers[api.pod("web")["metadata"]["uid"]].runtime.newest("c").started_us
        first = 50 - began / SECOND
        assert 29 < first < 30
        assert sizes[:3] == [round(at - began / SECOND, 1) for at in (25, 35, 45)]
        assert sizes[3:6] == [round(first + n, 1) for n in (5, 15, 25)]
        assert sizes[6] == round(5 + 30 + first / 10, 1)
        assert sizes[9] == round(5 + 30 + 3.0, 1)  # of three files one is compressed


@pytest.mark.parametrize(("size", "lost"), [("-1", False), ("10Mi", True)])
async def test_first_lines_of_log_are_shown_until_it_is_rotated(size: str, lost: bool) -> None:
    options = parse_node_agent({"container-log-max-size": size})
    async with one_node(logging(MI, log="hello"), options) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(25 * SECOND)
        assert "hello" in read_log(node.machine.agent, "default", "web", "c")[1]
        await kernel.run_until(60 * SECOND)
        assert ("hello" not in read_log(node.machine.agent, "default", "web", "c")[1]) is lost


async def test_pod_over_its_limit_by_logs_is_evicted_unless_logs_are_rotated() -> None:
    for size, gone in (("10Mi", False), ("100Mi", True)):
        options = parse_node_agent({"container-log-max-size": size, "container-log-max-files": 2})
        async with one_node(logging(MI), options) as (kernel, api, _):
            api.bind("web", limited("45Mi"))
            await kernel.run_until(400 * SECOND)
            evictions = [at for at, _ in api.events("Evicted")]
            # 49.6 MiB; the check before found 39.6
            assert evictions == ([70 * SECOND] if gone else [])


async def test_unlimited_logs_fill_the_disk_and_cause_an_eviction() -> None:
    """100 MiB a second: of 10 GiB, 15 % (for images) is available 87 s after the start, at 107.4 s,
    and the next check finds less.
    """
    for size, gone in (("-1", [110 * SECOND]), ("100Mi", [])):
        options = parse_node_agent({"container-log-max-size": size, "container-log-max-files": 2})
        async with one_node(logging(100 * MI), options) as (kernel, api, _):
            api.bind("web")
            await kernel.run_until(300 * SECOND)
            assert [at for at, _ in api.events("Evicted")] == gone


async def test_without_agent_no_log_is_rotated_and_the_next_agent_rotates_at_once() -> None:
    async with one_node(logging(MI)) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(21 * SECOND)
        node.crash_agent()
        await kernel.run_until(300 * SECOND)
        assert used(node, kernel) > 270 * MI
        node.start_agent()
        await kernel.run_until(302 * SECOND)
        (log,) = node.machine.logs.values()
        assert len(log.rotated) == 1 and log.live(kernel.now_us) <= 3 * MI


async def test_log_rate_may_start_and_stop_and_quiet_node_schedules_nothing() -> None:
    async with one_node() as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(30 * SECOND)
        before = kernel.steps
        await kernel.run_until(31 * SECOND)
        assert not node.machine.logs
        node.behave((Override({"log_rate": MI}),))
        await kernel.run_until(36 * SECOND)
        node.behave(())
        await kernel.run_until(60 * SECOND)
        assert used(node, kernel) == 5 * MI and kernel.steps > before
        assert not node.machine.growing(kernel.now_us)
        quiet = kernel.steps
        await kernel.run_until(69_500_000)
        assert kernel.steps - quiet <= 4  # lease renewals


async def test_logs_of_init_containers_that_run_again_are_removed() -> None:
    rule = Rule(ContainerBehaviour(log_rate=MI, exit_after_us=SECOND), container="first")
    spec = NodeSpec("n1", profile=RuntimeProfile(rules=(rule,)))
    async with one_node(spec) as (kernel, api, node):
        api.bind("web", {"initContainers": [{"name": "first", "image": "i"}]})
        for at in (30, 50, 70):
            await kernel.run_until(at * SECOND)
            assert len(node.machine.logs) == 1
            node.power_loss()
            await kernel.run_until((at + 2) * SECOND)
            node.power_on()


# --- drawn ----------------------------------------------------------------------------------------


class Naive:
    """The files of a log, byte for byte every 50 ms, as upstream's manager treats them every 10 s."""

    def __init__(self, rate: int, most: int, files: int) -> None:
        self._rate, self._most, self._files = rate, most, files
        self._live = 0.0
        self._old: list[tuple[float, bool]] = []  # oldest first; True if it is compressed

    def step(self, at_ms: int, tick_ms: int) -> float:
        self._live += self._rate / 20
        if at_ms % 10_000 == tick_ms and 0 <= self._most <= self._live:
            del self._old[: max(0, len(self._old) - max(0, self._files - 2))]
            self._old = [(size if done else size / 10, True) for size, done in self._old]
            self._old.append((self._live, False))
            self._live = 0.0
        return self._live + sum(size for size, _ in self._old)


@pytest.mark.parametrize("seed", range(4))
async def test_random_logs_take_as_much_as_the_naive_model(seed: int) -> None:
    draw = Random(seed)
    rate, most = draw.choice([1000, MI, 7 * MI]), draw.choice([0, 15_000, 10 * MI, 33 * MI, -1])
    files = draw.randint(2, 6)
    options = parse_node_agent(
        {
            "container-log-max-size": most,
            "container-log-max-files": files,
            "eviction-hard": "memory.available<1Mi",
        }
    )
    async with one_node(logging(rate), options, seed) as (kernel, api, node):
        api.bind("web")
        while not node.machine.logs:
            await kernel.run_until(kernel.now_us + 1000)
        (log,) = node.machine.logs.values()
        naive, began_ms = Naive(rate, most, files), log.since_us // 1000
        at_ms = began_ms
        while at_ms < began_ms + 250_000:
            at_ms += 50
            await kernel.run_until(at_ms * 1000)
            wanted = naive.step((at_ms // 50) * 50, 0)
            if at_ms % 10_000 > 200:
                assert used(node, kernel) == pytest.approx(wanted, abs=rate / 5 * files)
