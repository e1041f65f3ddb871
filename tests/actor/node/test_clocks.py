"""A machine's clock is set while its agent runs: the wall clock jumps, earlier readings stay."""

from __future__ import annotations

import pytest

from sim.units import SECOND
from tests.actor.node.fake import one_node
from tests.actor.node.test_agent import behaving

# the expected outcome, and by how many seconds the clock is set
SET = [(0, 0), (1, 600), (2, -100)]


@pytest.mark.parametrize("drift_ppm", [0, -500_000])
async def test_shown_times_of_containers_stay_when_clock_is_set(drift_ppm: int) -> None:
    async with one_node(behaving(exit_after_us=60 * SECOND)) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(30 * SECOND)
        began = api.pod("web")["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        assert began == "2026-01-01T00:00:20Z"
        node.set_clock(offset_us=3600 * SECOND, drift_ppm=drift_ppm)
        await kernel.run_until(100 * SECOND)
        shown = api.pod("web")["status"]["containerStatuses"][0]
        ended = shown["lastState"]["terminated"]
        assert (
            ended["startedAt"] == began
            and ended["finishedAt"] == f"2026-01-01T01:0{'0:55' if drift_ppm else '1:20'}Z"
        )
        began = shown["state"]["running"]["startedAt"]
        node.set_clock(offset_us=0, drift_ppm=0)
        await kernel.run_until(170 * SECOND)
        assert (
            api.pod("web")["status"]["containerStatuses"][0]["lastState"]["terminated"]["startedAt"] == began
        )


@pytest.mark.parametrize(("case", "offset_s"), SET)
async def test_deadline_is_checked_each_second_by_the_clock_as_set(case: int, offset_s: int) -> None:
    async with one_node(behaving(stop_us=0)) as (kernel, api, node):
        api.bind("web", {"activeDeadlineSeconds": 200})
        await kernel.run_until(60 * SECOND)
        node.set_clock(offset_us=offset_s * SECOND, drift_ppm=0)
        due_s = (220, 60, 320)[case]
        await kernel.run_until(due_s * SECOND)
        assert not api.events("Killing")
        await kernel.run_until((due_s + 3) * SECOND)
        assert api.events("Killing") and api.pod("web")["status"]["reason"] == "DeadlineExceeded"


@pytest.mark.parametrize(("case", "offset_s"), SET)
async def test_probe_waits_until_container_is_old_enough_by_the_clock(case: int, offset_s: int) -> None:
    probe = {"httpGet": {"port": 80}, "initialDelaySeconds": 300}
    async with one_node(behaving(unhealthy_after_us=1)) as (kernel, api, node):
        api.bind("web", {"containers": [{"name": "c", "image": "i", "livenessProbe": probe}]})
        await kernel.run_until(60 * SECOND)
        node.set_clock(offset_us=offset_s * SECOND, drift_ppm=0)
        await kernel.run_until(600 * SECOND)
        first_us = api.events("Unhealthy")[0][0]
        due_us = (320, 60, 420)[case] * SECOND
        assert due_us < first_us <= due_us + 10 * SECOND


async def test_clock_set_back_stops_probes_until_start_of_container_is_past() -> None:
    probe = {"httpGet": {"port": 80}}
    async with one_node(behaving(unhealthy_after_us=60 * SECOND)) as (kernel, api, node):
        api.bind("web", {"containers": [{"name": "c", "image": "i", "livenessProbe": probe}]})
        await kernel.run_until(70 * SECOND)
        node.set_clock(offset_us=-100 * SECOND, drift_ppm=0)
        await kernel.run_until(600 * SECOND)
        assert 120 * SECOND < api.events("Unhealthy")[0][0] <= 130 * SECOND


@pytest.mark.parametrize(("case", "offset_s"), SET)
async def test_back_off_compares_clock_readings_of_the_ends(case: int, offset_s: int) -> None:
    async with one_node(behaving(exit_after_us=1 * SECOND, exit_code=1)) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(150 * SECOND)
        starts = api.events("Started")
        ended_s = starts[-1][0] // SECOND + 1
        node.set_clock(offset_us=offset_s * SECOND, drift_ppm=0)
        await kernel.run_until(400 * SECOND)
        again_s = api.events("Started")[len(starts)][0] // SECOND
        due_s = (ended_s + 80, 150, ended_s + 180)[case]
        assert due_s <= again_s <= due_s + 17
