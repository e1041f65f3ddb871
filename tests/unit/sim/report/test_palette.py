"""One colour has one meaning, in pictures and in the cluster widget."""

import re
from pathlib import Path

from actors.users.requests import Outcome
from sim.report import palette
from sim.report.workloads import WHY_PENDING

WIDGET = Path(palette.__file__).parents[1] / "app" / "lab" / "widget.js"


def test_two_states_of_one_object_never_share_a_colour() -> None:
    pods = ("running", *WHY_PENDING, "pending", "terminating", "failed", "succeeded")
    requests = tuple(outcome.value for outcome in Outcome)
    for states in (pods, ("ready", "not ready", "unknown"), ("available", "on dead machines"), requests):
        assert len({palette.STATES[state] for state in states}) == len(states)


def test_widget_has_the_colours_of_the_pictures() -> None:
    shown = re.findall(r'"?([a-z][a-z ]+)"?: "(#[0-9A-F]{6})"', WIDGET.read_text())
    assert len(shown) == 9 and {state: palette.STATES[state] for state, _ in shown} == dict(shown)
