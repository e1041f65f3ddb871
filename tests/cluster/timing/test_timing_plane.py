"""What the control plane does when several of its parts fail at once, or in turns: as it follows
from the rules of elections (5 s a request, 10 s a round, 15 s a lease), of watch caches, of the
storage and of connections.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from sim.api.types import Reply, Request
from sim.app.cluster import Cluster
from sim.client.client import Client
from sim.client.rest.channel import Channel
from sim.kernel import Context, Rule
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import MS, SECOND
from tests.cluster.timing.api.test_timing_api import ask, label, pod
from tests.cluster.timing.api.test_timing_watches import stream
from tests.cluster.timing.test_timing_election import (
    MANAGER,
    SCHEDULER,
    Leadership,
    candidates,
    ends_for_good,
)

SERVER, STORAGE = "apiserver-0", "storage"


def bare(servers: int = 1) -> ClusterPlan:
    """API servers without clients."""
    none = ComponentPlan(0)
    flags = {"disable-admission-plugins": "ServiceAccount"}
    return ClusterPlan(api_server=ComponentPlan(servers, flags), controller_manager=none, scheduler=none)


class Asked:
    """One request about pods, and when it was answered."""

    def __init__(self, cluster: Cluster, verb: str, server: str = SERVER, **options: str) -> None:
        self._cluster, self._began_us = cluster, cluster.kernel.now_us
        self.reply: Reply | None = None
        self.took = 0.0
        request = Request(
            verb=verb,
            resource="pods",
            version="v1",
            namespace="default" if verb in ("get", "create") else "",
            name="a" if verb == "get" else "",
            body=pod("b") if verb == "create" else None,
            options=options,
            user=cluster.admin_user,
        )
        cluster.kernel.call_later(0, lambda _: cluster.api_servers[server].handle(request, self._told))

    def _told(self, reply: Reply) -> None:
        self.reply, self.took = reply, (self._cluster.kernel.now_us - self._began_us) / SECOND

    async def code(self) -> int:
        assert await self._cluster.run_while(lambda: self.reply is None, "30s", 10 * MS)
        assert self.reply is not None
        return self.reply.code


def now_s(cluster: Cluster) -> float:
    return cluster.kernel.now_us / SECOND


def became_leader(cluster: Cluster) -> list[str]:
    return [e["message"].split("_")[0] for e in cluster.list("events") if e["reason"] == "LeaderElection"]


# --- elections ------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [MANAGER, SCHEDULER])
async def test_a_standby_has_five_seconds_for_each_request_not_for_both(part: str) -> None:
    """Each takes three: GET and PUT take six. A lease of 15 s, then at most two tries and waits."""
    async with Cluster(candidates(part), seed=1) as cluster:
        lease = Leadership(cluster, part)
        await cluster.run_for("31s")
        cluster.faults.impose("slow", SERVER, "overload", (3 * SECOND, None))
        await cluster.run_for("20s")
        assert not lease.lost
        crashed = now_s(cluster)
        cluster.supervisor[lease.leader].crash("killed")
        await cluster.run_for("100s")
        assert len(lease.taken) == 2 and lease.taken[1][0] - crashed <= 15 + 2 * (3 + 4.4) + 6.1
        assert len(became_leader(cluster)) == 2 and not lease.lost


@pytest.mark.parametrize(("takes_ms", "keeps"), [(4900, True), (5100, False)])
async def test_leader_with_requests_of_nearly_five_seconds_stays(takes_ms: int, keeps: bool) -> None:
    async with Cluster(candidates(MANAGER), seed=1) as cluster:
        lease = Leadership(cluster, MANAGER)
        await cluster.run_for("31s")
        renewed = lease.renewed
        cluster.faults.impose("slow", SERVER, "overload", (takes_ms * MS, None))
        await cluster.run_for("90s" if keeps else "20s")
        assert len(lease.taken) == 1
        if keeps:
            assert not lease.lost
        else:
            assert 10 <= lease.lost[0][0] - renewed <= 12.1


async def test_round_ends_after_ten_seconds_regardless_of_its_requests() -> None:
    """The first request hangs for five seconds; those after it get a Retry-After of one second, ten
    times.
    """
    async with Cluster(candidates(MANAGER), seed=1) as cluster:
        lease = Leadership(cluster, MANAGER)
        await cluster.run_for("31s")
        renewed = lease.renewed
        cluster.faults.impose("slow", SERVER, "overload", (6 * SECOND, None))
        await cluster.run_until(int((renewed + 7.5) * SECOND))
        cluster.faults.lift("slow")
        cluster.faults.impose("full", SERVER, "overload", (0, 0))
        await cluster.run_for("30s")
        assert 10 <= lease.lost[0][0] - renewed <= 12.1


async def test_a_round_that_meets_a_full_server_over_a_slow_link_ends_after_ten_seconds() -> None:
    """Its request was under way when the server became full: each of ten tries takes four seconds
    and one.
    """
    async with Cluster(candidates(MANAGER), seed=1) as cluster:
        lease = Leadership(cluster, MANAGER)
        await cluster.run_for("31s")
        hosts = frozenset({lease.leader})
        cluster.kernel.network.impose(Rule("slow", hosts, None, low_us=2 * SECOND, high_us=2 * SECOND))
        await cluster.run_for("30s")
        before = len(lease.wrote)
        assert await cluster.run_while(lambda: len(lease.wrote) == before, "20s", MS)
        renewed = lease.renewed + 2  # its reply comes two seconds later
        await cluster.run_until(int((renewed + 3) * SECOND))  # the next read is on its way
        cluster.faults.impose("full", SERVER, "overload", (0, 0))
        await cluster.run_for("40s")
        assert 10 <= lease.lost[0][0] - renewed <= 12.1


@pytest.mark.parametrize("phase_ms", [100, 1900, 3000, 4500])
async def test_a_scheduler_asked_to_go_waits_for_no_reply_but_that_to_its_release(phase_ms: int) -> None:
    async with Cluster(candidates(SCHEDULER), seed=1) as cluster:
        lease = Leadership(cluster, SCHEDULER)
        await cluster.run_for("31s")
        leader = lease.leader
        cluster.supervisor[SERVER].pause()
        await cluster.run_for(phase_ms * MS)
        asked = now_s(cluster)
        ends_for_good(cluster.supervisor[leader])
        await cluster.run_for("20s")
        assert [at - asked <= 5.1 for at, name in lease.ended if name == leader] == [True]


@pytest.mark.parametrize("part", [MANAGER, SCHEDULER])
async def test_leader_without_replies_is_followed_a_lease_later_without_a_release(
    part: str,
) -> None:
    """Only the way back is cut: its last read failed, and what it would release is what it read."""
    async with Cluster(candidates(part), seed=1) as cluster:
        lease = Leadership(cluster, part)
        await cluster.run_for("31s")
        leader, cut, renewed = lease.leader, now_s(cluster), lease.renewed
        rule = Rule("cut", None, frozenset({leader}), cut=True, both_ways=False)
        cluster.kernel.network.impose(rule)
        taken = await lease.until_taken(1)
        stopped = lease.lost[0][0]
        assert 10 <= stopped - cut <= 12.1 and stopped < taken and taken - renewed >= 15.0
        assert all(spec["holderIdentity"] for _, spec in lease.wrote)


@pytest.mark.parametrize(("leads", "drift_ppm"), [(False, 200_000), (True, -150_000)])
async def test_clocks_that_differ_by_less_than_a_quarter_never_allow_two_leaders(
    leads: bool, drift_ppm: int
) -> None:
    """A standby's lease of 15 s is over after 12.5, or a leader's 12 last 14.1: 12 before 12.5,
    14.1 before 15.
    """
    async with Cluster(candidates(MANAGER), seed=2) as cluster:
        lease = Leadership(cluster, MANAGER)
        await cluster.run_for("31s")
        leader = lease.leader
        (other,) = {f"{MANAGER}-0", f"{MANAGER}-1"} - {leader}
        cluster.faults.impose("drift", leader if leads else other, "clock", (0, drift_ppm))
        await cluster.run_for("100s")
        assert len(lease.taken) == 1
        cluster.kernel.network.impose(Rule("cut", frozenset({leader}), None, cut=True))
        taken = await lease.until_taken(1)
        renewed = max(at for at, _ in lease.wrote if at < taken)
        assert lease.lost[0][0] < taken and taken - renewed >= (15 if leads else 12.5)


@pytest.mark.parametrize("seed", [3, 4])
async def test_faults_that_come_in_any_order_never_let_two_lead(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leaders among three candidates, with requests to two servers that are slow, rejected,
    lost, halted or too many, in turns and together.
    """
    terms = Terms(monkeypatch)
    draw, manager = Random(seed), ComponentPlan(3, {"controllers": "nodelifecycle"})
    plan = ClusterPlan(api_server=ComponentPlan(2), controller_manager=manager, scheduler=ComponentPlan(0))
    async with Cluster(plan, seed=seed) as cluster:
        lease = Leadership(cluster, MANAGER)
        await cluster.run_for("30s")
        for number in range(60):
            mixed(cluster, draw, f"f{number}")
            await cluster.run_for(int(draw.uniform(1, 25) * SECOND))
        await cluster.run_for("120s")
        turns = [spec["leaseTransitions"] for _, spec in lease.wrote]
        assert all(later - earlier in (0, 1) for earlier, later in pairwise(turns))
        spans = sorted([*terms.over, *((began_us, 1 << 60) for began_us in terms.open.values())])
        assert len(terms.open) == 1 and len(spans) > 5
        assert all(first[1] <= second[0] for first, second in pairwise(spans))


