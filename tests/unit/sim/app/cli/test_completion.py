"""What a shell completes: the words are those that the commands take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.app.cli.completion import daemons, scenarios, steps


def test_scenarios_are_names_of_the_package_and_files_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zone-mine.yaml").touch()
    (tmp_path / "zones").mkdir()
    (tmp_path / "zones" / "one.yaml").touch()
    assert scenarios("zone") == ["zone-mine.yaml", "zone-outage", "zones/"]
    assert scenarios("zones/") == ["zones/one.yaml"]


def test_steps_and_daemons_are_completed_by_name() -> None:
    assert "partition" in steps("part")
    assert [name for name in steps("part") if not name.startswith("part")] == []
    assert daemons("s") == ["scheduler"]
    assert daemons("") == ["apiserver", "controller-manager", "node-agent", "scheduler"]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="completion is that of Unix shells")
@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("orrery run zone-ou", "zone-outage"),
        ("orrery faults parti", "partition"),
        ("orrery options sched", "scheduler"),
        ("orrery whatif x.yaml --lose zo", "zone="),
        ("orrery vali", "validate"),
    ],
)
def test_shell_gets_the_word_through_argcomplete(tmp_path: Path, line: str, word: str) -> None:
    answer = tmp_path / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    }
    subprocess.run(
        [sys.executable, "-c", "from sim.app.start import main; main()"],
        cwd=tmp_path,
        env=environment,
        timeout=60,
        check=False,
    )
    assert word in answer.read_text().split("\013")
