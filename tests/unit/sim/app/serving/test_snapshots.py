"""Snapshots of a data directory: whole or not at all, and never overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.serving import snapshots
from sim.app.serving.data_dir import JOURNAL, KEYS, SNAPSHOTS
from sim.app.serving.journal import JournalFile, Session, read_journal
from sim.app.serving.repeating import progress
from sim.errors import ConflictError, InputError
from sim.kernel import DEFAULT_EPOCH_US, POSITION, Operation
from sim.units import SECOND, Virtual


def data_dir(folder: Path) -> JournalFile:
    """A folder with the journal of a server that has run for a while."""
    folder.mkdir()
    (folder / KEYS).write_text("{}")
    session = Session(nodes=1)
    journal = JournalFile(folder / JOURNAL, session, session.plan(), DEFAULT_EPOCH_US)
    journal.append(Operation(7, Virtual(3 * SECOND), POSITION, None))
    return journal


def test_snapshot_that_is_there_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    journal = data_dir(folder)
    assert snapshots.save(folder, "early") == ("early", 3 * SECOND, 1)
    journal.append(Operation(9, Virtual(4 * SECOND), POSITION, None))
    with pytest.raises(ConflictError, match="there is such a snapshot"):
        snapshots.save(folder, "early")
    assert snapshots.save(folder, "late") == ("late", 4 * SECOND, 2)
    assert [one.name for one in snapshots.listed(folder)] == ["early", "late"]


def test_two_at_once_make_one_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data"
    data_dir(folder)
    copy = snapshots._copy

    def slow(source: Path, target: Path) -> None:
        monkeypatch.setattr(snapshots, "_copy", copy)
        snapshots.save(folder, "early")  # by the other
        copy(source, target)

    monkeypatch.setattr(snapshots, "_copy", slow)
    with pytest.raises(ConflictError):
        snapshots.save(folder, "early")
    assert [each.name for each in (folder / SNAPSHOTS).iterdir()] == ["early"]


def test_snapshot_that_was_not_completed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data"
    data_dir(folder)

    def full(source: Path, target: Path) -> None:
        target.mkdir(parents=True)
        (target / JOURNAL).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(InputError, match="No space left"):
        patched.setattr(snapshots, "_copy", full)
        snapshots.save(folder, "early")
    killed = folder / SNAPSHOTS / ".part"
    killed.mkdir()
    (killed / JOURNAL).write_bytes(b"half")
    assert list(snapshots.listed(folder)) == []
    assert snapshots.save(folder, "early").name == "early"


def test_restored_journal_replaces_the_other_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data"
    journal = data_dir(folder)
    snapshots.save(folder, "early")
    journal.append(Operation(9, Virtual(4 * SECOND), POSITION, None))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("os.replace", killed)
        snapshots.restore(folder, "early")
    assert read_journal(folder / JOURNAL).virtual_us == 4 * SECOND
    snapshots.restore(folder, "early")
    assert read_journal(folder / JOURNAL).virtual_us == 3 * SECOND
    assert [one.virtual_us for one in snapshots.listed(folder)] == [3 * SECOND, 4 * SECOND, 4 * SECOND]


def test_progress_of_a_repetition_has_its_share_and_the_time_left() -> None:
    line = progress(0.331, 9_562_564_231, 8 * 3600 * SECOND, 41.6)
    assert line == "orrery: repeating the time so far: 33%, 2h39m22s of 8h0m0s, some 42 s left"
