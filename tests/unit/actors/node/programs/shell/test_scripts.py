"""Scripts print and end as dash and bash of a Debian did."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.actors.node.programs.shell.container import shell


def recorded() -> list[tuple[str, str, int, str, str, bool]]:
    """Shell, script, exit code, output, messages, and True if messages are compared."""
    found = []
    text = (Path(__file__).parent / "scripts.txt").read_text(encoding="utf-8")
    for section in text.split("\n%% ")[1:]:
        heading, *lines = section.rstrip("\n").split("\n")
        said = {">": "", "1": "", "2": ""}
        for line in lines:
            said[line[0]] += line[2:] + ("\n" if line[1] == "|" else "")
        words = heading.split()
        heard = words[-1] != "unheard"
        *shells, code = words if heard else words[:-1]
        found += [
            (one, said[">"].removesuffix("\n"), int(code), said["1"], said["2"], heard) for one in shells
        ]
    return found


RECORDED = recorded()


def test_there_are_enough_recorded_scripts() -> None:
    assert len({script for _, script, *_ in RECORDED}) >= 150
    assert len(RECORDED) >= 300


@pytest.mark.parametrize(("name", "script", "code", "out", "err", "heard"), RECORDED)
def test_script_prints_and_ends_as_recorded(
    name: str, script: str, code: int, out: str, err: str, heard: bool
) -> None:
    result = shell(name, "-c", script)
    assert (result.out, result.code) == (out, code)
    if heard:
        assert result.err == err
