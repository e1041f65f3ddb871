"""`workload`: the end by SIGTERM as a scenario gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.errors import InputError
from sim.faults.machines.workload import Behave
from sim.scenario.compile import load

SCENARIO = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {{name: s}}
spec:
  cluster: {{nodes: [{{count: 1}}]}}
  timeline: [{{at: 1m, workload: {{selector: app=web, {workload}}}}}]
"""


def behave(folder: Path, workload: str) -> Behave:
    file = folder / "s.yaml"
    file.write_text(SCENARIO.format(workload=workload))
    action = load(str(file)).steps[0].choices[0].action
    assert isinstance(action, Behave)
    return action


@pytest.mark.parametrize(
    ("workload", "stop_us", "code"),
    [
        ("onTerm: {exitCode: 143, after: 1s}", 1_000_000, 143),
        ("onTerm: {exitCode: 2}", 200_000, 2),
        ("onTerm: {after: never}", -1, 0),
        ("stop: 3s", 3_000_000, None),
        ("stop: never", -1, None),
    ],
)
def test_workload_step_says_what_sigterm_does(
    tmp_path: Path, workload: str, stop_us: int, code: int | None
) -> None:
    found = behave(tmp_path, workload)
    assert (found.stop_us, found.stop_exit_code) == (stop_us, code)


def test_workload_step_with_stop_and_on_term_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one of 'stop' and 'onTerm'"):
        behave(tmp_path, "stop: 1s, onTerm: {exitCode: 1}")


@pytest.mark.parametrize("after", ["soon", "1"])
def test_time_after_sigterm_that_is_no_duration_is_refused_with_its_place(tmp_path: Path, after: str) -> None:
    with pytest.raises(InputError, match=r"s\.yaml:6"):
        behave(tmp_path, f"onTerm: {{after: {after!r}}}")


def test_pick_of_an_image_that_cannot_be_pulled_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="an image fails for every pod"):
        behave(tmp_path, "image: r/web:1, pick: 1, pullError: gone")
