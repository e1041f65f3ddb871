"""Text on its way to a terminal: control characters are shown and not obeyed."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from sim.app.cli.main import main
from sim.app.process.printed import NAME_MAX, json_line, table_lines, visible

SCENARIO = r"""
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: tiny, description: "before \e[31m\e]0;title\a \x9b31m after"}
spec:
  duration: 1s
  cluster: {nodes: [{count: 1}]}
"""
BIDI_CONTROLS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
CONTROL = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - {"\n", "\t"}


def test_control_characters_are_shown_by_pictures_and_other_text_is_unchanged() -> None:
    assert visible("a\x1b[31m\x00\x7f\x9b\r\n\tü") == "a␛[31m␀␡\N{REPLACEMENT CHARACTER}␍\n\tü"


def test_control_characters_in_json_are_escaped_and_mean_the_same() -> None:
    value = {"text": "a\x1b\x9b\x7fü"}
    assert not CONTROL & {*json_line(value)}
    assert json.loads(json_line(value)) == value


def test_marks_that_turn_writing_around_are_replaced_and_escaped() -> None:
    marks = {
        mark for code in range(0x110000) if unicodedata.bidirectional(mark := chr(code)) in BIDI_CONTROLS
    }
    marks |= {"\N{LEFT-TO-RIGHT MARK}", "\N{RIGHT-TO-LEFT MARK}", "\N{ARABIC LETTER MARK}"}
    assert len(marks) == 12
    for mark in marks:
        assert visible(f"a{mark}b") == "a\N{REPLACEMENT CHARACTER}b"
        assert mark not in json_line(mark)
        assert json.loads(json_line(mark)) == mark


@pytest.mark.parametrize("command", [["list", "."], ["run", "tiny.yaml", "-q", "--no-report"]])
def test_escape_sequence_of_a_scenario_file_does_not_reach_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)
    assert main(command) in (0, 1)
    said = capsys.readouterr()
    assert "before ␛[31m" in said.out and " after" in said.out
    assert not CONTROL & {*said.out, *said.err}


def test_escape_sequence_in_an_error_does_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.yaml").write_text(SCENARIO.replace("duration: 1s", r'"\e[31m": 1'))
    assert main(["validate", str(tmp_path / "tiny.yaml")]) == 2
    assert not CONTROL & {*capsys.readouterr().err}


def test_columns_of_a_table_begin_below_each_other() -> None:
    rows = [("expectation", "A", "B"), ("e", "long value", ""), ("", "x", "y")]
    assert table_lines(rows) == [
        "expectation  A           B",
        "e            long value",
        "             x           y",
    ]
    assert table_lines([]) == []


def test_last_column_is_wrapped_beside_a_name_of_any_length() -> None:
    long = "n" * (NAME_MAX + 1)
    assert table_lines([("name", "one two three")], 14) == ["name  one two", "      three"]
    assert table_lines([(long, "text")], 80) == [long, " " * NAME_MAX + "  text"]
