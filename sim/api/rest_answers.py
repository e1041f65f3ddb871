"""Answers of HTTP servers as Go's REST client reads them.

Turns the code, the content type and the body of an answer into a JSON value, or into the text of
the error that callers report.

Mirrors  kubernetes v1.25 client-go rest/request.go (transformResponse,
         newUnstructuredResponseError, Result.Into), apimachinery pkg/api/errors/errors.go
         (NewGenericServerResponse).
"""

from __future__ import annotations

from typing import Any

import msgspec

from sim.api.schema.json_text import go_quote, syntax_error
from sim.api.types import Json

TEXT_MAX = 2048  # bytes of a text that the client shows
OK, PARTIAL, SERVER_ERROR, FORBIDDEN = 200, 206, 500, 403
_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    410: "the server could not find the requested resource",
    415: "the body of the request was in an unknown format",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, "
    "but may still be processing the request",
}


def read_answer(code: int, content_type: str, body: bytes) -> tuple[Json, str]:
    """The value of an answer, or None and the text of the error."""
    if not OK <= code <= PARTIAL:
        return None, _refused(code, content_type, body)
    if not body:
        return None, f"0-length response with status code: {code} and content type: {content_type}"
    value, problem = _parsed(body)
    if problem:
        return None, f"couldn't get version/kind; json parse error: {problem}"
    if isinstance(value, dict) and value.get("kind") == "Status" and value.get("status") != "Success":
        return None, _message(value)
    return value, ""


def _refused(code: int, content_type: str, body: bytes) -> str:
    value, problem = _parsed(body)
    if not problem and isinstance(value, dict) and value.get("kind") == "Status":
        return _message(value)
    is_text = content_type.partition(";")[0].strip().lower().startswith("text/")
    said = body[:TEXT_MAX].decode(errors="replace").strip() if is_text else "unknown"
    if code == FORBIDDEN:
        return said
    known = _TEXTS.get(code)
    if known is not None:
        return known
    if code >= SERVER_ERROR:
        return f"an error on the server ({go_quote(said)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def _message(value: dict[str, Any]) -> str:
    message = value.get("message")
    return message if isinstance(message, str) and message else "unknown"


def _parsed(body: bytes) -> tuple[Json, str]:
    """The JSON value of a body, or None and what is wrong with it."""
    try:
        return msgspec.json.decode(body), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, syntax_error(body.decode(errors="replace"))
