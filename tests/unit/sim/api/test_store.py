"""Revisions of which only heartbeat times are new."""

from __future__ import annotations

from typing import Any

from actors.storage.memory import HEARTBEAT_ITEMS_MAX, MemoryStore
from sim.api.store import HeartbeatItem, Item

KEY = "//nodes//n"


def node(time: str) -> dict[str, Any]:
    conditions = [
        {"type": "NetworkUnavailable", "status": "False"},
        {"lastHeartbeatTime": time, "type": "Ready", "status": "True"},
        {"type": "MemoryPressure", "lastHeartbeatTime": time, "status": "False"},
    ]
    return {"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": conditions, "nodeInfo": {}}}


def test_heartbeat_revision_reads_the_same_once_superseded() -> None:
    store = MemoryStore(lambda: 7)
    item: Any = store.put(KEY, node("a"), 0)
    texts, items = [], []
    for number in range(HEARTBEAT_ITEMS_MAX + 3):
        assert isinstance(item, Item)
        item = store.beat(item, node(str(number)), ())
        assert type(item) is HeartbeatItem
        texts.append(repr(item.obj))
        items.append(item)
    assert items[0].obj is not items[0].obj  # it is built
    assert items[-1].obj is items[-1].obj
    assert [repr(item.obj) for item in items] == texts
    assert {item.base for item in items} == {1}
