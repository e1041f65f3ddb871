"""Group commit: what is held, until when, and what a failure of the disk does."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.storage import MemoryStore
from sim.api.store import Item
from sim.api.types import Reply
from sim.app.daemons import durable as durable_module
from sim.app.daemons.durable import LOG, DurableStore, records
from sim.app.daemons.group_commit import GroupCommit
from sim.units import Revision
from tests.unit.sim.app.daemons.test_durable import opened, state, write

Body = Callable[["Held"], Awaitable[None]]


class Held:
    """A store with its group commit, and what clients have learned."""

    def __init__(self, folder: Path) -> None:
        self.durable, self.store = opened(folder)
        self.commits = GroupCommit(self.durable)
        self.learned: list[str] = []

    def news(self, what: str, reply: Reply | None = None) -> None:
        hold = self.commits.before_news(reply)
        tell = lambda: self.learned.append(what)  # noqa: E731
        if hold is None:
            tell()
        else:
            hold(tell)

    def item(self, name: str) -> Item:
        found = self.store.get(f"//pods/a/{name}")
        assert found is not None
        return found

    async def until_learned(self, count: int) -> None:
        while len(self.learned) < count:
            await trio.lowlevel.checkpoint()


def run(folder: Path, body: Body, *, ends: bool = True) -> Held:
    """Run a body beside the task that writes.  ends: False if a failure of the disk ends it"""

    async def main() -> Held:
        held = Held(folder)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(held.commits.run, nursery.cancel_scope)
            await body(held)
            if ends:
                nursery.cancel_scope.cancel()
        return held

    return trio.run(main)


def on_disk(folder: Path) -> int:
    """The number of changes in the file."""
    return len(list(records((folder / LOG).read_bytes()))) - 1


def test_news_are_given_in_order_once_their_batch_is_on_the_disk(tmp_path: Path) -> None:
    async def body(held: Held) -> None:
        held.news("nothing yet")
        for number in range(5):
            write(held.store, f"p{number}", 1)
            held.news(f"write {number}")
        assert (held.learned, on_disk(tmp_path)) == (["nothing yet"], 0)
        await held.until_learned(6)
        assert on_disk(tmp_path) == 5

    held = run(tmp_path, body)
    assert held.learned == ["nothing yet", *(f"write {number}" for number in range(5))]


def test_reads_wait_only_for_what_they_show(tmp_path: Path) -> None:
    async def body(held: Held) -> None:
        write(held.store, "a", 1)
        held.news("wrote a")
        await held.until_learned(1)
        write(held.store, "b", 1)
        held.news("get a", Reply(200, item=held.item("a")))
        held.news("older list", Reply(200, items=[], revision=Revision(1)))
        held.news("get b", Reply(200, item=held.item("b")))
        held.news("list", Reply(200, items=[], revision=Revision(2)))
        held.news("get of what was deleted", Reply(404))
        assert held.learned == ["wrote a", "get a", "older list"]
        await held.until_learned(6)

    assert run(tmp_path, body).learned[3:] == ["get b", "list", "get of what was deleted"]


class Disk:
    """A disk that syncs when it may.  syncs: the number of those that have begun"""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may, self.syncs = threading.Event(), 0
        self._sync = os.fdatasync
        monkeypatch.setattr(durable_module.os, "fdatasync", self.sync)

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        self.may.wait()
        self._sync(descriptor)

    async def until_begun(self, count: int) -> None:
        while self.syncs < count:
            await trio.lowlevel.checkpoint()


def test_commits_during_a_sync_form_the_next_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(held: Held) -> None:
        disk = Disk(monkeypatch)
        write(held.store, "a", 1)
        held.news("a")
        await disk.until_begun(1)
        for name in "bcd":
            write(held.store, name, 1)
            held.news(name)
        held.news("get a", Reply(200, item=held.item("a")))
        assert held.learned == []
        disk.may.set()
        await held.until_learned(5)
        assert disk.syncs == 2

    assert run(tmp_path, body).learned == ["a", "get a", "b", "c", "d"]


def test_news_of_the_release_follow_those_that_waited(tmp_path: Path) -> None:
    """A client that learns of something may cause news at once, which do not precede others."""

    async def body(held: Held) -> None:
        write(held.store, "a", 1)
        hold: Any = held.commits.before_news(None)
        hold(lambda: held.news("caused"))
        held.news("waited")
        await held.until_learned(2)

    assert run(tmp_path, body).learned == ["waited", "caused"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failure_of_the_disk_ends_it_and_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    async def body(held: Held) -> None:
        def fail(*_: object) -> int:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(durable_module.os, "write" if code == errno.ENOSPC else "fdatasync", fail)
        write(held.store, "a", 1)
        held.news("a")
        await trio.sleep_forever()

    held = run(tmp_path, body, ends=False)
    assert held.learned == []
    assert held.commits.tell_failure()
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / LOG} cannot be written: {os.strerror(code)}; what was not acknowledged may be lost"
    ]


def test_batches_are_written_while_the_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_module, "REWRITE_BYTES", 4_000)
    monkeypatch.setattr(durable_module, "STEP_RECORDS", 3)
    replaced: list[int] = []
    exchange = DurableStore._exchange

    def noted(durable: DurableStore, descriptor: int, at: int, size: int) -> None:
        exchange(durable, descriptor, at, size)
        replaced.append(size)

    monkeypatch.setattr(DurableStore, "_exchange", noted)

    async def body(held: Held) -> None:
        count = 0
        while len(replaced) < 3:
            count += 1
            write(held.store, f"p{count % 7}", count)
            if count % 50 == 0:
                held.store.compact(Revision(count - 20))
            held.news("")
            await held.until_learned(count)

    held = run(tmp_path, body)
    held.durable.close()
    store: MemoryStore = opened(tmp_path)[1]
    assert (state(store), store.revision) == (state(held.store), held.store.revision)
