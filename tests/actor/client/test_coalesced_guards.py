"""When the coalesced calls of a client are closed: each clause of their guards, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sim.client import Channel, Client
from sim.client.fast.read_modify_write import Exchange, Leg
from sim.kernel import Context, Rule
from sim.units import SECOND, format_micro_time
from tests.actor.apiserver.cluster import ADMIN, SCHEME, lease
from tests.actor.client.rig import Rig, rig


def ignore(*_: Any) -> None:
    """Take a reply."""


class Caller:
    """A process with the coalesced calls of one lease, which exists."""

    def __init__(self, r: Rig, **limits: float) -> None:
        self.rig, self.limits = r, limits
        r.actor("n", self.main)

    def main(self, ctx: Context) -> None:
        """Create the lease and the calls."""
        self.ctx = ctx
        (server,) = self.rig.plane.servers
        channel = Channel(ctx, ctx.name, {server.name: server}, server.name)
        self.client: Any = Client(ctx, SCHEME, [channel], ADMIN, **{"qps": 0, **self.limits})
        self.calls = self.exchange_of(self.client)
        body = lease("n", renewTime=format_micro_time(ctx.wall_us()))
        self.client.call(self.client.request("create", "leases", "default", body=body), ignore)

    def exchange_of(self, client: Any, name: str = "n") -> Exchange:
        """The calls of a client about a lease."""
        return Exchange(self.ctx, client, self.client.request("get", "leases", "default", name), 10 * SECOND)

    @property
    def leg(self) -> Leg:
        """A read of the lease."""
        return lambda way: way.look(), lambda: self.client.request("get", "leases", "default", "n"), ignore

    def sends(self) -> bool:
        """Whether a call takes the fast path now."""
        return self.calls.send(*self.leg)

    def exchanges(self, composes: bool = True, calls: Exchange | None = None, **limits: int) -> bool:
        """Whether a read-modify-write takes the fast path now."""
        return (calls or self.calls).exchange(self.leg, lambda *_: composes, self.leg, ignore, **limits)


def lose(r: Rig, out: bool, **values: Any) -> None:
    """Disturb the link from the client to the server, or the one back."""
    hosts = [frozenset({"n"}), frozenset({"apiserver-0"})]
    source, target = hosts if out else hosts[::-1]
    r.kernel.network.impose(Rule("disturbed", source, target, both_ways=False, **values))


CLOSED: dict[str, Callable[[Rig, Caller], object]] = {
    "slow_process": lambda r, c: r.supervisor["n"].slow(1_000),
    "drifting_clock": lambda r, c: r.supervisor["n"].clock.set(r.kernel.now_us, drift_ppm=100),
    "cut_link": lambda r, c: lose(r, True, cut=True),
    "duplication": lambda r, c: lose(r, True, duplication=0.001),
}
UNSTEADY: dict[str, Callable[[Rig, Caller], object]] = {
    "loss_of_requests": lambda r, c: lose(r, True, loss=0.001),
    "loss_of_replies": lambda r, c: lose(r, False, loss=0.001),
}


@pytest.mark.parametrize("name", CLOSED)
async def test_disturbed_process_or_link_closes_coalesced_calls(name: str) -> None:
    async with rig() as r:
        c = Caller(r)
        await r.run(1)
        CLOSED[name](r, c)
        assert not c.sends() and not c.exchanges()


@pytest.mark.parametrize("name", UNSTEADY)
async def test_loss_of_messages_closes_read_modify_writes_only(name: str) -> None:
    async with rig() as r:
        c = Caller(r)
        await r.run(1)
        UNSTEADY[name](r, c)
        assert not c.exchanges() and c.sends()


async def test_read_modify_write_is_closed_when_its_caller_or_object_is_not_ready() -> None:
    async with rig() as r:
        c = Caller(r)
        await r.run(1)
        now_us = r.kernel.now_us
        assert not c.exchanges(composes=False)
        # One delay is at most 0.8 ms, and a read takes at least 1.4 ms.
        assert not c.exchanges(timeout_us=1_000)
        assert not c.exchanges(ends_us=now_us + 10)
        assert not c.exchanges(calls=c.exchange_of(c.client, "missing"))
        foreign = SimpleNamespace(transport=object(), bucket=c.client.bucket)
        assert not c.exchanges(calls=c.exchange_of(foreign))
        assert not c.exchange_of(foreign).send(*c.leg)
        r.kernel.fast, fast = replace(r.kernel.fast, read_writes=False), r.kernel.fast
        assert not c.exchanges()
        r.kernel.fast = fast
        assert c.exchanges()
        # The revision is announced to the exchange under way.
        assert not c.exchanges(calls=c.exchange_of(c.client))


async def test_calls_without_a_free_token_are_closed() -> None:
    async with rig() as r:
        c = Caller(r, qps=0.001, burst=2)
        await r.run(1)
        assert not c.exchanges()  # the creation of the lease took one of two tokens
        assert c.sends() and not c.sends()
