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

from sim.api import status
from sim.api.aggregation.failures import shown_text
from sim.api.go.media_types import parse_media_type
from sim.api.schema.json_text import syntax_error, unread_head
from sim.api.types import Json, Obj

OK, PARTIAL = 200, 206
JSON = "application/json"
LoadYaml = Callable[[bytes], Json]


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
    return status.generic(code, shown_text(content_type, body))


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
        return None, unread_head(problem)
