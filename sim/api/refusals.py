"""Refusals of requests, and the type of the steps that a verb consists of.

A rule anywhere in the API machinery raises a `Refusal`; its Status is the whole answer.

Mirrors  apimachinery v1.25 pkg/api/errors/errors.go.
"""

from __future__ import annotations

from collections.abc import Generator

from sim.api.store import Answer, Op
from sim.api.types import Json, Obj, Reply
from sim.units import go_quote

Steps = Generator[Op, Answer, Reply]
GENERIC = {
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


def generic(code: int, said: str) -> str:
    """The text for an answer of a code that explains itself no further (NewGenericServerResponse).

    said: its text, "unknown" if that cannot be shown
    """
    if code in (403, 415) or (code == 406 and said not in ("", "unknown")):
        return said  # it names the user and the action, or the media types
    if code in GENERIC:
        return GENERIC[code]
    if code >= 500:
        return f"an error on the server ({go_quote(said)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


class Refusal(Exception):
    """Raised by a verb to refuse its request with a Status."""

    def __init__(self, code: int, reason: str, message: str, details: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.body: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            **({"reason": reason} if reason else {}),
            **({"details": details} if details is not None else {}),
            "code": code,
        }

    @classmethod
    def of(cls, body: Obj) -> Refusal:
        """A refusal with a Status that exists already."""
        refusal = cls(body["code"], "", body.get("message", ""))
        refusal.body = body
        return refusal

    def reply(self, warnings: tuple[str, ...] = ()) -> Reply:
        """The refusal as a reply, with a Retry-After header if the Status has one."""
        details = self.body.get("details") or {}
        after = details.get("retryAfterSeconds", 0)
        headers = {"Retry-After": str(after)} if after else {}
        return Reply(self.code, body=self.body, headers=headers, warnings=warnings)


def bad_request(text: str) -> Refusal:
    """The refusal of a malformed request."""
    return Refusal(400, "BadRequest", text)


def nested_too_deep() -> Refusal:
    """The refusal of a body from inside of the process that nests deeper than code can follow; text
    is refused before.
    """
    return bad_request("the object provided is unrecognized: json parse error: exceeded max depth")


def internal(text: str) -> Refusal:
    """A 500 without a reason, which upstream gives for some mistakes of clients."""
    return Refusal(500, "", text)


def method_not_allowed() -> Refusal:
    """The refusal of a verb that the resource does not support."""
    text = GENERIC[405]
    return Refusal(405, "MethodNotAllowed", text, {})


def no_such_resource() -> Refusal:
    """The refusal of a path that no resource has."""
    return Refusal(404, "NotFound", GENERIC[404], {})
