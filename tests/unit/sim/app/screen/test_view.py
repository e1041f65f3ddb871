"""The lines of the live view: what they say, and that they fit."""

from __future__ import annotations

import math

import pytest

from sim.app.screen.follow import PACE_MIN, next_pace
from sim.app.screen.view import LOW, NARROW, View, drawn
from sim.units import SECOND, Virtual


def at(seconds: float) -> Virtual:
    return Virtual(int(seconds * SECOND))


FULL = View(
    "zone-outage",
    at(130),
    at(600),
    pace=math.inf,
    speed=2400.0,
    nodes=6,
    ready=4,
    pods=20,
    running=18,
    requests=12.4,
    work=91_000.0,
    faults=(("outage", "fail", at(120)), ("cut", "partition", at(125))),
    step=(at(125), "cut (partition)"),
    events=((at(129), "Warning", "NodeNotReady Node//node-1: not ready"), (at(128), "Normal", "Pulled x")),
    expectations=(("holds", "noticed"), ("failed", "served"), ("open", "back")),
    keys=True,
)


def test_view_says_time_counts_faults_step_events_and_expectations() -> None:
    lines = drawn(FULL, 120, 40).plain.splitlines()
    assert lines == [
        "zone-outage  ━━━━━───────────────────  2m10s of 10m0s  as fast as possible (2,400x)",
        "     now  nodes ready 4/6  pods running 18/20  12 requests/s  91,000 events/s",
        "expected  1 holds, 1 failed, 1 open  failed: served",
        "  faults  outage (fail) since 2m00.000s, cut (partition) since 2m05.000s",
        "    step  2m05.000s  cut (partition)",
        "  events  2m09.000s  NodeNotReady Node//node-1: not ready",
        "          2m08.000s  Pulled x",
        "    keys  space pauses or resumes, + and - set the pace, . does one event, q ends",
    ]


@pytest.mark.parametrize(("width", "height"), [(NARROW - 1, 40), (120, LOW - 1)])
def test_small_terminal_gets_one_line(width: int, height: int) -> None:
    text = drawn(FULL, width, height).plain
    assert "\n" not in text
    assert text.startswith("2m10s of 10m0s  as fast as possible (2,400x)  nodes 4/6  pods 18/20")


@pytest.mark.parametrize("width", [1, 20, 71, 72, 90])
def test_no_line_is_longer_than_the_terminal_is_wide(width: int) -> None:
    view = FULL._replace(
        name="n" * 300,
        faults=(("f" * 300, "fail", at(1)),) * 9,
        events=((at(1), "Warning", "e" * 300),) * 9,
        expectations=(("failed", "x" * 300),),
    )
    lines = drawn(view, width, 40).plain.splitlines()
    assert len(lines) < LOW
    assert [line for line in lines if len(line) > width] == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pace": 60.0}, "pace 60"),
        ({"rests": "paused"}, "paused"),
        ({"rests": "held by debugger"}, "held by debugger"),
        ({"at_us": at(600), "rests": "paused"}, "ended"),
    ],
)
def test_first_line_says_how_time_passes(changed: dict[str, object], said: str) -> None:
    first = drawn(FULL._replace(**changed), 120, 40).plain.splitlines()[0]  # type: ignore[arg-type]
    assert first.endswith(f"  {said}")


def test_pace_doubles_and_halves_between_its_ends() -> None:
    assert [next_pace(pace, "+") for pace in (1.0, 512.0, 1024.0, math.inf)] == [2, 1024, math.inf, math.inf]
    assert [next_pace(pace, "-") for pace in (math.inf, 1024.0, 1.0, PACE_MIN)] == [1024, 512, 0.5, PACE_MIN]
