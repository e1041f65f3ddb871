"""Lease renewals over the API server's fast path: one event for each renewal, and ordinary requests
after any disturbance.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from actors.apiserver.builtin.endpoint_keeper import INTERVAL_US
from sim.api.types import Reply, Request, UserInfo
from sim.client import Heartbeat
from sim.client.fast.lease_renewal import Rhythm
from sim.kernel import Context, Rule
from sim.units import SECOND, format_micro_time, parse_time
from tests.actor.apiserver.cluster import SCHEME, lease
from tests.actor.client.rig import Rig, rig

NODE = UserInfo("system:node:n", ("system:nodes",))
PERIOD_US = 10 * SECOND
RENEWAL = ("spec", "renewTime")


class Watched(Heartbeat):
    """Records each renewal by the fast path."""

    beater: Beater

    def beat(self, at_us: int) -> int:
        before = self._item
        again_us = super().beat(at_us)
        if self._item is not None and self._item is not before:
            self.beater.fast.append(at_us)
        return again_us


class Beater:
    """Renews its lease like a node agent: by the fast path, or else by GET and PUT."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.fast: list[int] = []
        self.missed: list[int] = []
        self.obj: dict[str, Any] = {}
        rig.actor("n", self.main)

    def main(self, ctx: Context) -> None:
        self.ctx = ctx
        self.client = self.rig.client(ctx, user=NODE, agent="agent", timeout_us=10 * SECOND)
        self.beat = Watched(
            ctx,
            self.client,
            self.client.request("update", "leases", "default", "n"),
            RENEWAL,
            Rhythm(PERIOD_US, 0, 1),
            self._missed,
            self._composed,
        )
        self.beat.beater = self
        request = self.client.request("create", "leases", "default", body=lease("n", renewTime=self._now()))
        self.client.call(request, self._answered)

    def _now(self) -> str:
        return format_micro_time(self.ctx.wall_us())

    def _missed(self) -> None:
        self.missed.append(self.ctx.kernel.now_us)
        self._put()

    def _put(self) -> None:
        request, answered = self._composed(self.ctx.wall_us())
        self.client.call(request, answered)

    def _composed(self, wall_us: int) -> tuple[Request, Callable[[Reply], None]]:
        item = self.beat.taken()
        if item is not None:
            self.obj = item.obj
        new = {**self.obj, "spec": {**self.obj["spec"], "renewTime": format_micro_time(wall_us)}}
        return self.client.request("update", "leases", "default", "n", body=new), self._answered

    def _answered(self, reply: Reply) -> None:
        if reply.ok:
            self.obj = reply.obj
            self.beat.schedule()
        elif reply.reason == "AlreadyExists" or reply.reason == "Conflict":
            self.client.call(self.client.request("get", "leases", "default", "n"), self._got)
        else:
            self.ctx.call_later_us(SECOND, lambda _: self._put())

    def _got(self, reply: Reply) -> None:
        self.obj = reply.obj
        self._put()

    def stored_us(self) -> int:
        """When the renewal that is stored was sent, since the start of the run."""
        item = self.rig.plane.storage.store.get(SCHEME.key(SCHEME.resource("leases"), "default", "n"))
        assert item is not None
        return parse_time(item.obj["spec"]["renewTime"]) - self.rig.kernel.epoch_us


async def test_steady_renewal_is_one_event_and_has_its_sending_time() -> None:
    async with rig() as r:
        beater = Beater(r)
        await r.run(30)
        steps, beats, asked = r.kernel.steps, len(beater.fast), len(r.tap.asked)
        await r.run(200)
        # The second renewal finds the fast path open, because the first write has to be an ordinary
        # one.
        assert len(beater.missed) == 1 and len(beater.fast) - beats == 20
        rounds = 200 * SECOND // INTERVAL_US  # of the server itself, about its own endpoints
        assert r.kernel.steps - steps - rounds == 20 and len(r.tap.asked) == asked
        assert 200 <= beater.fast[-1] - beater.stored_us() <= 800
        gaps = [b - a for a, b in pairwise(beater.fast)]
        # two delays of the network and one write of the storage
        assert all(PERIOD_US + 1400 <= gap <= PERIOD_US + 3600 for gap in gaps)


async def check_resumed(r: Rig, beater: Beater) -> None:
    fast, missed = len(beater.fast), len(beater.missed)
    await r.run(100)
    assert len(beater.missed) == missed and 9 <= len(beater.fast) - fast <= 10
    assert r.kernel.now_us - beater.stored_us() <= PERIOD_US + SECOND


async def test_cut_link_loses_the_renewal_and_an_ordinary_write_opens_the_fast_path() -> None:
    async with rig() as r:
        beater = Beater(r)
        await r.run(60)
        before = beater.stored_us()
        r.cut("n")
        await r.run(40)
        assert beater.stored_us() == before and len(beater.missed) == 2
        r.heal("n")
        await r.run(12)
        assert r.kernel.now_us - beater.stored_us() <= 12 * SECOND
        await check_resumed(r, beater)


async def test_renewals_after_a_server_restart_are_ordinary_until_the_fast_path_opens() -> None:
    async with rig() as r:
        beater = Beater(r)
        await r.run(60)
        r.crash()
        await r.run(25)
        assert len(beater.missed) == 2
        r.start()
        await r.run(22)
        await check_resumed(r, beater)


