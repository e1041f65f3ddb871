"""The page about virtual time of components: its commands have the options that it gives them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from orrery.clock import Clock
from sim.app.cli.main import main
from sim.app.daemons.flags import parse_flags
from sim.app.daemons.programs import program_named
from sim.ident import NAMES

PAGE = Path(__file__).parents[5] / "docs" / "how-to" / "run-components-in-virtual-time.md"


def blocks(language: str) -> list[str]:
    parts = PAGE.read_text().split(f"```{language}")[1:]
    return [part.partition("\n")[2].partition("```")[0] for part in parts]


def test_components_of_the_page_follow_the_clock_that_it_names() -> None:
    lines = [shlex.split(line) for line in blocks("bash")[0].splitlines()]
    clocks = []
    for command, *words in lines[1:]:
        program, _ = program_named(command)
        rest = [word for word in words if word not in ("--naming", "kubernetes")]
        clocks.append(parse_flags(rest, program.known(NAMES["kubernetes"])).values["clock"])
    assert clocks == ["https://127.0.0.1:6443"] * 2


def test_the_scenario_of_the_page_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "alone.yaml"
    file.write_text(blocks("yaml")[0])
    assert yaml.safe_load(file.read_text())["kind"] == "Scenario"
    assert main(["validate", str(file)]) == 0
    capsys.readouterr()


def test_python_of_the_page_is_that_of_the_clock() -> None:
    (text,) = blocks("python")
    compile(text, str(PAGE), "exec")
    used = set(re.findall(r"\bclock\.(\w+)\(", text))
    assert used == {"sleep", "wait", "hold", "now"}
    assert used <= vars(Clock).keys()
