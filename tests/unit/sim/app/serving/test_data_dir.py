"""What a data directory is refused for, in one line, and what is continued: nothing in it is lost."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from sim.app.serving.data_dir import JOURNAL, KEYS, LOCK, SNAPSHOTS, DataDir
from sim.app.serving.journal import JournalFile, Session, read_journal
from sim.app.timetable import BEGIN
from sim.errors import InputError
from sim.ident import NAMES
from sim.kernel import DEFAULT_EPOCH_US, POSITION, NotKeptError, Operation
from sim.units import Virtual

SESSION = Session(nodes=1)
N = NAMES["orch"]


def journal_in(folder: Path, *, begun: bool = True) -> JournalFile:
    """The journal of a server that has run in a folder, with its keys."""
    with DataDir(folder) as data:
        data.keep(data.keys(N))
        journal = JournalFile(data.journal_file, SESSION, SESSION.plan(), DEFAULT_EPOCH_US)
    if begun:
        journal.append(Operation(0, Virtual(0), BEGIN, None))
        journal.append(Operation(9, Virtual(5_000_000), POSITION, None))
    return journal


def refused(folder: Path, given: Session = SESSION) -> str:
    """Why a folder is refused; its files stay as they were."""
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    with DataDir(folder) as data, pytest.raises(InputError) as error:
        data.earlier(given)
        data.keys(N)
    after = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    assert after == {LOCK: b"", **before}
    assert "\n" not in str(error.value)
    return str(error.value)


def test_each_changed_bit_of_a_journal_is_refused(tmp_path: Path) -> None:
    journal_in(tmp_path)
    file = tmp_path / JOURNAL
    whole = file.read_bytes()
    for at in (0, 3, 40, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        for bit in (1, 128):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            assert re.search("journal|damaged", refused(tmp_path)), at


def test_journal_without_its_last_bytes_is_continued_before_them(tmp_path: Path) -> None:
    journal_in(tmp_path)
    file = tmp_path / JOURNAL
    whole = read_journal(file).operations
    file.write_bytes(file.read_bytes()[:-3])
    with DataDir(tmp_path) as data:
        found = data.earlier(SESSION)
    assert found is not None
    assert found.operations == whole[:-1]
    assert "the record is incomplete" in found.note


def test_missing_files_are_named(tmp_path: Path) -> None:
    journal_in(tmp_path)
    (tmp_path / KEYS).rename(tmp_path / "elsewhere")
    assert "its keys are missing" in refused(tmp_path)
    (tmp_path / "elsewhere").rename(tmp_path / KEYS)
    (tmp_path / SNAPSHOTS).mkdir()
    (tmp_path / JOURNAL).unlink()
    assert "its journal is missing" in refused(tmp_path)


def test_server_that_was_killed_before_it_served_leaves_a_new_folder(tmp_path: Path) -> None:
    journal_in(tmp_path, begun=False)
    (tmp_path / ".orrery-1234.part").write_text("half")
    authority = (tmp_path / KEYS).read_bytes()
    for _ in range(2):  # the second without a journal
        with DataDir(tmp_path) as data:
            assert data.earlier(Session(nodes=5)) is None
            keys = data.keys(N)
            assert keys.fresh
            assert keys.authority.signing_pem.decode().splitlines()[1] in authority.decode()
        assert not (tmp_path / JOURNAL).exists()


def test_folder_of_another_cluster_or_version_is_refused(tmp_path: Path) -> None:
    journal_in(tmp_path)
    assert "another cluster" in refused(tmp_path, Session(nodes=2))
    with DataDir(tmp_path) as data, pytest.MonkeyPatch.context() as patched:
        patched.setattr("sim.app.serving.data_dir.program_digest", lambda: "later")
        with pytest.raises(InputError, match="another version"):
            data.earlier(SESSION)


def test_journal_that_was_full_is_continued_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = journal_in(tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(NotKeptError):
        patched.setattr(os, "write", full)
        journal.append(Operation(10, Virtual(6_000_000), POSITION, None))
    for _ in range(2):
        with DataDir(tmp_path) as data:
            found = data.earlier(SESSION)
        assert found is not None
        again = JournalFile.resumed(tmp_path / JOURNAL, found)
        again.append(Operation(10, Virtual(6_000_000), POSITION, None))
    assert [one.step for one in read_journal(tmp_path / JOURNAL).operations] == [0, 9, 10, 10]
    assert read_journal(tmp_path / JOURNAL).stop is None


def test_folder_that_cannot_be_written_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(InputError, match="cannot be used: Read-only file system"):
        DataDir(tmp_path)
