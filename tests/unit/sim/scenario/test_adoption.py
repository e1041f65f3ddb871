"""`cluster.adoptNodes` of a scenario, and the option of `orrery serve` in its session."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.serving.journal import Session
from sim.errors import InputError
from sim.scenario.compile import load
from sim.scenario.plan.plan import AdoptionPlan

SCENARIO = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {{name: s}}
spec:
  cluster:
    adoptNodes: {given}
"""


def scenario(folder: Path, given: str) -> str:
    file = folder / "s.yaml"
    file.write_text(SCENARIO.format(given=given))
    return str(file)


def test_scenario_says_which_node_objects_get_which_machine(tmp_path: Path) -> None:
    given = "{selector: 'type in (kwok)', profile: {capacity: {cpu: 4}, flags: {max-pods: 9}}}"
    found = load(scenario(tmp_path, given)).cluster.adoption
    assert found is not None
    assert (found.selector, found.capacity, found.flags) == ("type in (kwok)", {"cpu": "4"}, {"max-pods": 9})
    plain = load(scenario(tmp_path, "{}")).cluster.adoption
    assert plain is not None and (plain.selector, plain.capacity) == ("", {})


def test_scenario_without_adopt_nodes_adopts_none(tmp_path: Path) -> None:
    assert load(scenario(tmp_path, "null")).cluster.adoption is None
    assert Session().plan().cluster.adoption is None


@pytest.mark.parametrize(
    "given", ["{selector: 'a in'}", "{profile: {runtime: {start: soon}}}", "{profile: {memory: 1Gi}}"]
)
def test_wrong_adoption_is_refused_with_its_place(tmp_path: Path, given: str) -> None:
    with pytest.raises(InputError, match=r"s\.yaml:6"):
        load(scenario(tmp_path, given))


def test_session_adopts_by_its_selector_with_the_profile_of_the_scenario(tmp_path: Path) -> None:
    file = scenario(tmp_path, "{selector: a=b, profile: {capacity: {cpu: 4}}}")
    found = Session(file, adopted="type=kwok").plan().cluster.adoption
    assert found is not None and (found.selector, found.capacity) == ("type=kwok", {"cpu": "4"})
    assert Session(adopted="").plan().cluster.adoption == AdoptionPlan()
