"""Faults of the disk under a data directory: what is opened is a state that there was, or nothing."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.storage import MemoryStore
from sim.app.daemons import durable as durable_module
from sim.app.daemons.durable import LOG, NEXT, DamagedError, DurableStore
from sim.errors import InputError
from sim.units import Revision, Virtual
from tests.unit.sim.app.daemons.test_durable import PODS, opened, state, write


def filled(folder: Path) -> tuple[bytes, list[Any]]:
    """The file of a store with some history, and its state at each revision."""
    durable, store = opened(folder)
    states = [state(store)]
    for name in "aba":
        write(store, name, len(states))
        states.append(state(store))
    store.delete(f"{PODS}a/b", None)
    states.append(state(store))
    write(store, "c", 1)
    states.append(state(store))
    durable.close()
    return (folder / LOG).read_bytes(), states


def read(durable: DurableStore, data: bytes) -> MemoryStore | None:
    """The store of some bytes of a file; None if they are refused."""
    store = MemoryStore(lambda: Virtual(7))
    try:
        durable._read(data, store)
    except (DamagedError, InputError, msgspec.MsgspecError):
        return None
    return store


def test_file_cut_at_any_byte_has_a_state_that_there_was(tmp_path: Path) -> None:
    whole, states = filled(tmp_path)
    durable = DurableStore(tmp_path, "orch", durable_module.Wall(0))
    revisions = []
    for cut in range(len(whole) + 1):
        store = read(durable, whole[:cut])
        if store is None:
            assert not revisions, cut  # within the head, which is never written in place
            continue
        revisions.append(store.revision)
        assert state(store) == states[store.revision], cut
    assert sorted(set(revisions)) == [*range(len(states))]
    assert revisions == sorted(revisions)


def test_any_changed_bit_is_refused_or_cut_off_at_the_end(tmp_path: Path) -> None:
    whole, states = filled(tmp_path)
    durable = DurableStore(tmp_path, "orch", durable_module.Wall(0))
    last = len(states) - 1
    found = set()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        store = read(durable, bytes(damaged))
        found.add(None if store is None else int(store.revision))
        if store is not None:
            assert state(store) == states[last - 1], at
    assert found == {None, last - 1}


def test_log_that_is_missing_beside_its_keys_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "keys.json").write_text("{}")
    (tmp_path / LOG).unlink()
    with pytest.raises(InputError, match="has no log"):
        opened(tmp_path)
    assert not (tmp_path / LOG).exists()


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    whole, _ = filled(tmp_path)
    real = os.open

    def refusing(path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(code, os.strerror(code))
        return real(path, flags, mode)

    monkeypatch.setattr(durable_module.os, "open", refusing)
    with pytest.raises(InputError, match=os.strerror(code)):
        opened(tmp_path)
    assert (tmp_path / LOG).read_bytes() == whole


def test_full_disk_at_the_first_start_leaves_a_folder_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(durable_module.os, "write", full)
        with pytest.raises(InputError, match="cannot be written: No space left on device"):
            opened(tmp_path)
    durable, store = opened(tmp_path)
    assert write(store, "a", 1) == 1
    durable.close()


def test_replacement_can_be_interrupted_at_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_module, "STEP_RECORDS", 2)
    folder = tmp_path / "data"
    durable, store = opened(folder)
    for number in range(9):
        write(store, f"p{number % 4}", number)
    store.compact(Revision(4))
    durable.flush()
    copies = []
    for number, step in enumerate(durable.replacement()):
        write(store, "during", number)
        durable.flush()
        expected = state(store), store.revision, store.floor
        for when in ("before", "torn", "after"):
            copy = tmp_path / f"{when}-{number}"
            if when == "after":
                step()
            shutil.copytree(folder, copy)
            if when == "torn":
                os.truncate(copy / NEXT, (copy / NEXT).stat().st_size // 2)
            copies.append((copy, expected))
    assert len(copies) > 9
    durable.close()
    for copy, expected in copies:
        again, other = opened(copy)
        assert (state(other), other.revision, other.floor) == expected, copy.name
        again.close()
        assert not (copy / NEXT).exists()
