"""Answers of HTTP servers as Go's REST client reads them.

Turns the code, the content type and the body of an answer into a JSON value, or into the text of
the error that callers report.  A body is JSON or YAML, under any content type.

Mirrors  kubernetes v1.25 client-go rest/request.go (transformResponse,
         newUnstructuredResponseError, Result.Into, Result.Error), apimachinery
         pkg/api/errors/errors.go (NewGenericServerResponse).
Differs  a Status with an empty message in an answer of code 4xx or 5xx is no failure of the call;
         YAML nests 500 deep at most.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sim.api.go.media_types import parse_media_type
from sim.api.schema.json_text import go_quote, syntax_error
from sim.api.types import Json, Obj

TEXT_MAX = 2048  # bytes of a text that the client shows
OK, PARTIAL, SERVER_ERROR, FORBIDDEN, UNSUPPORTED = 200, 206, 500, 403, 415
JSON = "application/json"
LoadYaml = Callable[[bytes], Json]
_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, "
    "but may still be processing the request",
}


def read_answer(code: int, content_type: str, body: bytes, load_yaml: LoadYaml) -> tuple[Json, str]:
    """The value of an answer, or None and the text of the error.

    content_type: "" if the answer has none
    load_yaml: reads a body that does not begin as JSON; raises ValueError
    """
    problem = parse_media_type(content_type)[1] if content_type else ""
    if problem:
        return None, f"Internal error occurred: {problem}"
    if not OK <= code <= PARTIAL:
        return None, _refused(code, content_type, body, load_yaml)
    if not body:
        shown = f"status code: {code} and content type: {content_type or JSON}"
        return None, f"0-length response with {shown}"
    return _parsed(body, load_yaml)


def _refused(code: int, content_type: str, body: bytes, load_yaml: LoadYaml) -> str:
    value, problem = _parsed(body, load_yaml)
    if not problem and isinstance(value, dict) and _is_failure(value):
        message = value.get("message") or ""
        return message if isinstance(message, str) else ""
    is_text = not content_type or content_type.partition(";")[0].strip().lower().startswith("text/")
    said = body[:TEXT_MAX].decode(errors="replace").strip() if is_text else "unknown"
    if code in (FORBIDDEN, UNSUPPORTED):
        return said
    known = _TEXTS.get(code)
    if known is not None:
        return known
    if code >= SERVER_ERROR:
        return f"an error on the server ({go_quote(said or 'unknown')}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def _is_failure(value: Obj) -> bool:
    return value.get("kind") == "Status" and value.get("status") == "Failure"


def _parsed(body: bytes, load_yaml: LoadYaml) -> tuple[Json, str]:
    """The value of a body, or None and what is wrong with it."""
    if not body.lstrip().startswith(b"{"):
        try:
            return load_yaml(body), ""
        except ValueError as error:
            return None, str(error)
    try:
        return msgspec.json.decode(body), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        problem = syntax_error(body.decode(errors="replace"))
        return None, f"couldn't get version/kind; json parse error: {problem}"
