"""`orrery show TRACE --page`: the page of a finished run, with the state at each instant."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sim.app.cli.main import main

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: lost}
spec:
  duration: 3m
  cluster: {nodes: [{count: 4, zones: [a, b]}], scheduler: {replicas: 2}}
  objects: [web.yaml]
  timeline:
    - {at: 1m, name: dark, fail: {nodes: {zone: a}, how: power-loss}}
    - {at: 2m, name: half, mark: {}}
  expect:
    - {name: seen, when: any nodes have Ready=Unknown, within: [30s, 60s], after: dark}
"""
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: i}]}
"""


def data_of(page: Path) -> Any:
    found = re.search(r'id="run-data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.slow
def test_page_of_a_run_has_its_states_marks_and_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lost.yaml").write_text(SCENARIO)
    (tmp_path / "web.yaml").write_text(WEB)
    trace, page = tmp_path / "lost.trace", tmp_path / "lost.html"
    assert main(["run", str(tmp_path / "lost.yaml"), "--trace", str(trace), "--no-report", "--quiet"]) == 0
    assert main(["show", str(trace), "--page"]) == 0
    run = data_of(page)
    rows = run["rows"]
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    last = {(row[0], row[2]): row[3:] for row in rows if row[0] not in ("event", "requests")}
    nodes = {name: tuple(values) for (kind, name), values in last.items() if kind == "node"}
    assert set(nodes.values()) == {("a", "unknown"), ("b", "ready")}
    assert last["workload", "deployment default/web"] == [2, 4]
    pods = [values for (kind, _), values in last.items() if kind == "pod"]
    assert sorted(pod[1] for pod in pods) == ["not ready", "not ready", "running", "running"]
    assert {pod[2] for pod in pods} == {"deployment default/web"}
    assert last["process", "storage"] == ["running"]
    assert {row[2] for row in rows if row[0] == "step"} == {"dark", "half"}
    assert [fault["name"] for fault in run["time"]["faults"]] == ["dark"]
    (judged,) = run["judged"]
    assert (judged["name"], judged["state"]) == ("seen", "holds")
    assert "power" in judged["chain"][0]["text"]
    capsys.readouterr()
    assert main(["show", str(trace), "--page"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["show", str(trace), "--page", str(page), "--force"]) == 0
    assert main(["show", str(trace), "--page", str(page), "--kind", "step", "--force"]) == 2
