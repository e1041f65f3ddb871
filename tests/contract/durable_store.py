"""The embedded durable store for the contract of stores: what is done to it is there again after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors.storage import MemoryStore
from sim.api.store import Compacted
from sim.app.daemons.durable import DurableStore
from sim.units import Virtual, Wall


def opened(folder: Path) -> tuple[DurableStore, MemoryStore]:
    """The store of a folder."""
    store = MemoryStore(lambda: Virtual(7))
    durable = DurableStore(folder, "orch", Wall(1_000))
    durable.open(store)
    return durable, store


@contextmanager
def durable_store(folder: Path) -> Iterator[MemoryStore]:
    """A store that is equal, and fit for further writes, when it is opened again, also after its
    file was replaced.
    """
    durable, store = opened(folder)
    yield store
    expected = content(store)
    durable.close()
    durable, store = opened(folder)
    assert content(store) == expected
    durable._replace_file()
    durable.close()
    durable, store = opened(folder)
    assert content(store) == expected
    answer: Any = store.put("//pods/a/after", {"metadata": {"name": "after"}}, 0)
    assert answer.rev == store.revision == expected[0] + 1
    durable.close()


def content(store: MemoryStore) -> tuple[int, Any, Any, Any]:
    """All that can be read: the revision, the floor, its state, and the history since."""
    changes = store.events(store.floor, "")
    assert not isinstance(changes, Compacted)
    history = [(change.item.key, change.rev, change.deleted, change.item.obj) for change in changes]
    states = [
        sorted(
            (item.key, item.rev, item.created, str(item.obj), item.managed) for item in store.state_at(rev)
        )
        for rev in (store.floor, store.revision)
    ]
    return store.revision, store.floor, states, history
