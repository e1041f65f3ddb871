"""A cluster without controller managers or schedulers of its own, for programs that do their work."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.serving.journal import Session
from sim.errors import InputError
from sim.scenario.compile import load

SCENARIO = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: s}
spec:
  cluster: {controllerManager: {replicas: 0}, %s}
  timeline:
    - {at: 1s, %s}
"""


def scenario(
    folder: Path, cluster: str = "scheduler: {replicas: 0}", step: str = "stall: {actor: storage}"
) -> str:
    file = folder / "s.yaml"
    file.write_text(SCENARIO % (cluster, step))
    return str(file)


def test_scenario_may_have_no_controller_manager_and_no_scheduler(tmp_path: Path) -> None:
    cluster = load(scenario(tmp_path)).cluster
    assert (cluster.controller_manager.replicas, cluster.scheduler.replicas) == (0, 0)


def test_scenario_must_have_an_api_server(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"s\.yaml:5.*expected a whole number >= 1"):
        load(scenario(tmp_path, "apiServer: {replicas: 0}"))


def test_step_cannot_name_a_leader_that_no_replica_can_be(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no actor is named 'controller-manager-leader'"):
        load(scenario(tmp_path, step="crash: {actor: controller-manager-leader}"))


def test_session_without_a_scenario_takes_settings_of_its_cluster() -> None:
    plan = Session(settings=("cluster.scheduler.replicas=0",), naming="kubernetes", nodes=2).plan()
    assert (plan.cluster.scheduler.replicas, plan.cluster.naming, len(plan.cluster.nodes)) == (
        0,
        "kubernetes",
        2,
    )
    assert plan.duration_us == 0


def test_wrong_setting_of_a_session_without_a_scenario_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'scheduler'"):
        Session(settings=("cluster.schedulr.replicas=0",)).plan()
