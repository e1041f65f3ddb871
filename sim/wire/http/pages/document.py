"""What a page is: its bytes, or a value that is rendered in the form that the client asks for.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from sim.dataclass import dataclass
from sim.wire.http.forms.rendering import TEXT

NOT_FOUND = b"404 page not found\n"


@dataclass(frozen=True, slots=True)
class Document:
    """A document outside of the resources.

    value: to be rendered in the negotiated form; alternatively raw bytes of one type
    routed: True if the route evaluates Accept
    json_only: True if JSON is the only form, even if the client prefers another
    headers: in addition to, or in place of, those of all answers
    etag: entity tag without its quotes; "" if the document has none
    parted: True if it is served with the time of its change, and in parts
    unchanging: True if clients may keep it for a year
    vary: headers of the request that decide about the answer
    compressed: from how many bytes on the answer is compressed for clients that accept it; 0: never
    """

    code: int = 200
    value: Any = None
    raw: bytes = b""
    media: str = ""
    routed: bool = True
    json_only: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    etag: str = ""
    parted: bool = False
    unchanging: bool = False
    vary: tuple[str, ...] = ()
    compressed: int = 0


# net/http server.go (Error) and healthz.go set it.
NO_SNIFF = {"X-Content-Type-Options": "nosniff"}
NO_PAGE = Document(404, raw=NOT_FOUND, media=TEXT, headers=NO_SNIFF)


def refused(body: dict[str, Any]) -> Document:
    """The document of a refusal."""
    return Document(body["code"], body)
