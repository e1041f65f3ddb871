"""Requests to the servers of an agent, and their answers.  Pure.

Holds: an answer has a body or a stream, which its sender opens (`actors.node.server.sessions`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from sim.api.streams import StreamRequest
from sim.api.types import UserInfo
from sim.dataclass import dataclass

PLAIN, JSON = "text/plain; charset=utf-8", "application/json"
NOT_FOUND = "404 page not found\n"  # golang net/http: NotFound
NO_ROUTE, WRONG_METHOD = "404: Page Not Found", "405: Method Not Allowed"  # go-restful


class Port(Enum):
    """The servers of an agent: with authentication, for reads only, and for its health."""

    MAIN = "main"
    READ_ONLY = "read-only"
    HEALTHZ = "healthz"


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """One request.

    path: decoded; query: pairs in their order
    token: of the header Authorization, "" for none
    certificate: the subject of a verified client certificate
    upgrade: True if the client wants to change the protocol
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    port: Port = Port.MAIN
    token: str = ""
    certificate: UserInfo | None = None
    upgrade: bool = False

    def first(self, name: str) -> str:
        """The first value of a parameter, "" without one."""
        return next((value for key, value in self.query if key == name), "")

    def all(self, name: str) -> tuple[str, ...]:
        """All values of a parameter."""
        return tuple(value for key, value in self.query if key == name)


@dataclass(frozen=True, slots=True)
class AgentResponse:
    """One answer.  media: the type of the body; stream: what is opened in place of a body"""

    code: int
    body: bytes = b""
    media: str = PLAIN
    stream: StreamRequest | None = None
    location: str = ""


Respond = Callable[[AgentResponse], None]


def text(code: int, body: str) -> AgentResponse:
    """A plain text without a line feed of its own."""
    return AgentResponse(code, body.encode())


def error(code: int, body: str) -> AgentResponse:
    """A plain text with a line feed (golang net/http: Error)."""
    return text(code, f"{body}\n")


def json(value: object, indent: int = 0) -> AgentResponse:
    """A JSON document.  indent: spaces of a level; 0: in one line"""
    encoded = msgspec.json.encode(value)
    return AgentResponse(200, msgspec.json.format(encoded, indent=indent) if indent else encoded, JSON)
