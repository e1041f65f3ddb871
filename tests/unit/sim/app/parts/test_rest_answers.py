"""Answers of servers as Go's REST client reads them."""

import pytest

from sim.api.types import Json
from sim.app.parts.rest_answers import read_answer


def load_yaml(body: bytes) -> Json:
    """A reader that knows one kind of document."""
    if body == b"?":
        raise ValueError("yaml: no")
    return {"yaml": body.decode()}


STATUS = b'{"kind": "Status", "status": "Failure", "message": "no room"}'
JSON, TEXT = "application/json", "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("code", "media", "body", "problem"),
    [
        (500, TEXT, b"boom\n", 'an error on the server ("boom") has prevented the request from succeeding'),
        (500, JSON, b"{}", 'an error on the server ("unknown") has prevented the request from succeeding'),
        (507, JSON, STATUS, "no room"),
        (404, TEXT, b"page", "the server could not find the requested resource"),
        (403, TEXT, b"not you", "not you"),
        (302, TEXT, b"", "the server responded with the status code 302 but did not return more information"),
        (415, JSON, b"{}", "unknown"),
        (406, TEXT, b"take cbor", "take cbor"),
        (500, TEXT, b"", 'an error on the server ("") has prevented the request from succeeding'),
        (
            410,
            JSON,
            b"{}",
            "the server responded with the status code 410 but did not return more information",
        ),
        (500, "", b"boom", 'an error on the server ("boom") has prevented the request from succeeding'),
        (200, ";;", b"{}", "Internal error occurred: mime: no media type"),
        (200, "a b; c", b"{}", "Internal error occurred: mime: expected slash after first token"),
        (200, "a/", b"{}", "Internal error occurred: mime: expected token after slash"),
        (200, TEXT, b"?", "yaml: no"),
        (200, TEXT, b"", f"0-length response with status code: 200 and content type: {TEXT}"),
        (
            200,
            TEXT,
            b'{"a" 1}',
            "couldn't get version/kind; json parse error: invalid character '1' after object key",
        ),
    ],
)
def test_answer_without_a_value_is_reported_as_upstream(
    code: int, media: str, body: bytes, problem: str
) -> None:
    assert read_answer(code, media, body, load_yaml) == (None, problem)


def test_answer_of_success_is_its_value() -> None:
    assert read_answer(201, JSON, b'{"kind": "X", "a": [1]}', load_yaml) == ({"kind": "X", "a": [1]}, "")
    assert read_answer(200, JSON, b"a: 1", load_yaml) == ({"yaml": "a: 1"}, "")
