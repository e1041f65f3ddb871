"""Scenario documents as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sim.scenario.read.source import only_document
from sim.scenario.writing import WIDTH, scenario_text

SCENARIOS = sorted(Path(__file__).parents[4].glob("scenarios/*.yaml"))


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_text_of_a_shipped_scenario_reads_back_as_the_document(file: Path) -> None:
    document = only_document(file.read_text(), file.name).value
    assert only_document(scenario_text(document, ["A line", ""]), file.name).value == document


def test_text_has_a_line_for_each_step_and_short_values() -> None:
    document: dict[str, Any] = {
        "metadata": {"name": "x"},
        "spec": {
            "seed": 3,
            "cluster": {"nodes": [{"count": 2, "zones": ["a"]}]},
            "objects": [
                {"kind": "Pod", "metadata": {"name": "a" * 60, "labels": {"b": "c" * 60}}, "list": [1]}
            ],
            "timeline": [{"at": "1m", "for": "5s", "crash": {"actor": "scheduler-0"}}],
        },
    }
    assert scenario_text(document, ["Once."]).splitlines() == [
        "# Once.",
        "metadata: {name: x}",
        "spec:",
        "  seed: 3",
        "  cluster:",
        "    nodes: [{count: 2, zones: [a]}]",
        "  objects:",
        "    - kind: Pod",
        "      metadata:",
        f"        name: {'a' * 60}",
        f"        labels: {{b: {'c' * 60}}}",
        "      list: [1]",
        "  timeline:",
        "    - {at: 1m, for: 5s, crash: {actor: scheduler-0}}",
    ]


def test_lines_are_not_wider_than_their_limit() -> None:
    many = {"spec": {"expect": [{"name": "n" * 30, "count": {"where": {"a": "b" * 50, "c": ["d" * 50]}}}]}}
    text = scenario_text(many)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert only_document(text, "x").value == many


@pytest.mark.parametrize(
    "value", ["yes", "12:30", "1e3", "2026-01-01", "a: b", "# no", "", "null", "a\nb", "ü"]
)
def test_texts_that_look_like_other_values_stay_texts(value: str) -> None:
    document = {"spec": {"timeline": [{"name": value, value or "empty": [value, {}, [], True, 1.5, None]}]}}
    assert only_document(scenario_text(document), "x").value == document
