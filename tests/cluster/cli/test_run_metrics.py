"""`orrery run --metrics`: the metrics of the components at the end of a run.

To see it fail: begin to count at the end of the run, or replace an existing file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.cli.main import main

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: small}
spec:
  duration: 30s
  cluster: {nodes: [{count: 1}]}
  objects: [pod.yaml]
"""

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}]}
"""


def test_metrics_of_a_run_are_written_and_change_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, metrics = tmp_path / "small.yaml", tmp_path / "small.prom"
    file.write_text(SCENARIO)
    (tmp_path / "pod.yaml").write_text(POD)
    command = ["run", str(file), "--no-report", "-q"]
    assert main([*command]) == 0
    plain = capsys.readouterr().out.splitlines()[-1]
    assert main([*command, "--metrics", str(metrics)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == plain and "sha256" in plain
    text = metrics.read_text()
    profile = 'profile="default-scheduler",result="scheduled"'
    assert f"scheduler_schedule_attempts_total{{{profile}}} 1\n" in text
    assert 'operation="CREATE",rejected="false",type="admit"' in text
    # An existing file is kept, and many seeds have no single run.
    metrics.write_text("mine")
    assert main([*command, "--metrics", str(metrics)]) == 2
    assert "exists already and is kept (choose another name, or add --force)" in capsys.readouterr().err
    assert metrics.read_text() == "mine"
    assert main([*command, "--metrics", str(metrics), "--force"]) == 0
    assert metrics.read_text() == text
    assert main([*command, "--seeds", "2", "--metrics", str(tmp_path / "other.prom")]) == 2
    assert "--metrics" in capsys.readouterr().err
