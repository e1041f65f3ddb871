"""The embedded durable store: what a folder gives back after any end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.storage import MemoryStore
from sim.api.store import Change, Compacted, Managed
from sim.app.daemons.durable import HEAD_BYTES, LOG, DurableStore
from sim.errors import InputError
from sim.units import SECOND, Revision, Virtual, Wall

PODS = "//pods/"
OWNER = Managed("kubectl", "Update", "v1", 5, {"f:spec": {}})


def opened(
    folder: Path, naming: str = "orch", epoch_us: int = 1_000, history_us: int = 0
) -> tuple[DurableStore, MemoryStore]:
    store = MemoryStore(lambda: Virtual(7))
    durable = DurableStore(folder, naming, Wall(epoch_us))
    durable.open(store, history_us)
    return durable, store


def write(store: MemoryStore, name: str, value: int) -> int:
    item: Any = store.put(
        f"{PODS}a/{name}", {"metadata": {"name": name}, "spec": {"value": value}}, None, (OWNER,)
    )
    return int(item.rev)


def state(store: MemoryStore) -> dict[str, tuple[Any, int, int, Any]]:
    return {
        item.key: (item.obj, item.rev, item.created, item.managed) for item in store.state_at(store.revision)
    }


def changes(store: MemoryStore, after: int) -> list[tuple[str, int, bool]]:
    found = store.events(Revision(after), PODS)
    assert not isinstance(found, Compacted)
    return [(change.item.key, change.rev, change.deleted) for change in found]


def test_objects_revisions_owners_and_history_are_given_back(tmp_path: Path) -> None:
    durable, store = opened(tmp_path)
    write(store, "a", 1)
    write(store, "b", 1)
    write(store, "a", 2)
    store.delete(f"{PODS}a/b", None)
    durable.close()
    again, other = opened(tmp_path, epoch_us=9_000)
    assert (state(other), other.revision) == (state(store), 4)
    assert changes(other, 1) == changes(store, 1)
    assert write(other, "c", 1) == 5
    again.close()


def test_what_was_not_flushed_is_not_there(tmp_path: Path) -> None:
    durable, store = opened(tmp_path)
    write(store, "a", 1)
    durable.flush()
    before = (tmp_path / LOG).read_bytes()
    write(store, "b", 1)
    durable.close()
    (tmp_path / LOG).write_bytes(before)
    _, other = opened(tmp_path)
    assert list(state(other)) == [f"{PODS}a/a"]


def test_every_cut_of_the_last_record_leaves_the_records_before(tmp_path: Path) -> None:
    durable, store = opened(tmp_path)
    write(store, "a", 1)
    durable.flush()
    known = len((tmp_path / LOG).read_bytes())
    write(store, "b", 1)
    durable.close()
    whole = (tmp_path / LOG).read_bytes()
    for cut in range(known, len(whole)):
        (tmp_path / LOG).write_bytes(whole[:cut])
        durable, other = opened(tmp_path)
        assert other.revision == 1, cut
        assert write(other, "c", 1) == 2
        durable.close()


def test_a_changed_byte_before_the_end_is_refused_and_kept(tmp_path: Path) -> None:
    durable, store = opened(tmp_path)
    write(store, "a", 1)
    write(store, "b", 1)
    durable.close()
    whole = (tmp_path / LOG).read_bytes()
    for at in range(HEAD_BYTES, len(whole) // 2, 7):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        (tmp_path / LOG).write_bytes(damaged)
        with pytest.raises(InputError, match="damaged"):
            opened(tmp_path)
        assert (tmp_path / LOG).read_bytes() == damaged


def test_a_rewritten_file_keeps_state_floor_history_and_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.app.daemons.durable.REWRITE_BYTES", 4_000)
    durable, store = opened(tmp_path)
    for value in range(200):
        write(store, "a", value)
        durable.flush()
        if value == 150:
            store.compact(Revision(149))
    write(store, "b", 1)
    store.delete(f"{PODS}a/b", None)
    durable.flush()
    assert (tmp_path / LOG).stat().st_size < 202 * 100
    durable.close()
    _, other = opened(tmp_path)
    assert (state(other), other.revision, other.floor) == (state(store), store.revision, store.floor)
    assert changes(other, 155) == changes(store, 155)


def test_history_of_processes_that_lived_shortly_is_dropped_at_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.app.daemons.durable.REWRITE_BYTES", 4_000)
    sizes = []
    for start in range(12):
        durable, store = opened(tmp_path, epoch_us=start * SECOND, history_us=3 * SECOND)
        for value in range(20):
            write(store, "a", value)
        durable.close()
        sizes.append((tmp_path / LOG).stat().st_size)
    assert max(sizes) < 2 * sizes[3]
    _, other = opened(tmp_path, epoch_us=12 * SECOND)
    assert (other.revision, other.floor > 0, state(other)) == (240, True, state(store))
    assert len(changes(other, 180)) == 60


def test_a_deletion_that_was_compacted_gives_its_revision_to_no_other(tmp_path: Path) -> None:
    durable, store = opened(tmp_path)
    write(store, "a", 1)
    write(store, "b", 1)
    store.delete(f"{PODS}a/b", None)
    store.compact(Revision(3))
    durable.flush()
    durable._replace_file()
    durable.close()
    _, other = opened(tmp_path)
    assert other.revision == 3
    assert write(other, "c", 1) == 4


def test_folders_of_others_are_refused_and_kept(tmp_path: Path) -> None:
    durable, _ = opened(tmp_path / "mine")
    with pytest.raises(InputError, match="is used by another process"):
        opened(tmp_path / "mine")
    durable.close()
    with pytest.raises(InputError, match="naming orch"):
        opened(tmp_path / "mine", naming="kubernetes")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"it holds thesis\.tex"):
        opened(tmp_path / "thesis")


def test_a_clock_that_was_set_back_keeps_the_order_of_times(tmp_path: Path) -> None:
    durable, store = opened(tmp_path, epoch_us=9_000)
    write(store, "a", 1)
    durable.close()
    durable, store = opened(tmp_path, epoch_us=2_000)
    write(store, "b", 1)
    durable.close()
    _, other = opened(tmp_path, epoch_us=3_000)
    times = [change.at_us for change in other.events(Revision(0), PODS) if isinstance(change, Change)]
    assert times == sorted(times)
    assert max(times) <= 0