@pytest.mark.parametrize("how", ["update", "patch", "delete and create", "same manager"])
async def test_an_object_changed_by_another_is_seen_and_kept(how: str) -> None:
    async with rig() as r:
        beater = Beater(r)
        await r.run(60)
        fast, manager = len(beater.fast), "agent" if how == "same manager" else "test"
        if how in ("update", "same manager"):
            found = await r.plane.ask("get", "leases", name="n")
            labelled = {**found.obj, "metadata": {**found.obj["metadata"], "labels": {"by": "other"}}}
            assert (await r.plane.ask("update", "leases", name="n", body=labelled, manager=manager)).ok
        elif how == "patch":
            patch = {"metadata": {"labels": {"by": "other"}}}
            kind = "application/merge-patch+json"
            assert (await r.plane.ask("patch", "leases", name="n", body=patch, content_type=kind)).ok
        else:
            assert (await r.plane.ask("delete", "leases", name="n")).ok
            body = {**lease("n", renewTime=beater.obj["spec"]["renewTime"])}
            body["metadata"] = {"name": "n", "labels": {"by": "other"}}
            assert (await r.plane.ask("create", "leases", body=body)).ok
        await r.run(12)
        # The client's own manager changes the lease: the fast path closes, and opens after the next
        # write.
        if len(beater.missed) <= 1:
            assert how == "same manager"
        beater.obj = (await r.plane.ask("get", "leases", name="n")).obj
        assert beater.obj["metadata"]["labels"] == {"by": "other"}
        if how == "same manager":
            await check_resumed(r, beater)
            return
        await r.run(100)  # the fast path never updates the times of two managers: it stays closed
        assert len(beater.fast) == fast
        assert r.kernel.now_us - beater.stored_us() <= PERIOD_US + SECOND


async def test_paused_process_renews_late_and_a_crashed_one_never() -> None:
    async with rig() as r:
        beater = Beater(r)
        await r.run(60)
        before = beater.stored_us()
        r.supervisor["n"].pause()
        await r.run(30)
        assert beater.stored_us() == before
        r.supervisor["n"].resume()
        await r.run(1)
        assert r.kernel.now_us - beater.stored_us() <= SECOND
        await check_resumed(r, beater)
        before = beater.stored_us()
        r.supervisor["n"].crash()
        await r.run(50)
        assert beater.stored_us() == before


async def test_renewal_has_the_time_of_its_clients_wrong_clock() -> None:
    async with rig() as r:
        beater = Beater(r)
        await r.run(30)
        r.supervisor["n"].clock.set(r.kernel.now_us, offset_us=-3600 * SECOND)
        await r.run(30)
        assert -3601 * SECOND <= beater.stored_us() - beater.fast[-1] <= -3599 * SECOND
        r.supervisor["n"].clock.set(r.kernel.now_us, drift_ppm=100_000)
        await r.run(30)
        gaps = [b - a for a, b in pairwise(beater.missed)]
        assert PERIOD_US * 0.9 <= gaps[-1] <= PERIOD_US * 0.92


def one_way(name: str, out: bool, **values: Any) -> Rule:
    """A rule of the link from the client to the server, or of the one back."""
    hosts = ("n", "apiserver-0") if out else ("apiserver-0", "n")
    return Rule(name, frozenset({hosts[0]}), frozenset({hosts[1]}), both_ways=False, **values)


@pytest.mark.parametrize(
    "rule",
    [
        one_way("lossy", True, loss=0.001),
        one_way("lossy", False, loss=0.001),
        one_way("twice", True, duplication=0.001),
        one_way("slow", True, low_us=10 * SECOND, high_us=10 * SECOND),
        one_way("uneven", True, low_us=SECOND, high_us=10 * SECOND),  # most requests are answered
    ],
    ids=[
        "loss_of_requests",
        "loss_of_replies",
        "duplication",
        "delay_beyond_the_timeout",
        "delay_at_times_beyond_the_timeout",
    ],
)
async def test_no_renewal_takes_the_fast_path_over_a_disturbed_link(rule: Rule) -> None:
    async with rig() as r:
        beater = Beater(r)
        await r.run(35)
        assert beater.fast
        r.kernel.network.impose(rule)
        before = len(beater.fast)
        await r.run(60)
        assert len(beater.fast) == before


async def test_renewal_over_another_transport_is_an_ordinary_request() -> None:
    """A client of a server outside has no channel with known delays."""
    async with rig() as r:
        missed: list[int] = []

        def main(ctx: Context) -> None:
            client, began_us = r.client(ctx, user=NODE), ctx.kernel.now_us
            sender: Any = SimpleNamespace(transport=object(), timeout_us=0, resume=client.resume)
            request = client.request("update", "leases", "default", "n")
            composed: Any = None
            Heartbeat(
                ctx,
                sender,
                request,
                RENEWAL,
                Rhythm(PERIOD_US, 0, 1),
                lambda: missed.append(ctx.kernel.now_us - began_us),
                composed,
            ).schedule()

        r.actor("n", main)
        await r.run(15)
        assert missed == [PERIOD_US]


async def test_no_renewal_of_a_slow_process_takes_the_fast_path() -> None:
    async with rig() as r:
        beater = Beater(r)
        await r.run(35)
        r.supervisor["n"].slow(1_000)
        before = len(beater.fast)
        await r.run(60)
        assert before and len(beater.fast) == before


async def test_reply_that_passes_a_one_way_cut_opens_no_fast_path() -> None:
    async with rig() as r:
        r.kernel.network.impose(one_way("far", False, low_us=SECOND, high_us=SECOND))
        beater = Beater(r)
        await r.run(35)
        while not (beater.fast and r.kernel.now_us - beater.fast[-1] < SECOND // 2):
            await r.run(0.1)
        r.kernel.network.impose(one_way("cut", True, cut=True))
        before = len(beater.fast)
        await r.run(60)
        assert len(beater.fast) == before
