"""Messages and frames: what is sent arrives equal, what is no message is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.api.store import Item, Managed
from sim.api.types import Reply, Request, UserInfo, WatchEvent
from sim.wire import frames

USER = UserInfo("system:node:n1", ("system:nodes", "system:authenticated"), "u", {"scopes": ("a", "b")})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def pod(name: str, rev: int, size: int = 0) -> Item:
    obj = {"kind": "Pod", "metadata": {"name": name, "resourceVersion": str(rev)}, "data": "x" * size}
    return Item(f"//pods/d/{name}", obj, rev, rev - 1, (Managed("m", "Update", "v1", 0, {}),))


def told(bodies: list[bytes]) -> list[frames.ToClient]:
    return [frames.read_from_server(body) for body in bodies]


def read_reply(bodies: list[bytes]) -> Reply:
    *parts, last = told(bodies)
    assert isinstance(last, frames.Answer)
    items = [item for part in parts if isinstance(part, frames.Part) for item in part.items]
    return frames.reply_of(last, items)


def same(one: Item, other: Item) -> bool:
    return (one.key, one.obj, one.rev, one.created) == (other.key, other.obj, other.rev, other.created)


@settings(max_examples=40)
@given(JSON, st.dictionaries(st.text(), st.text()))
def test_a_request_arrives_as_it_was_sent_but_for_its_cause(body: object, options: dict[str, str]) -> None:
    request = Request(
        verb="update",
        resource="pods",
        namespace="d",
        name="p",
        options=options,
        body=body,
        user=USER,
        cause=7,
    )
    read = frames.read_from_client(frames.ask(3, request))
    assert isinstance(read, frames.Ask) and read.call == 3
    assert read.request == msgspec.structs.replace(request, cause=0)


def test_a_raw_body_stays_bytes() -> None:
    request = Request(verb="create", resource="pods", body=b'{"a": 1}', user=USER)
    read = frames.read_from_client(frames.ask(1, request))
    assert isinstance(read, frames.Ask) and read.request.body == b'{"a": 1}'


@settings(max_examples=40)
@given(JSON)
def test_a_reply_without_objects_arrives_as_it_was_sent(body: object) -> None:
    reply = Reply(
        429, body=body, warnings=("w",), headers={"Retry-After": "1"}, revision=5, more="t", remaining=2
    )
    assert read_reply(frames.answer(1, reply)) == reply
    lost = Reply(0, lost="ConnectionReset")
    assert read_reply(frames.answer(1, lost)) == lost


def test_an_object_arrives_without_its_ownership() -> None:
    item = pod("a", 5)
    read = read_reply(frames.answer(1, Reply(200, item=item)))
    assert read.item is not None and same(read.item, item) and read.item.managed == ()


def test_an_empty_list_is_a_list_and_no_list_is_none() -> None:
    assert read_reply(frames.answer(1, Reply(200, items=[]))).items == []
    assert read_reply(frames.answer(1, Reply(200))).items is None


def test_a_long_list_comes_in_parts_no_longer_than_their_bound() -> None:
    items = [pod(f"p{n}", n + 1, size=200_000) for n in range(23)]
    bodies = frames.answer(1, Reply(200, items=items, revision=99))
    assert len(bodies) == 5 and max(map(len, bodies)) <= frames.PART_BYTES + 1000
    read = read_reply(bodies)
    assert read.items is not None and all(map(same, read.items, items)) and read.revision == 99


def test_an_answer_too_long_for_a_frame_is_an_error() -> None:
    bodies = frames.answer(1, Reply(200, body="x" * (frames.FROM_SERVER_MAX + 1)))
    assert read_reply(bodies).code == 500 and sum(map(len, bodies)) < 1000


def test_object_is_encoded_once_for_all_receivers() -> None:
    item = pod("a", 5)
    frames.events(1, [WatchEvent("ADDED", item, 5)], False)
    assert item.raw is not None
    item.raw[frames.RAW_KEY] = msgspec.msgpack.encode(frames.WireItem("k", {"mark": 1}, 5, 4))
    read = read_reply(frames.answer(1, Reply(200, item=item)))
    assert read.obj == {"mark": 1}


def test_events_arrive_in_order_in_parts_and_the_end_comes_last() -> None:
    batch = [WatchEvent("ADDED", pod(f"p{n}", n + 1, 300_000), n + 1, None, 44) for n in range(10)]
    batch += [WatchEvent("BOOKMARK", None, 90), WatchEvent("ERROR", None, 0, {"code": 410})]
    read = told([*frames.events(2, batch, False), *frames.events(2, [], True)])
    assert len(read) > 3 and all(isinstance(one, frames.Events) for one in read)
    assert [one.ended for one in read if isinstance(one, frames.Events)] == [False] * (len(read) - 1) + [True]
    back = [frames.event_of(e) for one in read if isinstance(one, frames.Events) for e in one.events]
    assert [(e.type, e.revision, e.status, e.cause) for e in back] == [
        (e.type, e.revision, e.status, 0) for e in batch
    ]


@settings(max_examples=40)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_raise_frame_error_and_nothing_else(data: bytes) -> None:
    for read in (frames.read_from_client, frames.read_from_server):
        try:
            read(data)
        except frames.FrameError:
            pass


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91\xa3ask",
        msgspec.msgpack.encode(["ask", 1, {"verb": "get"}]),
        msgspec.msgpack.encode(["ask", "1", {}]),
        msgspec.msgpack.encode(["tell", 1]),
        b"\x93\xa3ask\x01" + b"\x91" * 100_000,
        b"\x93\xa3ask\x01\x81\xa4body" + b"\x91" * 100_000,
    ],
)
def test_a_malformed_message_is_a_frame_error(data: bytes) -> None:
    with pytest.raises(frames.FrameError):
        frames.read_from_client(data)


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(0, 60), max_size=20))
def test_frames_are_cut_out_of_a_stream_however_it_is_cut_up(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frames.framed, bodies))
    reader, got, at = frames.FrameReader(50), [], 0
    for cut in [*cuts, len(stream)]:
        got += reader.feed(stream[at : at + cut])
        at += cut
    assert got == bodies and not reader.broken_off


def test_a_frame_beyond_the_bound_is_refused_before_it_has_come() -> None:
    reader = frames.FrameReader(10)
    stream = reader.feed(frames.framed(b"x" * 10) + (11).to_bytes(4, "big"))
    assert next(stream) == b"x" * 10
    with pytest.raises(frames.FrameError, match="11 bytes"):
        next(stream)


def test_a_stream_that_ends_within_a_frame_is_seen() -> None:
    reader = frames.FrameReader(10)
    assert list(reader.feed(frames.framed(b"abc")[:-1])) == [] and reader.broken_off
