"""The failure that upstream's client makes of an answer without success.

Turns the code, the headers and the body of an answer into its Status, or into one in its place.

Mirrors  client-go v1.25 rest/request.go (transformResponse, newUnstructuredResponseError,
         isTextResponse, retryAfterSeconds, Result.Error).
Differs  the answer to a watch keeps its Status; upstream's client of v1.25 reads none there.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.api import status
from sim.api.go.media_types import parse_media_type
from sim.api.schema.field_schemas import META, schema_of
from sim.api.schema.field_validation import DecodeError, conform
from sim.api.types import METHODS, Json, Obj, Request
from sim.patterns import pattern

TEXT_MAX = 2048  # bytes of a text that the client shows
UNEXPECTED = "UnexpectedServerResponse"
_NUMBER = pattern(r"[+-]?[0-9]{1,9}")


def shown_text(content_type: str, body: bytes) -> str:
    """The text of an answer, "unknown" if its type is none of texts.  content_type: "" for none"""
    if content_type and not parse_media_type(content_type)[0].startswith("text/"):
        return "unknown"
    return body[:TEXT_MAX].decode("utf-8", "replace").strip()


def failure_of(request: Request, code: int, headers: Mapping[str, str], body: bytes, value: Json) -> Obj:
    """The failure of an answer.

    headers: their names are in small letters
    value: the body as JSON or protobuf has it; anything but a mapping if it is neither
    """
    content_type = headers.get("content-type", "")
    media, problem = parse_media_type(content_type) if content_type else ("", "")
    if problem:
        return status.internal_error(problem)
    if not media.startswith("text/") and _is_failure(value):
        return dict(value)
    after = headers.get("retry-after", "")
    return status.generic_response(
        code,
        shown_text(content_type, body),
        method=METHODS[request.verb],
        group=request.group if request.resource else "",
        resource=request.resource,
        name=request.name,
        retry_after_s=int(after) if _NUMBER.fullmatch(after) else 0,
        causes=(UNEXPECTED,),
    )


def _is_failure(value: Json) -> bool:
    """True for a Status of a failure.  One that names no version is of the first."""
    if not isinstance(value, dict) or value.get("kind") != "Status" or value.get("status") != "Failure":
        return False
    made, _ = conform(schema_of(f"{META}Status"), value, "Status")
    return value.get("apiVersion") in (None, "", "v1") and not isinstance(made, DecodeError)
