"""The scrapes of a metrics server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from sim.app.scrapes import IDLE_US, PERIOD_US, Point, Reading, Scrapes
from sim.kernel import Kernel
from sim.units import SECOND


class Node:
    """A node with a pod `p`, of which container `c` uses a tenth of a core."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.started = {"c": -100 * SECOND}
        self.rate, self.answers, self.scraped = 100, True, list[int]()

    def read(self) -> Reading:
        now_us = self.kernel.now_us
        self.scraped.append(now_us)
        if not self.answers:
            return Reading({}, {}, {})
        points = {
            name: Point(at_us, now_us, self.rate * (now_us - at_us), 64, self.rate)
            for name, at_us in self.started.items()
        }
        return Reading({"p": points}, {"p": 7}, {"n": next(iter(points.values()))})


@asynccontextmanager
async def server() -> AsyncIterator[tuple[Kernel, Node, Scrapes]]:
    kernel = Kernel(seed=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run)
        node = Node(kernel)
        yield kernel, node, Scrapes(kernel, node.read)
        kernel.stop()
        nursery.cancel_scope.cancel()


async def test_usage_is_that_between_two_scrapes_and_the_same_for_all() -> None:
    async with server() as (kernel, node, scrapes):
        await kernel.run_until(100 * SECOND)
        first = scrapes.pod("p")
        assert first is not None
        assert (first.parts, first.at_us, first.window_us) == ({"c": (10**8, 64)}, 100 * SECOND, PERIOD_US)
        await kernel.run_until(140 * SECOND)
        last = scrapes.pod("p")
        assert last is not None and scrapes.node("n") is not None
        assert (last.at_us, last.window_us, last.cause) == (node.scraped[-1], PERIOD_US, 7)
        assert node.scraped[-1] - node.scraped[-2] == PERIOD_US
        await kernel.run_until(node.scraped[-1] + PERIOD_US - 1)
        assert scrapes.pod("p") is last


async def test_a_young_container_counts_from_its_start_and_a_restart_begins_again() -> None:
    async with server() as (kernel, node, scrapes):
        await kernel.run_until(100 * SECOND)
        scrapes.pod("p")
        await kernel.run_until(130 * SECOND)
        next_us = node.scraped[-1] + PERIOD_US
        node.started["c"] = next_us - 12 * SECOND
        await kernel.run_until(next_us)
        young = scrapes.pod("p")
        assert young is not None and young.window_us == 12 * SECOND
        node.started["d"] = next_us + PERIOD_US - 3 * SECOND
        await kernel.run_until(next_us + PERIOD_US)
        assert scrapes.pod("p") is None  # one of its containers has a single point
        await kernel.run_until(next_us + 2 * PERIOD_US)
        both = scrapes.pod("p")
        assert both is not None and list(both.parts) == ["c", "d"]


async def test_what_is_not_reached_has_no_usage_and_questions_end_too() -> None:
    async with server() as (kernel, node, scrapes):
        await kernel.run_until(100 * SECOND)
        scrapes.pod("p")
        node.answers = False
        await kernel.run_until(120 * SECOND)
        assert (scrapes.pod("p"), scrapes.node("n")) == (None, None)
        await kernel.run_until(120 * SECOND + IDLE_US + 2 * PERIOD_US)
        count = len(node.scraped)
        await kernel.run_until(120 * SECOND + 2 * IDLE_US)
        assert len(node.scraped) == count
