"""The commands `init`, `faults`, `conditions`, `options` and `schema`; and the built wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.app.cli.main import main

ROOT = Path(__file__).parents[3]


def test_init_writes_a_scenario_that_runs_and_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "first"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.yaml", "scenario.schema.json"]
    assert main(["run", "first.yaml", "--json"]) == 0
    verdicts = json.loads(capsys.readouterr().out.splitlines()[-1])["expectations"]
    assert len(verdicts) == 3


def test_init_keeps_a_file_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.yaml").write_text("mine")
    assert main(["init", "first"]) == 2
    assert (tmp_path / "first.yaml").read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert main(["init", "first.yaml", "--force"]) == 0


def test_init_refuses_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "../first"]) == 2
    assert "is no name" in capsys.readouterr().err


def test_faults_lists_all_and_describes_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults"]) == 0
    listed = capsys.readouterr().out
    assert "  partition " in listed and "  drain " in listed
    assert main(["faults", "partition"]) == 0
    assert "between" in capsys.readouterr().out
    assert main(["faults", "partitoin"]) == 2
    assert "did you mean 'partition'?" in capsys.readouterr().err


def test_options_of_one_daemon_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["options", "scheduler", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["scheduler"]
    assert {"name": "scheduler-name", "default": "default-scheduler"}.items() <= next(
        row for row in rows if row["name"] == "scheduler-name"
    ).items()


def test_unknown_command_gets_the_most_similar_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rn"]) == 2
    assert "did you mean 'run'?" in capsys.readouterr().err


def test_help_lists_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    commands = [line.split()[0] for line in lines if line.startswith("  ")]
    assert len(commands) == len(set(commands)) == 24


def test_wheel_runs_a_scenario_by_name_in_an_empty_folder(tmp_path: Path) -> None:
    # By the builder itself: an environment of dev.py has no pip.
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "wheel")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    empty = tmp_path / "empty"
    empty.mkdir()
    # A wheel is an archive of packages: Python imports from an unpacked one.
    subprocess.run(
        [sys.executable, "-m", "zipfile", "-e", str(wheel), str(tmp_path / "installed")], check=True
    )
    run = [sys.executable, "-m", "orrery", "run", "single-node-death", "--json"]
    done = subprocess.run(
        run,
        cwd=empty,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["ok"] is True
    assert list(empty.iterdir()) == []


def test_front_door_has_the_names_of_sim() -> None:
    import orrery
    import sim

    assert orrery.__all__ == sim.__all__
    assert all(getattr(orrery, name) is getattr(sim, name) for name in orrery.__all__)
