"""Failures that upstream's client makes of answers without success."""

import json
from typing import Any

import pytest

from sim.api.aggregation.failures import TEXT_MAX, failure_of
from sim.api.types import Request, UserInfo

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Own", "message": "m"}
AWAY = "the server is currently unable to handle the request (get flunders.g x)"
SILENT = "the server responded with the status code {} but did not return more information (get flunders.g x)"
FAILED = 'an error on the server ("{}") has prevented the request from succeeding (get flunders.g x)'
NO_MEDIA = "the server was unable to respond with a content type that the client supports (get flunders.g x)"


def failure(code: int, media: str, body: bytes, verb: Any = "get", **more: Any) -> dict[str, Any]:
    """The failure of an answer; more: headers and parts of the request"""
    headers = {"content-type": media} if media else {}
    headers |= {"retry-after": more.pop("after")} if "after" in more else {}
    request = Request(
        verb=verb, **{"resource": "flunders", "group": "g", "name": "x", "user": UserInfo("u"), **more}
    )
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    return failure_of(request, code, headers, body, value)


@pytest.mark.parametrize(
    ("code", "media", "body", "reason", "message"),
    [
        (503, TEXT, b" away\n", "ServiceUnavailable", AWAY),
        (404, "", b"", "NotFound", "the server could not find the requested resource (get flunders.g x)"),
        (410, TEXT, b"gone", "", SILENT.format(410)),
        (500, TEXT, b"boom\n", "InternalError", FAILED.format("boom")),
        (502, "", b"", "InternalError", FAILED.format("")),
        (502, JSON, b"{}", "InternalError", FAILED.format("unknown")),
        (403, TEXT, b"not you", "Forbidden", "not you (get flunders.g x)"),
        (403, JSON, b'{"a":1}', "Forbidden", "unknown (get flunders.g x)"),
        (415, TEXT, b"send cbor", "UnsupportedMediaType", "send cbor (get flunders.g x)"),
        (406, TEXT, b"take cbor", "NotAcceptable", "take cbor (get flunders.g x)"),
        (406, JSON, b"{}", "NotAcceptable", NO_MEDIA),
        (406, TEXT, b"", "NotAcceptable", NO_MEDIA),
        (409, TEXT, b"", "Conflict", "the server reported a conflict (get flunders.g x)"),
        (500, "a/", b"boom", "InternalError", "Internal error occurred: mime: expected token after slash"),
    ],
)
def test_answer_without_a_status_gets_that_of_upstream(
    code: int, media: str, body: bytes, reason: str, message: str
) -> None:
    made = failure(code, media, body)
    assert (made["code"], made.get("reason", ""), made["message"]) == (code, reason, message)


@pytest.mark.parametrize("media", ["", JSON, "application/vnd.kubernetes.protobuf"])
def test_status_of_a_failure_is_the_failure(media: str) -> None:
    for version in ("v1", ""):
        given = {**STATUS, "apiVersion": version}
        assert failure(404, media, json.dumps(given).encode()) == given


@pytest.mark.parametrize(
    ("media", "changed"),
    [
        (TEXT, {}),
        (JSON, {"status": "Success"}),
        (JSON, {"status": ""}),
        (JSON, {"kind": "Flunder"}),
        (JSON, {"apiVersion": "g/v1"}),
        (JSON, {"message": 5}),
    ],
)
def test_other_bodies_are_no_status(media: str, changed: dict[str, Any]) -> None:
    assert failure(404, media, json.dumps({**STATUS, **changed}).encode())["reason"] == "NotFound"


def test_conflict_of_a_create_is_an_existing_object() -> None:
    made = failure(409, TEXT, b"", "create", name="")
    assert (made["reason"], made["message"]) == (
        "AlreadyExists",
        "the server reported a conflict (post flunders.g)",
    )


@pytest.mark.parametrize(
    ("after", "details"),
    [("3", {"retryAfterSeconds": 3}), ("soon", {}), ("0", {}), ("²", {}), ("1.5", {})],
)
def test_details_name_the_object_the_pause_and_the_text(after: str, details: dict[str, Any]) -> None:
    causes = [{"reason": "UnexpectedServerResponse", "message": "busy"}]
    assert failure(429, TEXT, b"busy", after=after)["details"] == {
        "name": "x",
        "group": "g",
        "kind": "flunders",
        **details,
        "causes": causes,
    }


def test_answer_of_a_path_names_no_object() -> None:
    made = failure(404, TEXT, b"", resource="", name="")
    assert made["message"] == "the server could not find the requested resource"
    assert made["details"] == {"causes": [{"reason": "UnexpectedServerResponse"}]}


def test_long_texts_are_cut() -> None:
    assert failure(403, TEXT, b"x" * 5000, resource="", name="")["message"] == "x" * TEXT_MAX
