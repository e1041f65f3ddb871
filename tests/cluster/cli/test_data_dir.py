"""A served cluster that is kept in a folder: kills, restarts, and folders that are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sim.app.cli.main import main
from sim.app.serving.data_dir import DataDir
from sim.app.serving.journal import Session, read_journal
from sim.errors import InputError
from sim.kernel import read
from tests.bench.kills import run

KILLS = 10


@pytest.mark.slow
def test_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    assert run(KILLS, 1, 0, tmp_path) > KILLS
    file = tmp_path / "0" / "data" / "journal"
    assert read_journal(file).end is not None
    assert main(["replay", str(file), "--no-report", "--quiet"]) == 0


def test_folder_with_other_files_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"no data directory: it holds thesis\.tex"):
        DataDir(tmp_path).earlier(Session())
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_folder_of_a_running_server_is_refused(tmp_path: Path) -> None:
    first = DataDir(tmp_path)
    with pytest.raises(InputError, match="is used by another server"):
        DataDir(tmp_path)
    assert first.earlier(Session()) is None


def ran(*words: str) -> tuple[int, str]:
    """Exit status and what is said, of a command in a process of its own."""
    command = [sys.executable, "-m", "sim.app.cli.main", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.slow
def test_cluster_goes_up_down_and_up_again_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    common = ("--folder", str(folder))
    ctl = ("ctl", "--client-config", str(folder / "config"))
    described = ("--like", "small-distribution", "--nodes", "2")
    status, said = ran("up", "--port", "0", "--pace", "0", *described, *common)
    assert (status, "time rests" in said) == (0, True)
    assert ran(*ctl, "run", "90s")[0] == 0
    status, said = ran("up", *common)
    assert (status, "is up already" in said) == (2, True)
    assert ran("down", *common) == (0, f"orrery: the cluster of {folder} is kept: orrery up continues it\n")
    assert ran("down", *common)[0] == 2
    assert ran("up", "--port", "0", "--pace", "0", *common)[0] == 0
    said = ran(*ctl, "state")[1]
    assert "1m30.000s, paused (pace 1 when it goes on)" in said
    assert "2 of 2 nodes ready, 6 of 6 pods running" in said
    assert ran("down", "--delete", *common) == (0, f"orrery: the cluster of {folder} is deleted\n")
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_snapshots_are_restored_and_forked(tmp_path: Path) -> None:
    folder, twin = tmp_path / "mine", tmp_path / "twin"
    data = ("--data-dir", str(folder / "data"))
    up = ("up", "--port", "0", "--pace", "0", "--folder", str(folder))
    ctl = ("ctl", "--client-config", str(folder / "config"))
    assert ran(*up)[0] == 0
    assert ran(*ctl, "run", "1m")[0] == 0
    assert ran(*ctl, "snapshot", "early") == (0, "saved early at 1m00.000s\n")
    for again in ((*ctl, "snapshot", "early"), ("snapshot", "save", "early", *data)):
        status, said = ran(*again)
        assert (status, "there is such a snapshot" in said) == (2, True)
    assert ran(*ctl, "trace", str(tmp_path / "so-far.trace"))[0] == 0
    assert len(list(read(tmp_path / "so-far.trace"))) > 100
    assert ran(*ctl, "trace", str(tmp_path / "so-far.trace"))[0] == 2
    assert ran(*ctl, "run", "1m")[0] == 0
    status, said = ran("snapshot", "restore", "early", *data)
    assert (status, "is used by another server" in said) == (2, True)
    assert ran("down", "--folder", str(folder))[0] == 0
    assert ran("snapshot", "fork", "--to", str(twin), *data)[0] == 0
    assert ran("snapshot", "restore", "early", *data)[0] == 0
    assert ran(*up)[0] == 0
    said = ran(*ctl, "state")[1]
    assert ran("down", "--folder", str(folder))[0] == 0
    assert "paused" in said
    listed = ran("snapshot", "list", *data)[1]
    assert [line.split()[-1] for line in listed.splitlines()] == ["early", "before-early-1"]
    assert read_journal(twin / "journal").virtual_us == 120_000_000
    status, said = ran("snapshot", "restore", "erly", *data)
    assert (status, "early" in said) == (2, True)
    assert ran("snapshot", "fork", "--to", str(twin), *data)[0] == 2
