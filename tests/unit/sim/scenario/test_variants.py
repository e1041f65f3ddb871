"""Variants of a scenario: settings with a name, and expectations that have to fail in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.checked import checked_plan
from sim.app.run import run_plan
from sim.errors import InputError
from sim.scenario.compile import load

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: dark}
spec:
  duration: 2m
  cluster: {nodes: [{count: 2}]}
  timeline: [{name: dark, at: 1m, fail: {nodes: {name: node-0}, how: power-loss}}]
  expect:
    - {name: it is lost, eventually: "any nodes have Ready=Unknown", after: dark}
    - {name: both are there, always: "exactly 2 nodes exist", after: dark}
  variants:
    patient: {set: {"cluster.controllerManager.flags.node-monitor-grace-period": 10m}, fails: [it is lost]}
    wrong: {set: {}, fails: [it is found]}
    unbroken: {set: {}, fails: [it is lost]}
    late: {set: {timeline.dark.at: 10s, duration: 5s}, fails: [it is lost]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "dark.yaml"
    path.write_text(SCENARIO)
    return path


async def marks(file: Path, variant: str, *settings: str) -> list[bool]:
    result = await run_plan(load(file, settings, variant), picture=False)
    return [verdict.ok for verdict in result.verdicts]


@pytest.mark.slow
async def test_named_expectations_have_to_fail_in_a_variant_and_others_to_hold(file: Path) -> None:
    assert await marks(file, "") == [True, True]
    assert await marks(file, "patient") == [True, True]
    assert await marks(file, "unbroken") == [False, True]


@pytest.mark.slow
async def test_settings_come_after_those_of_the_variant(file: Path) -> None:
    flag = "cluster.controllerManager.flags.node-monitor-grace-period"
    assert await marks(file, "patient", f"{flag}=20s") == [False, True]


def test_settings_of_a_variant_are_those_of_the_plan(file: Path) -> None:
    plan = load(file, ("seed=4",), "patient")
    assert plan.settings[0].startswith("cluster.controllerManager.flags.node-monitor-grace-period=")
    assert plan.settings[1:] == ("expect[0].fails=true", "seed=4")
    assert plan.variants == ("patient", "wrong", "unbroken", "late")


def test_unknown_variant_is_refused_with_those_of_the_file(file: Path) -> None:
    with pytest.raises(InputError, match="there is no variant 'patent'") as refusal:
        load(file, (), "patent")
    assert "patient" in refusal.value.remedy


def test_variant_of_an_expectation_that_is_not_there_is_refused_at_its_place(file: Path) -> None:
    with pytest.raises(InputError, match="no expectation is named 'it is found'") as refusal:
        load(file, (), "wrong")
    assert refusal.value.place == f"{file}:14:30"


def test_bounds_over_many_runs_do_not_go_with_a_failure(file: Path) -> None:
    with pytest.raises(InputError, match="'fails' a single one"):
        checked_plan(file, ["expect[0].over={mean: [1s, 2s]}"], "patient")
