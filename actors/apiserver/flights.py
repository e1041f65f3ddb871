"""Requests in flight: the state that a server keeps of each until it is answered, and their number."""

from __future__ import annotations

from collections.abc import Callable

from actors.apiserver.handlers import READS
from actors.apiserver.lifecycle.stepwise import Stepwise, Straight
from actors.apiserver.options import ApiServerOptions
from sim.api.audit.events import Record
from sim.api.types import Reply, Request
from sim.units import Virtual, parse_duration_us

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
    large: True if its steps may take long, so that they are done aside (`Aside`)
    counts: True while it counts as in flight
    works: True while its work is in the queue of the processors
    asked: True once it has waited for a service that judges it
    """

    __slots__ = (
        "arrived_us",
        "asked",
        "began_us",
        "counts",
        "large",
        "mutating",
        "outside",
        "record",
        "request",
        "respond",
        "seated",
        "steps",
        "until_us",
        "works",
    )

    def __init__(
        self,
        request: Request,
        respond: Callable[[Reply], None],
        outside: OnError | None,
        arrived_us: Virtual,
    ) -> None:
        self.request = request
        self.arrived_us = arrived_us
        self.respond: Callable[[Reply], None] | None = respond
        self.outside = outside
        self.mutating = request.verb not in READS
        self.seated = self.asked = self.works = self.counts = False
        self.steps: Stepwise | Straight | None = None
        self.large = False
        self.until_us = self.began_us = Virtual(0)
        self.record: Record | None = None


class Traffic:
    """The requests in flight, their number, and its limits.

    flights: the requests, by number
    limit: of reads and of writes, set by an overload fault; None without one
    extra_us: what such a fault adds to each request
    reading, writing, watching: requests in flight of each kind; a watch counts until it is open

    Mirrors  kubernetes v1.25 apiserver pkg/server/filters/maxinflight.go.
    """

    def __init__(self, options: ApiServerOptions, masters: str) -> None:
        self._options = options
        self._masters = masters
        self.flights: dict[int, Flight] = {}
        self.limit: int | None = None
        self.extra_us = 0
        self.reading = self.writing = self.watching = 0

    @property
    def in_flight(self) -> int:
        """The number of requests without watches."""
        return self.reading + self.writing

    @property
    def timed(self) -> bool:
        """True if each request takes time, by such a fault or of the server's processors."""
        return self.extra_us > 0 or self._options.capacity_nano > 0

    @property
    def limited(self) -> bool:
        """True if there is any limit."""
        own = self._options
        limits = (self.limit, own.max_requests_inflight, own.max_mutating_requests_inflight)
        return limits != (None, None, None)

    @property
    def full_of_writes(self) -> bool:
        """True if one more write would be refused."""
        bounds = (self.limit, self._options.max_mutating_requests_inflight)
        return any(bound is not None and self.writing >= bound for bound in bounds)

    def has_no_room(self, flight: Flight) -> bool:
        """Return True if too many requests are in flight.  The limits of the options exempt watches
        and members of system:masters; the limit of an overload fault exempts no request.
        """
        if self.limit is not None:
            kin = self.writing if flight.mutating else self.reading + self.watching
            if kin > self.limit:
                return True
        options, request = self._options, flight.request
        bound = options.max_mutating_requests_inflight if flight.mutating else options.max_requests_inflight
        if bound is None or request.verb == "watch" or self._masters in request.user.groups:
            return False
        return (self.writing if flight.mutating else self.reading) > bound

    def count(self, flight: Flight, more: int) -> None:
        """Count a request that begins (1) or ends (-1), each once."""
        if flight.counts is (more > 0):
            return
        flight.counts = more > 0
        if flight.mutating:
            self.writing += more
        elif flight.request.verb == "watch":
            self.watching += more
        else:
            self.reading += more

    def clear(self) -> list[Flight]:
        """Forget all requests, because the process has ended; returns those that were in flight."""
        self.reading = self.writing = self.watching = 0
        flights, self.flights = self.flights, {}
        return [*flights.values()]
