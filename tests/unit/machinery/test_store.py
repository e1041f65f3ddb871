"""Revisions of which only heartbeat times are new."""

from __future__ import annotations

from typing import Any

from actors.storage import MemoryStore
from sim.machinery.store import Beaten, Item

KEY = "//nodes//n"


def node(time: str) -> dict[str, Any]:
    conditions = [
        {"type": "NetworkUnavailable", "status": "False"},
        {"lastHeartbeatTime": time, "type": "Ready", "status": "True"},
        {"type": "MemoryPressure", "lastHeartbeatTime": time, "status": "False"},
    ]
    return {"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": conditions, "nodeInfo": {}}}


def test_a_beaten_revision_reads_the_same_once_another_has_taken_its_place() -> None:
    store = MemoryStore(lambda: 7)
    item: Any = store.put(KEY, node("a"), 0)
    texts, items = [], []
    for time in "bcd":
        assert isinstance(item, Item)
        item = store.beat(item, node(time), ())
        assert type(item) is Beaten
        texts.append(repr(item.obj))
        items.append(item)
    assert [repr(item.obj) for item in items] == texts
    assert [item.base for item in items] == [1, 1, 1]
