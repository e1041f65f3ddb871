"""Objects kept in the compact form, against the objects that were given."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.storage.memory import MemoryStore
from actors.storage.packed import Packer, YoungItem
from sim.machinery.store import Item

KEY = "//events/default/web.1"
scalars = st.none() | st.booleans() | st.integers(0, 1) | st.just(1.0) | st.sampled_from(["", "a", "b"])
trees = st.recursive(
    scalars,
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from("xyz"), below, max_size=2),
    max_leaves=4,
)
members = st.dictionaries(
    st.sampled_from(["kind", "reason", "count", "message", "source", "involvedObject", "series"]), trees
)
references = st.dictionaries(st.sampled_from(["kind", "name", "uid", "resourceVersion", "fieldPath"]), trees)

states = st.dictionaries(st.sampled_from(["state", "lastState", "ready", "containerID"]), trees | members)
statuses = st.dictionaries(
    st.sampled_from(["phase", "conditions", "podIPs", "containerStatuses", "podIP"]),
    trees | st.lists(members, max_size=3) | st.lists(states, max_size=2),
)


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    event = dict(draw(members))
    if draw(st.booleans()):
        event["involvedObject"] = draw(references)
    if draw(st.booleans()):
        event["status"] = draw(statuses)
    more = draw(st.dictionaries(st.sampled_from(["uid", "labels", "namespace"]), trees))
    event["metadata"] = {"name": draw(st.sampled_from(["web.1", "web.1", "other"])), **more}
    return event


def exact(value: Any) -> Any:
    """A value as text: tells 1 from True and 1.0, and the order of members."""
    return repr(value)


@given(st.lists(events(), min_size=1, max_size=6))
def test_what_is_built_is_what_was_packed(objects: list[dict[str, Any]]) -> None:
    packer = Packer({})
    for rev, obj in enumerate(objects, 1):
        obj["metadata"]["resourceVersion"] = str(rev)
        item = YoungItem(KEY, obj, rev, rev)
        item.pack(packer)
        assert type(item) is YoungItem or obj["metadata"]["name"] == "web.1"
        assert exact(item.obj) == exact(obj)
        for section in ("metadata", "status", "involvedObject", "source"):
            part = obj.get(section)
            if part is None or type(part) is dict:
                for field in ("name", "resourceVersion", "uid", "phase", "conditions", "kind", "x", "labels"):
                    assert exact(item.peek(section, field)) == exact((part or {}).get(field))
        last = item.restamped(77)
        assert (last.key, last.rev, last.created) == (KEY, 77, item.created)
        restamped = {**obj, "metadata": {**obj["metadata"], "resourceVersion": "77"}}
        assert exact(last.obj) == exact(restamped)


def test_events_alike_share_all_but_their_own_values() -> None:
    store = MemoryStore(lambda: 7)
    store.pack("//events/", young_max=0)
    source = {"component": "scheduler"}

    def write(name: str) -> Item:
        event = {"kind": "Event", "metadata": {"name": name}, "reason": "Scheduled", "source": source}
        done = store.put(f"//events/default/{name}", event, 0)
        assert isinstance(done, Item)
        return done

    first, second, _, _ = write("a"), write("b"), write("c"), write("d")
    assert first._state[0] is second._state[0]  # type: ignore[attr-defined]
    assert first.obj["source"] is second.obj["source"] is source
    assert [first.obj["metadata"], second.obj["metadata"]] == [
        {"name": "a", "resourceVersion": "1"},
        {"name": "b", "resourceVersion": "2"},
    ]


@st.composite
def told(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "default", "uid": draw(scalars), "resourceVersion": ""},
        "involvedObject": {"kind": draw(scalars), "uid": draw(scalars)},
        "reason": draw(scalars),
        "message": draw(scalars),
    }


@given(st.data())
def test_an_event_cast_from_its_values_reads_as_one_that_was_put(data: st.DataObject) -> None:
    store, other = MemoryStore(lambda: 0), MemoryStore(lambda: 0)
    for each in (store, other):
        each.pack("//events/")
    mould = None
    for number in range(data.draw(st.integers(1, 6))):
        key = f"//events/default/web.{number}"
        event = data.draw(told())
        event["metadata"]["name"] = key.rpartition("/")[2]
        flat = [*event.values(), *event["metadata"].values(), *event["involvedObject"].values()]
        item = None if mould is None else store.cast(key, mould, flat)
        if item is None:
            put = store.put(key, {**event, "metadata": {**event["metadata"]}}, 0)
            assert isinstance(put, Item)
            item, mould = put, store.mould(put)
            assert type(item) is YoungItem
        like = other.put(key, event, 0)
        assert isinstance(like, Item)
        assert exact(item.obj) == exact(like.obj) and (item.rev, item.created) == (like.rev, like.created)
        assert store.get(key) is item and store.revision == other.revision
