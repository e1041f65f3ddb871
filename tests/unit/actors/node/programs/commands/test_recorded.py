"""Command lines with the outputs of busybox 1.35 and GNU's tools, recorded beforehand.

Each case began with the same files in /w; `tree` lists the names below it afterwards where they
changed.  After a wrong use busybox prints its name and the usage, which are not compared.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.unit.actors.node.programs.commands.laboratory import Laboratory

CASES = [
    case
    for path in sorted((Path(__file__).parents[5] / "data" / "commands").glob("*.json"))
    for case in json.loads(path.read_text())
]


def stages(line: str) -> list[list[str]]:
    """The commands of a pipeline, as words."""
    return [shlex.split(stage) for stage in line.split(" | ")]


@pytest.mark.parametrize("case", CASES, ids=[f"{case['flavour']} {case['line']}" for case in CASES])
def test_command_prints_what_the_real_one_prints(case: dict[str, Any]) -> None:
    laboratory = Laboratory(busybox=case["flavour"] == "busybox")
    before = laboratory.names()
    data, errors, code = b"", "", 0
    for words in stages(case["line"]):
        data, error, code = laboratory.run(words, data)
        errors += error.decode("latin-1")
    assert data.decode("latin-1") == case["stdout"]
    assert errors.partition("BusyBox v")[:2] == case.get("stderr", "").partition("BusyBox v")[:2]
    assert code == case.get("code", 0)
    assert laboratory.names() == case.get("tree", before)


def test_the_table_is_large_and_has_both_flavours() -> None:
    assert len(CASES) >= 150
    assert {case["flavour"] for case in CASES} == {"busybox", "gnu"}
