"""A served cluster that is kept in a folder: kills, restarts, and folders that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.cli.main import main
from sim.app.serving.data_dir import DataDir
from sim.app.serving.journal import Session, read_journal
from sim.errors import InputError
from tests.bench.kills import run

KILLS = 10


@pytest.mark.slow
def test_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    assert run(KILLS, 1, 0, tmp_path) > KILLS
    file = tmp_path / "data" / "journal"
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
