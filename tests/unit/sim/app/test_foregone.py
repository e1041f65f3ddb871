"""A warning names the expectations that certainly hold already, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.cli.main import main
from sim.app.foregone import foregone
from sim.scenario.compile import compile_plan
from sim.scenario.read.source import parse_documents

TEXT = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {{name: x}}
spec:
  cluster: {{nodes: [{{count: 4, zones: [a, b]}}], {more}}}
  objects: [{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}}}]
  timeline:
    - {{name: outage, at: 5m, fail: {{nodes: {{zone: a}}, how: power-loss}}}}
    - {{name: noticed, when: any nodes have Ready=Unknown, mark: {{}}, after: outage}}
    - {{name: back, at: 8m, heal: {{step: outage}}}}
  expect: [{expect}]
"""


def notes(expect: str, more: str = "") -> list[str]:
    (document,) = parse_documents(TEXT.format(expect="{name: e, " + expect + "}", more=more), "x.yaml")
    return foregone(compile_plan(document, Path()))


@pytest.mark.parametrize(
    ("expect", "more", "when"),
    [
        ("eventually: all nodes have Ready=True, after: outage", "", "at 5m00s"),
        ("when: at least 3 nodes exist, within: [0s, 9s], after: outage", "", "at 5m00s"),
        ("eventually: no nodes in zone b have Ready=Unknown, after: 2m", "", "at 2m00s"),
        ("eventually: all nodes have Ready=True, after: 1s", "established: true", "at 0m01s"),
        (
            "eventually: any nodes have  Ready=Unknown, after: noticed",
            "",
            "when 'noticed' occurs, which waits for the same condition",
        ),
    ],
)
def test_expectation_that_certainly_holds_already_is_named(expect: str, more: str, when: str) -> None:
    (note,) = notes(expect, more)
    assert note.startswith(f"x.yaml:12:12: 'e' holds already {when}: ")


@pytest.mark.parametrize(
    ("expect", "more"),
    [
        ("eventually: all nodes have Ready=True, again: true, after: outage", ""),
        ("eventually: all nodes have Ready=True, after: back", ""),
        ("eventually: all nodes have Ready=True, after: 6m", ""),
        ("eventually: all nodes have Ready=True, after: 30s", ""),
        ("eventually: all nodes have Ready=True", ""),
        ("eventually: any nodes have Ready=Unknown, after: outage", ""),
        ("eventually: all nodes have Ready=Unknown, after: noticed", ""),
        ("eventually: all pods are ready, after: outage", ""),
        ("eventually: {created: pods}, after: outage", ""),
        ("always: all nodes in zone b have Ready=True, after: outage", ""),
        (
            "eventually: all nodes have Ready=True, after: outage",
            "apiServer: {flags: {max-requests-inflight: 1}}",
        ),
    ],
)
def test_expectation_that_may_not_hold_already_is_not_named(expect: str, more: str) -> None:
    assert notes(expect, more) == []


def test_validate_warns_of_an_expectation_that_holds_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(TEXT.format(expect="{name: e, eventually: nodes exist, after: outage}", more=""))
    assert main(["validate", str(file)]) == 0
    said = capsys.readouterr()
    assert (
        "'e' holds already at 5m00s: nothing in its window makes it hold" in said.err and ": ok (" in said.out
    )
