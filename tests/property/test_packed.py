"""Objects kept in the compact form, against the objects that were given."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from actors.storage.compact.items import PART_MAX, PackedItem, Packer, PastItem, YoungItem
from actors.storage.memory import MemoryStore
from sim.api.store import Item

KEY = "//events/default/web.1"
scalars = st.none() | st.booleans() | st.integers(0, 1) | st.just(1.0) | st.sampled_from(["", "a", "b"])
trees = st.recursive(
    scalars,
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from("xyz"), below, max_size=2),
    max_leaves=4,
)
UID = "0123abcd-4567-89ef-0123-456789abcdef"
CONTAINER_ID = "containerd://" + "0123456789abcdef" * 4
# Of the forms that become bytes, and nearly so.
formed = st.sampled_from([
    "2026-01-02T03:04:05Z", "1969-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05+00:00",
    "2106-02-07T06:28:15Z", "2106-02-07T06:28:14Z", "2026-01-02T03:04:05.000001Z", "1969-12-31T23:59:59.999999Z",
    "7", "07", "-7", "4294967295", "4294967296", " 7",
    "10.0.0.1", "255.255.255.255", "10.0.0.01", "10.0.1", "256.0.0.1", "0.0.0.-1", "::1",
    UID, UID.upper(), UID.replace("-", ""), UID + "0", CONTAINER_ID, CONTAINER_ID.upper(), "docker://" + "0" * 64,
    "web", "started web", "web web.1", "about \0", "web \0",
])  # fmt: skip
values = trees | formed
members = st.dictionaries(
    st.sampled_from([
        "kind", "reason", "count", "message", "source", "involvedObject", "series", "name", "lastTimestamp",
        "firstTimestamp", "lastTransitionTime", "eventTime",
    ]),
    values,
)  # fmt: skip
references = st.dictionaries(st.sampled_from(["kind", "name", "uid", "resourceVersion", "fieldPath"]), values)

states = st.dictionaries(st.sampled_from(["state", "lastState", "ready", "containerID"]), values | members)
statuses = st.dictionaries(
    st.sampled_from(["phase", "conditions", "podIPs", "containerStatuses", "podIP", "hostIP", "startTime"]),
    values | st.lists(members, max_size=3) | st.lists(states, max_size=2),
)


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    event = dict(draw(members))
    if draw(st.booleans()):
        event["involvedObject"] = draw(references)
    if draw(st.booleans()):
        event["status"] = draw(statuses)
    more = draw(st.dictionaries(st.sampled_from(["uid", "labels", "namespace", "creationTimestamp"]), values))
    event["metadata"] = {"name": draw(st.sampled_from(["web.1", "web.1", "other"])), **more}
    return event


PEEKED = (
    "name",
    "resourceVersion",
    "uid",
    "phase",
    "conditions",
    "kind",
    "x",
    "hostIP",
    "startTime",
    "creationTimestamp",
)


def exact(value: Any) -> Any:
    """A value as text: distinguishes 1, True and 1.0, and the order of members."""
    return repr(value)


TIME = "2026-01-02T03:04:05Z"


@given(st.lists(events(), min_size=1, max_size=6), st.booleans())
@example([{"kind": TIME, "reason": TIME, "eventTime": {}, "metadata": {"name": "web.1"}}], False)
def test_what_is_built_is_what_was_packed(objects: list[dict[str, Any]], together: bool) -> None:
    packer, items = Packer({}), []
    for rev, obj in enumerate(objects, 1):
        obj["metadata"]["resourceVersion"] = str(rev)
        item = YoungItem(KEY, obj, rev, rev)
        item.cause = 10 * rev
        items.append(item)
    for part in [items] if together else [[item] for item in items]:
        packer.pack(part)
    for rev, (obj, item) in enumerate(zip(objects, items, strict=True), 1):
        assert (item.key, item.rev, item.created, item.cause) == (KEY, rev, rev, 10 * rev)
        if type(item) is not YoungItem:
            assert obj["metadata"]["name"] == "web.1"
        assert exact(item.obj) == exact(obj)
        for section in ("metadata", "status", "involvedObject", "source"):
            part = obj.get(section)
            if part is None or type(part) is dict:
                for field in PEEKED:
                    assert exact(item.peek(section, field)) == exact((part or {}).get(field))
        last = item.restamped(77)
        last.cause = 78
        assert (last.key, last.rev, last.created, last.cause) == (KEY, 77, item.created, 78)
        restamped = {**obj, "metadata": {**obj["metadata"], "resourceVersion": "77"}}
        assert exact(last.obj) == exact(restamped)


@given(events())
def test_what_another_took_the_place_of_reads_as_it_was_written(obj: dict[str, Any]) -> None:
    packer = Packer({}, young_max=0)
    obj["metadata"]["resourceVersion"] = "1"
    written, item = exact(obj), packer.item(KEY, obj, 1, 1)
    packer.item(KEY, {"metadata": {"name": "web.1"}}, 2, 1)
    assert type(item) is PastItem
    assert exact(item.obj) == written


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
    assert isinstance(first, PackedItem) and isinstance(second, PackedItem)
    assert first._shape is second._shape and first._akin is second._akin and first._rest is second._rest
    assert first.obj["source"] is second.obj["source"] is source
    assert [first.obj["metadata"], second.obj["metadata"]] == [
        {"name": "a", "resourceVersion": "1"},
        {"name": "b", "resourceVersion": "2"},
    ]


def test_items_are_packed_in_parts_and_the_youngest_wait() -> None:
    store, items, packed = MemoryStore(lambda: 7), [], [0]
    store.pack("//events/", young_max=2 * PART_MAX)
    for number in range(5 * PART_MAX):
        name = f"e{number}"
        done = store.put(f"//events/default/{name}", {"kind": "Event", "metadata": {"name": name}}, 0)
        assert isinstance(done, Item)
        items.append(done)
        packed.append(sum(type(each) is PackedItem for each in items))
    assert {after - before for before, after in pairwise(packed)} == {0, PART_MAX}
    assert packed[-1] == 2 * PART_MAX


def test_field_of_any_form_is_restored() -> None:
    obj = {
        "metadata": {
            "name": "web.1",
            "uid": UID,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "resourceVersion": "1",
        },
        "message": "started web on node-1",
        "status": {
            "podIP": "10.128.2.3",
            "containerStatuses": [{"name": "app", "containerID": CONTAINER_ID}],
        },
    }
    item = YoungItem(KEY, obj, 1, 1)
    Packer({}).pack([item])
    assert isinstance(item, PackedItem) and exact(item.obj) == exact(obj)
    assert len(item._data) == 12 + 4 + 4 + 16 + 32 and item._rest == ("started \0 on node-1", "app")


@st.composite
def told(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "kind": "Event",
        "metadata": {
            "name": "",
            "namespace": "default",
            "uid": draw(st.just(UID) | values),
            "resourceVersion": "",
        },
        "involvedObject": {"kind": draw(scalars), "uid": draw(scalars | formed)},
        "reason": draw(scalars),
        "message": draw(values),
    }


@given(st.data())
def test_an_event_cast_from_its_values_reads_as_one_that_was_put(data: st.DataObject) -> None:
    store, other = MemoryStore(lambda: 0), MemoryStore(lambda: 0)
    store.pack("//events/", data.draw(st.integers(0, 2)))
    pattern, items = None, []
    for number in range(data.draw(st.integers(1, 8))):
        key = f"//events/default/web.{number}"
        event = data.draw(told())
        event["metadata"]["name"] = key.rpartition("/")[2]
        flat = [*event.values(), *event["metadata"].values(), *event["involvedObject"].values()]
        item = None if pattern is None else store.cast(key, pattern, flat)
        if item is None:
            put = store.put(key, {**event, "metadata": {**event["metadata"]}}, 0)
            assert isinstance(put, Item)
            item, pattern = put, store.pattern(put)
            assert type(item) is YoungItem
        like = other.put(key, event, 0)
        assert isinstance(like, Item)
        items.append((item, like))
        for item, like in items:  # young and old
            assert exact(item.obj) == exact(like.obj) and (item.rev, item.created) == (like.rev, like.created)
            assert exact(item.peek("metadata", "uid")) == exact(like.peek("metadata", "uid"))
            assert exact(item.restamped(99).obj) == exact(like.restamped(99).obj)
            assert (item.restamped(99).rev, item.restamped(99).created) == (99, like.created)
            item.cause = item.rev + 7
        assert [item.cause - item.rev for item, _ in items] == [7] * len(items)
        assert store.get(key) is items[-1][0] and store.revision == other.revision
