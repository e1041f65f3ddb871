"""The storage's process: which operations are answered, when, and after which faults."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from actors.storage import Storage
from actors.storage.actor import LEADER_FOUND_US, NO_LEADER_US, NO_SPACE, REQUEST_TIMEOUT_US, TIMED_OUT
from actors.storage.kept_snapshots import Snapshots
from sim.api.store import Answer, Change, Delete, Item, Put
from sim.kernel import Kernel, Supervisor
from sim.kernel.actor import Actor
from sim.units import MS, SECOND, Virtual

KEY = "//configmaps/default/a"
WRITER = ("admin", "create")


class Rig:
    """A storage without API servers; the test submits operations to it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.kernel = Kernel(seed=1)
        supervisor = Supervisor(self.kernel, nursery)
        self.storage = Storage(self.kernel)
        self.actor: Actor = supervisor.add("storage", self.storage.main)
        nursery.start_soon(self.kernel.run)

    async def run(self, duration_us: int) -> None:
        await self.kernel.run_until(self.kernel.now_us + duration_us)

    def submit(self, name: str = "a", wanted: bool = True) -> list[Answer]:
        """Submit a write; returns the list that its answer is added to."""
        answers: list[Answer] = []
        put = Put(f"{KEY}{name}", {"metadata": {"name": name}}, None)
        self.storage.submit(put, WRITER, lambda: wanted, answers.append)
        return answers

    def is_stored(self, name: str = "a") -> bool:
        return self.storage.store.get(f"{KEY}{name}") is not None


@asynccontextmanager
async def opened() -> AsyncIterator[Rig]:
    """A storage that has run for a second."""
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery)
        await rig.run(1 * SECOND)
        yield rig
        nursery.cancel_scope.cancel()


async def test_healthy_storage_answers_within_the_latency_of_a_write() -> None:
    async with opened() as rig:
        assert rig.storage.prompt
        answers = rig.submit()
        await rig.run(1 * MS - 1)
        assert answers == []
        await rig.run(1 * MS + 1)
        assert [type(each) for each in answers] == [Item]
        await rig.run(2 * REQUEST_TIMEOUT_US)
        assert len(answers) == 1, "an operation is answered once"


async def test_slow_disk_delays_each_operation_by_its_time() -> None:
    async with opened() as rig:
        rig.storage.extra_us = 3 * SECOND
        assert not rig.storage.prompt
        answers = rig.submit()
        await rig.run(3 * SECOND)
        assert answers == []
        await rig.run(2 * MS)
        assert rig.is_stored() and len(answers) == 1


async def test_paused_storage_answers_nothing_and_carries_out_what_arrived() -> None:
    async with opened() as rig:
        rig.actor.pause()
        answers = rig.submit()
        await rig.run(REQUEST_TIMEOUT_US + SECOND)
        assert answers == [] and not rig.is_stored()
        rig.actor.resume()
        await rig.run(1 * SECOND)
        assert rig.is_stored() and len(answers) == 1


async def test_write_without_a_quorum_waits_until_its_timeout_or_a_quorum() -> None:
    async with opened() as rig:
        rig.storage.set_quorum(False)
        late = rig.submit("late")
        await rig.run(REQUEST_TIMEOUT_US - SECOND)
        early = rig.submit("early")
        await rig.run(1 * SECOND + 10 * MS)
        assert late == [TIMED_OUT] and early == []
        rig.storage.set_quorum(True)
        await rig.run(1 * SECOND)
        assert [type(each) for each in early] == [Item] and rig.is_stored("early")
        assert late == [TIMED_OUT]


async def test_full_storage_refuses_a_write_and_carries_out_a_deletion() -> None:
    async with opened() as rig:
        stored = rig.submit("old")
        await rig.run(1 * SECOND)
        rig.storage.full = True
        refused, answers = rig.submit("new"), list[Answer]()
        rig.storage.submit(Delete(f"{KEY}old", None), WRITER, lambda: True, answers.append)
        await rig.run(1 * SECOND)
        assert refused == [NO_SPACE] and not rig.storage.prompt
        assert [type(each) for each in (*stored, *answers)] == [Item, Item] and not rig.is_stored("old")
        rig.storage.full = False
        assert rig.storage.prompt


async def test_restored_storage_continues_at_the_revision_of_its_snapshot() -> None:
    async with opened() as rig:
        store, changes, snapshots = rig.storage.store, list[Change](), Snapshots()
        store.subscribe("//configmaps/", changes.append)
        kept, more = rig.submit("kept"), rig.submit("changed")
        await rig.run(1 * SECOND)
        assert snapshots.keep(rig.storage, rig.kernel.now_us) and len(kept) == len(more) == 1
        at_us, rev = rig.kernel.now_us, store.revision
        rig.submit("changed")
        rig.submit("later")
        await rig.run(1 * SECOND)
        assert store.revision == rev + 2
        del changes[:]
        rig.storage.restore(snapshots.at[at_us])
        assert (store.revision, store.floor, rig.is_stored("later")) == (rev, rev, False)
        assert [(each.item.key, each.deleted) for each in changes] == [
            (f"{KEY}changed", False),
            (f"{KEY}later", True),
        ]
        assert not snapshots.keep(rig.storage, Virtual(at_us - 1)), "the history before it is gone"


async def test_watches_notice_a_lost_quorum_only_if_it_lasts() -> None:
    async with opened() as rig:
        noticed: list[bool] = []
        end = rig.storage.on_leader(noticed.append)
        rig.storage.set_quorum(False)
        await rig.run(NO_LEADER_US - 1)
        rig.storage.set_quorum(True)
        await rig.run(NO_LEADER_US + LEADER_FOUND_US)
        assert noticed == [] and rig.storage.led
        rig.storage.set_quorum(False)
        await rig.run(NO_LEADER_US)
        assert noticed == [False] and not rig.storage.led
        rig.storage.set_quorum(True)
        await rig.run(LEADER_FOUND_US - 1)
        assert noticed == [False]
        await rig.run(1)
        assert noticed == [False, True]
        end()
        rig.storage.set_quorum(False)
        await rig.run(NO_LEADER_US)
        assert noticed == [False, True]


async def test_operations_wait_for_a_missing_process_while_their_caller_waits() -> None:
    async with opened() as rig:
        rig.actor.crash()
        kept, dropped = rig.submit("kept"), rig.submit("dropped", wanted=False)
        await rig.run(1 * SECOND)
        assert (kept, dropped) == ([], [])
        rig.actor.start()
        await rig.run(1 * SECOND)
        assert [type(each) for each in kept] == [Item]
        assert rig.is_stored("kept") and not rig.is_stored("dropped")


async def test_committed_writes_survive_a_crash() -> None:
    async with opened() as rig:
        rig.submit()
        await rig.run(1 * SECOND)
        rig.actor.crash()
        rig.actor.start()
        await rig.run(1 * SECOND)
        assert rig.is_stored()


async def test_each_change_of_the_quorum_starts_a_new_waiting_time() -> None:
    async with opened() as rig:
        for quorum in (False, True, False):
            rig.storage.set_quorum(quorum)
            await rig.run(1 * SECOND)
        await rig.run(NO_LEADER_US - 1 * SECOND - 1)
        assert rig.storage.led
        await rig.run(1)
        assert not rig.storage.led
