"""The expectation `unavailability` on whole runs: the truth, and the view of the control plane."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim import InputError, load, run_plan
from sim.app.possible import expectations_of
from sim.app.run import Result

FILE = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: shop}
spec:
  seed: 1
  duration: 20m
  cluster: {nodes: [{count: 6, zones: [a, b, c]}]}
  objects:
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec:
        replicas: 12
        selector: {matchLabels: {app: web}}
        template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "r/web:1"}]}}
  timeline:
    - {at: 2m, name: outage, fail: {nodes: {zone: a}, how: HOW}, for: 10m}
  expect:
    - {name: truth, unavailability: {of: deployments/web, atMost: BOUND}, after: outage}
    - {name: seen, unavailability: {of: deployments/web, atMost: 1h, view: controlPlane}, after: outage}
    - {name: few, unavailability: {of: deployments/web, below: 4, atMost: 0s}, after: outage}
"""


async def run(folder: Path, how: str, bound: str = "1h") -> Result:
    path = folder / "shop.yaml"
    path.write_text(FILE.replace("HOW", how).replace("BOUND", bound))
    return await run_plan(load(path))


async def test_loss_in_truth_begins_at_the_death_of_the_nodes(tmp_path: Path) -> None:
    result = await run(tmp_path, "power-loss")
    truth, seen, few = result.verdicts
    # The control plane notices a dead node after 30 to 50 s, and evicts its pods 5 min later.
    assert 30 <= truth.measured_s[0] - seen.measured_s[0] <= 50
    assert 330 <= truth.measured_s[0] <= 360
    assert "lowest 8" in truth.measured and truth.ok and seen.ok and few.ok
    assert few.measured_s == (0.0,)
    assert max(value for _, value in result.timeline.available["seen"].points) == 12


async def test_bound_on_the_time_of_loss_fails_when_it_is_passed(tmp_path: Path) -> None:
    result = await run(tmp_path, "power-loss", "5m")
    assert [verdict.ok for verdict in result.verdicts] == [False, True, True]


async def test_paused_agent_loses_no_service_until_pods_are_replaced(tmp_path: Path) -> None:
    result = await run(tmp_path, "hang")
    truth, seen, _ = result.verdicts
    assert truth.measured_s == seen.measured_s and truth.measured_s[0] > 0


async def test_cut_network_counts_as_a_dead_machine(tmp_path: Path) -> None:
    result = await run(tmp_path, "network-cut")
    truth, seen, _ = result.verdicts
    assert truth.measured_s[0] - seen.measured_s[0] >= 30


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("deployments/web", "web", "is no workload"),
        ("deployments/web", "jobs/web", "is no workload"),
        ("atMost: BOUND", "atMost: soon", "is no duration"),
        ("below: 4", "below: 0", "below: 1 or more"),
    ],
)
def test_wrong_entry_is_refused_with_a_remedy(tmp_path: Path, old: str, new: str, error: str) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(FILE.replace(old, new).replace("HOW", "hang").replace("BOUND", "1h"))
    with pytest.raises(InputError, match=error):
        expectations_of(load(path))


async def test_workload_that_does_not_exist_fails_the_expectation(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    text = FILE.replace("deployments/web, atMost: BOUND", "deployments/wob, atMost: 1h")
    path.write_text(text.replace("HOW", "hang"))
    truth = (await run_plan(load(path))).verdicts[0]
    assert not truth.ok and "there was no deployments/default/wob" in truth.measured
