"""A request in flight: the state that a server keeps of it until it is answered."""

from __future__ import annotations

from collections.abc import Callable

from actors.apiserver.handlers import READS
from actors.apiserver.lifecycle.stepwise import Stepwise
from sim.api.audit.events import Record
from sim.api.types import Reply, Request
from sim.units import parse_duration_us

# pkg/server/filters/wrap.go
OnError = Callable[[Request, Exception], None]


def allowed_us(request: Request, most_us: int) -> int:
    """How long a request may take: its own time-out if that is shorter (request_deadline.go)."""
    text = request.options.get("timeout", "")
    if not text or request.verb == "watch":
        return most_us
    try:
        wanted_us = parse_duration_us(text)
    except ValueError:  # which the HTTP front refuses
        return most_us
    return wanted_us if 0 < wanted_us < most_us else most_us


class Flight:
    """One request in flight.

    outside: called with an internal error; given for a client outside of virtual time
    seated: True if it has a seat or waits for one
    arrived_us: when it reached the server
    until_us: when it is answered with 504, or for a watch, by when it must have begun
    record: its audit record, None if it is not audited here
    began_us: when its service began after it had waited
    asked: True once it has waited for a service that judges it
    """

    __slots__ = (
        "arrived_us",
        "asked",
        "began_us",
        "mutating",
        "outside",
        "record",
        "request",
        "respond",
        "seated",
        "steps",
        "until_us",
    )

    def __init__(
        self,
        request: Request,
        respond: Callable[[Reply], None],
        outside: OnError | None,
        arrived_us: int,
    ) -> None:
        self.request = request
        self.arrived_us = arrived_us
        self.respond: Callable[[Reply], None] | None = respond
        self.outside = outside
        self.mutating = request.verb not in READS
        self.seated = self.asked = False
        self.steps: Stepwise | None = None
        self.until_us = self.began_us = 0
        self.record: Record | None = None
