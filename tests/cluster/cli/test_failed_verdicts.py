"""Every output of a run explains a failed expectation: value, bound, object, instants and causes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim.app.cli.main import main

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: small}
spec:
  duration: 90s
  cluster: {nodes: [{count: 3}], boot: 0s}
  timeline:
    - {at: 20s, name: death, fail: {nodes: {name: node-1}, how: power-loss}}
    - {name: noticed, when: any nodes have Ready=Unknown, mark: {}}
  expect:
    - {name: found, when: "nodes named node-1 have Ready=Unknown", within: [0s, 9s], after: death}
    - {name: was there, eventually: nodes named node-1 exist, after: noticed}
    - {name: back, eventually: all nodes have Ready=True, again: true, after: death}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("trace", [True, False])
def test_outputs_of_a_run_explain_a_failed_expectation(
    scenario: Path, capsys: pytest.CaptureFixture[str], trace: bool
) -> None:
    junit, report = scenario.with_suffix(".xml"), scenario.with_suffix(".html")
    options = ["--trace", str(scenario.with_suffix(".trace"))] if trace else []
    assert main(["run", str(scenario), "-q", "--junit", str(junit), "--report", str(report), *options]) == 1
    plain = capsys.readouterr().out
    for output in (plain, junit.read_text(), report.read_text().replace("&quot;", '"')):
        assert "of the run, 0m" in output and "after death" in output
        assert 'step "death": fail power-loss; nodes node-1 (small.yaml:9:7)' in output
        assert "nodes/node-1: ready True → Unknown" in output
    assert "FAILED found" in plain and "FAILED back" in plain and "FAILED was there" not in plain
    assert "never again" in plain and "2 of 3 nodes" in plain
    assert "held already  was there" in plain


@pytest.mark.slow
def test_terminal_explains_a_failed_expectation_without_any_file(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(scenario), "-q", "--no-report"]) == 1
    assert 'step "death": fail power-loss' in capsys.readouterr().out


@pytest.mark.slow
def test_json_of_a_run_holds_what_decided_each_verdict(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(scenario), "--json", "--trace", str(scenario.with_suffix(".trace"))]) == 1
    found, there, back = json.loads(capsys.readouterr().out)["expectations"]
    assert (found["ok"], found["held_already"], found["objects"]) == (False, False, ["nodes/node-1"])
    assert found["at_s"] == pytest.approx(20 + found["since_after_s"]) and found["since_after_s"] > 9
    assert found["causes"][0]["kind"] == "step"
    assert (there["held_already"], there["objects"], "causes" in there) == (True, [], False)
    assert (back["at_s"], back["objects"], back["true_of"]) == (None, ["nodes/node-1"], "2 of 3 nodes")
