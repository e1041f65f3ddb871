"""Answers of a server as replies and events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sim.api.scheme.scheme import Scheme
from sim.api.types import Request, UserInfo
from sim.ident import NAMES
from sim.wire.rest.answers import events_of, parts_of, reply_of

SCHEME = Scheme(NAMES["kubernetes"])
POD: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "a", "resourceVersion": "7", "managedFields": [{"manager": "x"}]}
}


def ask(verb: Any = "get", **more: Any) -> Request:
    return Request(verb=verb, resource="pods", namespace="a", name="web", user=UserInfo("u"), **more)


def test_an_object_is_an_item_with_its_kind_and_without_managed_fields() -> None:
    reply = reply_of(SCHEME, ask(), 200, {}, json.dumps({"kind": "Pod", "apiVersion": "v1", **POD}).encode())
    assert reply.item is not None
    assert (reply.item.key, reply.item.rev) == ("//pods/a/web", 7)
    metadata = {"name": "web", "namespace": "a", "resourceVersion": "7"}
    assert reply.item.obj == {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}


def test_items_of_lists_get_the_kind_that_the_list_leaves_out() -> None:
    body = {"kind": "PodList", "metadata": {"resourceVersion": "9", "continue": "more"}, "items": [POD]}
    reply = reply_of(SCHEME, ask("list"), 200, {}, json.dumps(body).encode())
    assert reply.items is not None
    assert [item.obj["kind"] for item in reply.items] == ["Pod"]
    assert (reply.revision, reply.more) == (9, "more")


def test_what_has_no_revision_is_a_body() -> None:
    review = {"kind": "TokenRequest", "metadata": {"name": "web"}, "status": {"token": "t"}}
    assert reply_of(SCHEME, ask("create"), 201, {}, json.dumps(review).encode()).body == review


@pytest.mark.parametrize(
    ("code", "body", "reason", "message"),
    [
        (409, b'{"kind":"Status","status":"Failure","reason":"AlreadyExists","message":"m"}', "AlreadyExists", "m"),
        (403, b"not you", "Forbidden", "not you (get pods web)"),
        (404, b"", "NotFound", "the server could not find the requested resource (get pods web)"),
    ],
)  # fmt: skip
def test_refusals_have_reason_and_message_with_any_body(
    code: int, body: bytes, reason: str, message: str
) -> None:
    reply = reply_of(SCHEME, ask(), code, {"retry-after": "3"}, body)
    assert (reply.code, reply.reason, reply.message) == (code, reason, message)
    assert reply.headers == {"Retry-After": "3"}


def test_events_end_with_an_error_where_a_line_is_no_event() -> None:
    lines = [
        json.dumps({"type": "ADDED", "object": POD}),
        json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}),
        "<html>",
        json.dumps({"type": "DELETED", "object": POD}),
    ]
    events = events_of(SCHEME, SCHEME.resource("pods"), "\n".join(lines).encode())
    assert [(event.type, event.revision) for event in events] == [("ADDED", 7), ("BOOKMARK", 8), ("ERROR", 0)]
    text = "unable to decode an event from the watch stream: <html>"
    shown = f'an error on the server ("{text}") has prevented the request from succeeding'
    assert (events[2].status["code"], events[2].status["message"]) == (500, shown)
    causes = [(each["reason"], each["message"]) for each in events[2].status["details"]["causes"]]
    assert causes == [("UnexpectedServerResponse", text), ("ClientWatchDecoding", text)]


def test_parts_of_a_watch_are_its_whole_lines_or_frames() -> None:
    lines, frames = [b'{"a":1}\n', b'{"b":2}\n'], [b"\0\0\0\2a\n", b"\0\0\0\1b"]
    assert parts_of(b"".join(lines), framed=False) == lines
    assert parts_of(b"".join(frames), framed=True) == frames