class Terms:
    """The intervals with a leader."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from sim.client.election.elector import LeaderElector

        self.over: list[tuple[int, int]] = []
        self.open: dict[Any, int] = {}
        phase = LeaderElector._phase

        async def timed(elector: Any, why: str, begin: Any) -> bool:
            kernel = elector._ctx.kernel
            if why != "leadership":
                self.open[elector] = kernel.now_us
            try:
                return await phase(elector, why, begin)
            finally:
                if elector in self.open:
                    self.over.append((self.open.pop(elector), kernel.now_us))

        monkeypatch.setattr(LeaderElector, "_phase", timed)


def mixed(cluster: Cluster, draw: Random, step: str) -> None:
    """One fault of some kind, for 1 to 40 s."""
    faults, network = cluster.faults, cluster.kernel.network
    candidate, server = f"{MANAGER}-{draw.randrange(3)}", f"apiserver-{draw.randrange(2)}"
    one, both = frozenset({candidate}), frozenset({"apiserver-0", "apiserver-1"})
    slow_us = draw.randrange(10, 2700) * MS
    kinds: list[Callable[[], None]] = [
        lambda: faults.impose(step, server, "overload", (int(draw.uniform(0.5, 6) * SECOND), None)),
        lambda: faults.impose(step, server, "overload", (0, 0)),
        lambda: faults.impose(step, STORAGE, draw.choice(["pause", "quorum"])),
        lambda: faults.impose(step, STORAGE, "disk", int(draw.uniform(0.2, 3) * SECOND)),
        lambda: faults.impose(step, draw.choice([server, STORAGE, candidate]), "down", "killed"),
        lambda: faults.impose(step, server, "pause"),
        lambda: network.impose(Rule(step, one, both, cut=True, both_ways=draw.random() < 0.5)),
        lambda: network.impose(Rule(step, both, one, cut=True, both_ways=False)),
        lambda: network.impose(Rule(step, one, None, low_us=slow_us, high_us=2700 * MS)),
    ]
    kind = draw.randrange(len(kinds))
    kinds[kind]()
    end: Callable[[str], None] = faults.lift if kind < 6 else network.lift
    cluster.kernel.call_later(int(draw.uniform(1, 40) * SECOND), lambda _: end(step))


# --- watch caches ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aspect", "before", "after", "answered_s"),
    [
        ("lag", 10 * SECOND, None, 1.0),  # it is over a second into the wait
        ("frozen", True, None, 1.0),
        ("lag", 1 * SECOND, 1 * SECOND, 2.0),  # one more comes
    ],
)
async def test_request_for_a_later_revision_is_answered_when_the_cache_has_it(
    aspect: str, before: Any, after: Any, answered_s: float
) -> None:
    async with Cluster(bare(), seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("20s")
        cluster.faults.impose("one", SERVER, aspect, before)
        await cluster.run_for("20s")
        label(cluster, "pods", "default", "a", "x")
        found = cluster.get("pods", "a")
        assert found is not None
        asked = Asked(cluster, "list", resourceVersion=found["metadata"]["resourceVersion"])
        await cluster.run_for("1s" if after is None else "500ms")
        if after is None:
            cluster.faults.lift("one")
        else:
            cluster.faults.impose("two", SERVER, aspect, after)
        assert await asked.code() == 200
        assert answered_s <= asked.took <= answered_s + 0.1


async def test_a_cache_that_lags_for_a_minute_costs_no_lease() -> None:
    async with Cluster(candidates(MANAGER), seed=1) as cluster:
        lease = Leadership(cluster, MANAGER)
        await cluster.run_for("31s")
        cluster.faults.impose("lag", SERVER, "lag", 60 * SECOND)
        await cluster.run_for("120s")
        assert len(lease.taken) == 1 and not lease.lost


# --- the storage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("aspect", ["pause", "quorum", "down"])
@pytest.mark.parametrize("revision", ["0", "1"])
async def test_a_server_that_starts_while_the_storage_is_silent_has_nothing_to_show(
    aspect: str, revision: str
) -> None:
    """What may be of any age is asked of the storage, the rest waits for a cache: both until there
    is an answer, or a minute.
    """
    async with Cluster(bare(), seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("10s")
        cluster.faults.impose("silent", STORAGE, aspect, "killed" if aspect == "down" else True)
        cluster.supervisor[SERVER].crash("killed")
        cluster.supervisor[SERVER].start()
        early = Asked(cluster, "list", resourceVersion=revision)
        await cluster.run_for("50s")
        late = Asked(cluster, "list", resourceVersion=revision)
        watch = Asked(cluster, "watch", timeoutSeconds="30")
        await cluster.run_for("20s")
        assert await early.code() == 504 and early.took == 60 and late.reply is None
        await cluster.run_for("11s")
        assert (await watch.code(), watch.took) == (503, 30)
        cluster.faults.lift("silent")
        assert await late.code() == 200 and 31 <= late.took <= 40
        assert late.reply is not None and len(late.reply.items or ()) == 1
        assert (await ask(cluster, "watch", "pods")).watch is not None


@pytest.mark.parametrize("aspect", ["pause", "quorum"])
async def test_read_of_a_silent_storage_is_retried_and_read_of_a_cache_is_answered(
    aspect: str,
) -> None:
    """etcd's client repeats reads only; a write is not repeated, and a running etcd ends it after
    seven seconds.
    """
    async with Cluster(bare(), seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("20s")
        cluster.faults.impose("silent", STORAGE, aspect)
        cached, read = Asked(cluster, "list", resourceVersion="0"), Asked(cluster, "get")
        made = Asked(cluster, "create")
        late = Asked(cluster, "list")
        assert await cached.code() == 200 and cached.took < 0.05
        await cluster.run_for("25s")
        assert read.reply is None and late.reply is None
        assert (made.reply is None) is (aspect == "pause")
        cluster.faults.lift("silent")
        assert await read.code() == await late.code() == 200 and 25 <= read.took <= 32.1
        if aspect == "pause":
            assert await made.code() == 201 and 25 <= made.took <= 25.1
        else:
            assert await made.code() == 500 and 7 <= made.took <= 7.1


async def test_server_started_during_a_pause_lists_when_the_storage_is_whole_again() -> None:
    """Its requests up to then fail when the storage resumes, and are sent again."""
    async with Cluster(bare(), seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("10s")
        cluster.faults.impose("lost", STORAGE, "quorum")
        cluster.supervisor[SERVER].crash("killed")
        cluster.supervisor[SERVER].start()
        await cluster.run_for("3s")
        cluster.faults.impose("still", STORAGE, "pause")
        await cluster.run_for("40s")
        cluster.faults.lift("lost")
        cluster.faults.lift("still")
        asked = Asked(cluster, "list", resourceVersion="1")
        assert await asked.code() == 200 and asked.took <= 9


async def test_killed_storage_fails_arrived_writes_and_carries_out_later_ones() -> None:
    """A connection that breaks fails what was on its way; later requests wait for the next process."""
    async with Cluster(bare(), seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("20s")
        cluster.faults.impose("still", STORAGE, "pause")
        early, read = Asked(cluster, "create"), Asked(cluster, "get")
        await cluster.run_for("3s")
        cluster.faults.impose("down", STORAGE, "down", "killed")
        await cluster.run_for("2s")
        late = Asked(cluster, "create")
        assert await early.code() == 500 and 3 <= early.took <= 3.1
        await cluster.run_for("10s")
        assert late.reply is None and read.reply is None
        cluster.faults.lift("still")
        cluster.faults.lift("down")
        assert await late.code() == 201 and 10 <= late.took <= 10.1
        assert await read.code() == 200 and 15 <= read.took <= 15.1


@pytest.mark.parametrize(
    ("turns_s", "ends_s"),
    [
        ((0, 2.9), None),
        ((0, 30.9), None),
        ((0, 31.1), 34),
        ((0, 60), 34),
        ((0, 1, 2), 36),
        ((0, 2.5, 3.5, 5), None),
        ((0, 10, 20, 30), None),
        ((0, 10, 20), 34),
        ((0, 10, 35, 45), 39),
        ((0, 10, 75, 85), None),
    ],
)
async def test_watches_end_when_there_was_no_leader_for_half_a_minute(
    turns_s: tuple[float, ...], ends_s: float | None
) -> None:
    """turns_s: when the quorum is lost, returns, is lost …

    A cache's own watch fails after three seconds, and is requested again for thirty, less if there
    was such an error within the last minute; a second after that the cache starts again. A watch
    without a cache ends with the first error.
    """
    async with Cluster(bare(), seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("20s")
        found, began_us = await stream(cluster, "pods"), cluster.kernel.now_us
        events = await stream(cluster, "events")
        for number, at_s in enumerate(turns_s):
            await cluster.run_until(began_us + int(at_s * SECOND))
            cluster.storage.set_quorum(bool(number % 2))
        await cluster.run_until(began_us + 100 * SECOND)
        assert found.ended == (None if ends_s is None else pytest.approx(ends_s, abs=0.1))
        assert "ERROR" not in {kind for _, kind in found.told}
        if turns_s[-1] - turns_s[0] > 5:
            assert events.ended == pytest.approx(5 if turns_s[1] == 1 else 3, abs=0.1)
            assert events.told[-1][1] == "ERROR"


async def test_cache_without_a_leader_shows_its_state_until_it_ends_and_then_lists() -> None:
    async with Cluster(bare(), seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("20s")
        began_us = cluster.kernel.now_us
        cluster.storage.set_quorum(False)
        await cluster.run_for("32s")
        newest = str((await ask(cluster, "list", "pods", resourceVersion="0")).revision)
        assert await Asked(cluster, "list", resourceVersion=newest).code() == 200
        assert await Asked(cluster, "watch", resourceVersion=newest).code() == 200
        await cluster.run_until(began_us + 40 * SECOND)
        waits = [Asked(cluster, verb, resourceVersion=newest) for verb in ("list", "get", "watch")]
        await cluster.run_for("20s")
        assert [each.reply for each in waits] == [None] * 3
        cluster.storage.set_quorum(True)
        for each in waits:
            assert await each.code() == 200 and 22 <= each.took <= 22.1


# --- a paused server ------------------------------------------------------------------------------


class Probe:
    """A client of one server that watches pods, again a second after each end."""

    def __init__(self, cluster: Cluster, server: str) -> None:
        self.told: list[tuple[float, str]] = []
        self._cluster, self._server = cluster, server
        cluster.supervisor.add("probe", self._main)

    def _main(self, ctx: Context) -> None:
        cluster = self._cluster
        channel = Channel(ctx, "probe", cluster.api_servers, self._server)
        client = Client(ctx, cluster.scheme, [channel], cluster.admin_user)

        def again(_: Any) -> None:
            client.call(client.request("watch", "pods", options={"resourceVersion": "0"}), opened)

        def opened(reply: Reply) -> None:
            watch = reply.watch
            assert watch is not None

            def tell() -> None:
                at = now_s(cluster)
                self.told.extend((at, event.type) for event in watch.take())
                if watch.ended:
                    self.told.append((at, "END"))
                    ctx.call_later_us(SECOND, again)

            watch.attach(tell)

        again(None)


async def test_paused_server_sends_no_watch_events_until_it_resumes() -> None:
    async with Cluster(bare(2), seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("20s")
        probe = Probe(cluster, "apiserver-1")
        await cluster.run_for("2s")
        probe.told.clear()
        cluster.faults.impose("still", "apiserver-1", "pause")
        for value in "xy":
            await cluster.run_for("5s")
            label(cluster, "pods", "default", "a", value)
        await cluster.run_for("5s")
        assert not probe.told
        cluster.faults.lift("still")
        await cluster.run_for("1s")
        assert [kind for _, kind in probe.told] == ["MODIFIED", "MODIFIED"]


async def test_slow_server_sends_its_events_later_by_its_delay() -> None:
    async with Cluster(bare(2), seed=1) as cluster:
        found = await stream(cluster, "configmaps")
        began = now_s(cluster)
        await cluster.run_for("1s")  # the watch reports the config map of the servers first
        waits: list[float] = []

        async def change(name: str) -> None:
            """Write by the other server; returns the delay of the watch event."""
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            request = Request(
                verb="create",
                resource="configmaps",
                namespace="default",
                body=body,
                user=cluster.admin_user,
            )
            other = cluster.api_servers["apiserver-1"]
            cluster.kernel.call_later(0, lambda _: other.handle(request, lambda reply: None))
            at, before = now_s(cluster), len(found.told)
            await cluster.run_for("5s")
            waits.extend(began + told - at for told, _ in found.told[before:])

        cluster.faults.impose("slow", SERVER, "slow", 400 * MS)
        await change("a")
        cluster.faults.impose("behind", SERVER, "lag", SECOND)
        await change("b")
        cluster.faults.lift("slow")
        await change("c")
        cluster.faults.lift("behind")
        await change("d")
        assert [round(wait, 1) for wait in waits] == [0.4, 1.4, 1.0, 0.0]


async def test_paused_server_that_is_killed_ends_its_connections_then_and_once() -> None:
    """Not 45 s after the start of the pause, when another process of it serves them."""
    async with Cluster(bare(), seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("20s")
        probe = Probe(cluster, SERVER)
        await cluster.run_for("2s")
        probe.told.clear()
        began = now_s(cluster)
        cluster.supervisor[SERVER].pause()
        await cluster.run_for("10s")
        cluster.supervisor[SERVER].crash("killed")
        cluster.supervisor[SERVER].start()
        await cluster.run_for("60s")
        assert [(round(at - began), kind) for at, kind in probe.told] == [(10, "END"), (11, "ADDED")]
