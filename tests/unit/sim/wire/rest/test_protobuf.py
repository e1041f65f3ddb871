"""Requests, lists and watches in protobuf, with JSON where a kind has no such form."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.messages.protobuf import decode_answer
from sim.api.messages.protobuf_encode import encode, envelope, frame, items_message, message
from sim.api.types import Request, UserInfo, WatchEvent
from sim.app.daemons.connection import is_packed
from sim.errors import InputError
from sim.ident import NAMES
from sim.wire.rest.addresses import packed, target_of
from sim.wire.rest.answers import events_of, whole_of
from tests.unit.sim.wire.rest.fake_server import (
    OPENED,
    SCHEME,
    Asked,
    Stream,
    answer,
    event,
    piece,
    pod,
    pods,
    world,
)

N = NAMES["kubernetes"]
PODS = SCHEME.resource("pods")
MEDIA = N.media_protobuf


def whole(name: str, revision: int) -> dict[str, Any]:
    made = {"apiVersion": "v1", "kind": "Pod", **pod(name, revision), "status": {}}
    made["metadata"]["creationTimestamp"] = None
    containers = [{"name": "c", "resources": {}}]  # the struct that Go's JSON always has
    return {**made, "spec": {"nodeName": "n", "containers": containers}}


def list_of(*names: str) -> bytes:
    items = [message(whole(name, 10), N) for name in names]
    return envelope("v1", "PodList", items_message({"resourceVersion": "10", "continue": "c"}, items))


async def test_lists_and_watches_in_protobuf_are_those_of_json() -> None:
    framed = OPENED.replace(b"application/json", f"{MEDIA};stream=watch".encode())
    first, second = (frame("ADDED", encode(whole(name, 11), N)) for name in ("b", "c"))

    async def reply(asked: Asked, stream: Stream) -> None:
        assert asked.header("accept") == f"{MEDIA}, */*"
        if "watch=true" in asked.path:
            await stream.send_all(framed + piece(first + second[:9]) + piece(second[9:]) + b"0\r\n\r\n")
        else:
            await stream.send_all(answer(200, list_of("a"), kind=MEDIA))

    async with world(reply, packed=True) as found:
        listed = await found.ask()
        assert listed.items is not None and [item.obj for item in listed.items] == [whole("a", 10)]
        assert (listed.revision, listed.more) == (10, "c")
        watch = (await found.ask("watch")).watch
        assert watch is not None
        events: list[WatchEvent] = []
        watch.attach(lambda: events.extend(watch.take()))
        await found.until(lambda: watch.ended)
        assert [each.item.obj for each in events if each.item] == [whole("b", 11), whole("c", 11)]


@pytest.mark.parametrize(
    ("packed", "given", "accept"),
    [
        (False, "", "application/json, */*"),
        (False, f"{MEDIA},application/json", f"{MEDIA},application/json"),
        (True, "application/json", "application/json"),
    ],
)
@pytest.mark.parametrize("kind", ["application/json", MEDIA])
async def test_answers_are_read_by_their_type_not_by_what_was_accepted(
    packed: bool, given: str, accept: str, kind: str
) -> None:
    asked_for: list[str] = []
    obj = whole("b", 11)

    async def reply(asked: Asked, stream: Stream) -> None:
        asked_for.append(asked.header("accept"))
        in_protobuf = kind == MEDIA
        if "watch=true" in asked.path:
            data = frame("ADDED", encode(obj, N)) if in_protobuf else event("ADDED", obj)
            await stream.send_all(OPENED.replace(b"application/json", kind.encode()))
            await stream.send_all(piece(data) + b"0\r\n\r\n")
        else:
            await stream.send_all(answer(200, list_of("a"), kind=MEDIA) if in_protobuf else pods("a"))

    async with world(reply, packed=packed, accepted=given) as found:
        listed = await found.ask()
        assert [item.obj["metadata"]["name"] for item in listed.items or ()] == ["a"]
        watch = (await found.ask("watch")).watch
        assert watch is not None
        events: list[WatchEvent] = []
        watch.attach(lambda: events.extend(watch.take()))
        await found.until(lambda: watch.ended)
        assert [each.item.obj for each in events if each.item] == [obj]
    assert asked_for == [accept, accept]


async def test_a_refusal_in_protobuf_has_its_status() -> None:
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict"}

    async def reply(_: Asked, stream: Stream) -> None:
        await stream.send_all(answer(409, encode({**status, "message": "m"}, N), kind=MEDIA))

    async with world(reply, packed=True) as found:
        refused = await found.ask()
        assert (refused.code, refused.reason, refused.message) == (409, "Conflict", "m")


@pytest.mark.parametrize("data", [b"", b"k8s\x00\xff", b"k8s\x00", b"{}", list_of("a")[:-3]])
async def test_bytes_that_are_no_message_are_an_error_reply(data: bytes) -> None:
    async def reply(_: Asked, stream: Stream) -> None:
        await stream.send_all(answer(200, data, kind=MEDIA))

    async with world(reply, packed=True) as found:
        assert "unable to decode" in (await found.ask()).message


@pytest.mark.parametrize("bad", [b"\xff", b"\x0a\x05ADDED", frame("ADDED", b"nothing")[4:]])
def test_frames_end_with_an_error_where_one_is_no_event(bad: bytes) -> None:
    good = frame("ADDED", encode(whole("a", 1), N))
    data = good + len(bad).to_bytes(4, "big") + bad + good
    assert whole_of(data[:-1], framed=True) == len(data) - len(good)
    assert [each.type for each in events_of(SCHEME, PODS, data, framed=True)] == ["ADDED", "ERROR"]


def test_json_inside_of_a_message_is_read() -> None:
    revision = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        **pod("a", 1),
        "data": {"spec": {"x": 1}},
    }
    data = frame("ADDED", encode(revision, N))
    [event] = events_of(SCHEME, SCHEME.resource("controllerrevisions"), data, framed=True)
    assert event.item is not None and event.item.obj["data"] == revision["data"]


def write(body: Any, resource: str = "pods", content_type: str = "application/json") -> Request:
    return Request(verb="create", resource=resource, body=body, content_type=content_type, user=UserInfo("u"))


def test_bodies_are_packed_if_their_kind_has_a_message() -> None:
    request = write(whole("a", 1))
    made = packed(N, target_of(request), request.body)
    assert (made.content_type, decode_answer(made.body, N.upstream_group)) == (MEDIA, whole("a", 1))


@pytest.mark.parametrize(
    "request_",
    [
        write({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}),
        write({"metadata": {"name": "a"}}),
        write([{"op": "remove", "path": "/a"}], content_type="application/json-patch+json"),
        write(b"bytes"),
    ],
)
def test_bodies_without_a_message_stay_as_they_are(request_: Request) -> None:
    target = target_of(request_)
    assert packed(N, target, request_.body) is target


def test_a_content_type_is_json_or_protobuf() -> None:
    assert [is_packed(N, each) for each in ("", "application/json", MEDIA)] == [False, False, True]
    with pytest.raises(InputError, match="no serializer for 'text/plain'"):
        is_packed(N, "text/plain")
