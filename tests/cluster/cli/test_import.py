"""`orrery import`, and what the other commands say of files of other tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.cli.main import main

DUMP = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: ip-1, labels: {topology.kubernetes.io/zone: eu-west-1a}}
  status: {capacity: {cpu: "4", memory: 16Gi, pods: "58"}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop, uid: u, resourceVersion: "9"}
  spec:
    replicas: 2
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: web, image: "r/web:1"}]}
  status: {replicas: 2}
"""
CHAOS = """
apiVersion: chaos-mesh.org/v1alpha1
kind: PodChaos
metadata: {name: kill}
spec: {action: pod-kill, mode: all, selector: {labelSelectors: {app: web}}}
---
apiVersion: chaos-mesh.org/v1alpha1
kind: IOChaos
metadata: {name: disk}
spec: {}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(DUMP)
    (tmp_path / "chaos.yaml").write_text(CHAOS)
    return tmp_path


def test_imported_cluster_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "kubectl-dump", "cluster.yaml", "-o", "mine.yaml"]) == 0
    assert "wrote mine.yaml (1 nodes, 2 objects, 0 steps)" in capsys.readouterr().out
    assert main(["run", "mine.yaml", "--no-report", "--json"]) == 0
    assert '"refused": []' in capsys.readouterr().out


def test_report_of_an_import_names_what_has_no_counterpart(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "chaos-mesh", "chaos.yaml", "-o", "mine.yaml"]) == 0
    note = "IOChaos disk has no counterpart: this kind of fault"
    assert f"- {note}" in capsys.readouterr().out
    assert f"# - {note}" in (folder / "mine.yaml").read_text()
    assert main(["validate", "mine.yaml"]) == 0


def test_file_of_the_user_is_replaced_only_with_force(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine.yaml").write_text("mine")
    assert main(["import", "kubectl-dump", "cluster.yaml", "-o", "mine.yaml"]) == 2
    assert "--force" in capsys.readouterr().err
    assert (folder / "mine.yaml").read_text() == "mine"
    assert main(["import", "kubectl-dump", "cluster.yaml", "-o", "mine.yaml", "--force"]) == 0


def test_file_that_is_read_is_not_written_even_with_force(folder: Path) -> None:
    assert main(["import", "kubectl-dump", "cluster.yaml", "-o", "cluster.yaml", "--force"]) == 2
    assert (folder / "cluster.yaml").read_text() == DUMP


@pytest.mark.parametrize("command", ["run", "validate", "serve"])
def test_foreign_file_is_named_with_the_import_that_takes_it(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "chaos.yaml"]) == 2
    told = capsys.readouterr().err
    assert "is a PodChaos of Chaos Mesh" in told and "orrery import chaos-mesh " in told


PROGRAMS = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers:
  - name: c
    image: busybox
    command: [sh, -c, "f() { ls; }; f; x=$(jq . /x | foo); if true; then exec bar; fi"]
    livenessProbe: {exec: {command: [pg_good]}}
  - {name: d, image: debian, command: [bash, -c, "coproc cat"]}
  - {name: e, image: mine}
  - {name: f, image: busybox, command: [sh, -c, "for i in 1 2; do echo $i; done; sleep 5"]}
"""


def test_check_lists_programs_that_are_not_known(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pods.yaml").write_text(PROGRAMS)
    assert main(["import", "kubectl-dump", "pods.yaml", "--check"]) == 1
    assert sorted(capsys.readouterr().out.splitlines()[1:]) == [
        *(
            f"- the program {name} is not known: container c of Pod a"
            for name in ("bar", "foo", "jq", "pg_good")
        ),
        "- the shell: coproc is not understood: container d of Pod a",
    ]
    assert not (folder / "scenario.yaml").exists()
    assert main(["import", "kubectl-dump", "cluster.yaml", "--check"]) == 0
