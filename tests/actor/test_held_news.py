"""News that the gateway holds back until they may be known: answers, and events of watches."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio

from sim.api.types import Reply
from sim.app.cluster import Cluster
from sim.wire.http.gateway import Gateway
from tests.actor.test_gateway import answered, of_config_maps, opened


class Holder:
    """Holds everything back while it is asked to."""

    def __init__(self, gateway: Gateway) -> None:
        self.holds = False
        self.held: list[Callable[[], None]] = []
        gateway.before_news = lambda _: self.held.append if self.holds else None

    def release(self) -> None:
        """Let clients learn of everything, in order."""
        held, self.held = self.held, []
        for tell in held:
            tell()


async def test_an_answer_waits_until_it_may_be_known_and_later_ones_do_not() -> None:
    async with Cluster(naming="kubernetes") as cluster, trio.open_nursery() as nursery:
        cluster.kernel.set_rate(inf)
        gateway = Gateway(cluster.kernel, cluster.api_servers)
        holder, replies = Holder(gateway), list[Reply]()

        async def create() -> None:
            replies.append(await answered(gateway, of_config_maps("create", "held")))

        holder.holds = True
        nursery.start_soon(create)
        await cluster.run_for("1s")
        assert (replies, len(holder.held)) == ([], 1)
        holder.holds = False
        assert (await answered(gateway, of_config_maps("get", "held"))).ok
        holder.release()
        await cluster.run_for("1s")
        assert [reply.code for reply in replies] == [201]


async def test_events_that_wait_come_in_order_and_before_the_end_of_their_watch() -> None:
    async with Cluster(naming="kubernetes") as cluster:
        cluster.kernel.set_rate(inf)
        gateway = Gateway(cluster.kernel, cluster.api_servers)
        holder = Holder(gateway)
        watch = await opened(gateway, timeoutSeconds="5")
        await cluster.run_for("1s")
        first = len(await watch.take())  # what there was before
        assert first > 0
        for name in ("a", "b"):
            assert (await answered(gateway, of_config_maps("create", name))).ok
            holder.holds = True
            await cluster.run_for("1s")
            holder.holds = False
        await cluster.run_for("20s")
        assert len(holder.held) == 2
        with trio.move_on_after(0) as unread:
            await watch.take()
        assert unread.cancelled_caught
        holder.release()
        shown = [event.item.obj["metadata"]["name"] for event in await watch.take() if event.item]
        assert shown == ["a", "b"]
        assert await watch.take() == []
