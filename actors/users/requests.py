"""Requests of users to a Service: what a client sends, and what becomes of one request.

Turns the answers of the cluster's DNS and of the network into the outcome of a request, with the
time that passes until then.

Mirrors  resolv.conf(5) with glibc's defaults: a server that does not answer is asked again after
         5 s, twice in all; what is refused is asked again at once.
Differs  a connection that gets no answer is not tried again before the client gives up, and an
         answer takes no time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum

from sim.dataclass import dataclass
from sim.units import SECOND

NAME_US, NAME_ATTEMPTS = 5 * SECOND, 2
OUTSIDE = "outside"


class Reach(Enum):
    """What a packet meets."""

    ANSWERS = "answers"
    REFUSES = "refuses"
    SILENT = "silent"  # there is no answer


class Outcome(Enum):
    """What becomes of a request."""

    ANSWERED = "answered"
    REFUSED = "refused"
    TIMED_OUT = "timed out"
    NO_NAME = "without a name"  # the cluster's DNS did not resolve it
    CUT_OFF = "cut off"  # its server ended, or was out of reach, while it worked on it


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """The requests of one step.

    service: namespace and name of the Service; port: its name or number, "" for the first
    source: OUTSIDE, the name of a node, or "" for the pods of a selection
    labels: of the pods that send in turn, in the namespace of the Service or in `namespace`
    gap_us: between two requests
    timeout_us: after which a client gives up
    dns: namespace and name of the Service that resolves names; None: the client has the address
    ttl_us: how long a client keeps a name
    takes_us: how long a server works on a request
    """

    service: tuple[str, str]
    gap_us: int
    port: str = ""
    source: str = OUTSIDE
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = ""
    timeout_us: int = 5 * SECOND
    dns: tuple[str, str] | None = None
    ttl_us: int = 30 * SECOND
    takes_us: int = 0


def course(
    spec: RequestSpec,
    lookup: Callable[[], Reach] | None,
    connect: Callable[[], Reach],
    connected: Callable[[], bool],
) -> Generator[int, None, Outcome]:
    """One request; yields the times that pass.

    lookup: asks a server of names now; None if the client knows the address
    connect: tries a connection to the Service now
    connected: True if the server of the connection still works and can be reached
    """
    left_us = spec.timeout_us
    if lookup is not None:
        left_us = yield from _resolved(left_us, lookup)
        if not left_us:
            return Outcome.NO_NAME
    reach = connect()
    if reach is Reach.SILENT:
        yield left_us
        return Outcome.TIMED_OUT
    if reach is Reach.REFUSES:
        return Outcome.REFUSED
    if not spec.takes_us:
        return Outcome.ANSWERED
    yield min(spec.takes_us, left_us)
    if not connected():
        return Outcome.CUT_OFF
    return Outcome.ANSWERED if spec.takes_us <= left_us else Outcome.TIMED_OUT


def _resolved(left_us: int, lookup: Callable[[], Reach]) -> Generator[int, None, int]:
    """Look the name up; returns the time that is left then, 0 without an answer."""
    for _ in range(NAME_ATTEMPTS):
        reach = lookup()
        if reach is Reach.ANSWERS:
            return left_us
        if reach is Reach.SILENT:
            wait_us = min(NAME_US, left_us)
            yield wait_us
            left_us -= wait_us
            if not left_us:
                break
    return 0
