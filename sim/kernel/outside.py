"""Calls of the simulation to servers outside of the process.

Turns a call, made at one instant of virtual time, into an answer or a failure at a later instant
(or the same).  A sender outside of virtual time carries the call out; its result enters by the gate
of the kernel and is in the journal with its position, so that a replay takes it from there and
sends nothing.

The deadline of a call is an instant of virtual time:
- on a paced clock, virtual time advances while a call is open, and an answer arrives at
  the instant that corresponds to the real clock;
- on a clock that runs as fast as possible, virtual time rests while a call is open, so that an
  answer arrives at the instant of its call.  The sender gives up after the timeout in real time;
  virtual time then advances, and the deadline passes;
- on a paused clock, or one that has reached its goal, the call fails when the sender gives up.
So a late answer is always found by the virtual clock.

Holds: `arrived` is called once for each call.  The state is open or closed by an operation of the
gate too; while it is closed, a call fails at once, since a run without a server must repeat from
its seed alone.  The numbers of open calls and the sizes of answers are bounded.

Rejected  An answer that takes the real duration of its call in virtual time on a fast clock: events
of these seconds would have to wait for it, as they do here, and the run would depend on the load of
the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from sim.kernel.gate import Driver
from sim.kernel.timer import Timer
from sim.units import SECOND

CALLS_MAX = 500  # open at a time
ANSWER_MAX = 3 << 20  # bytes of an answer: the API server's own limit of a body
DEADLINE_EXCEEDED = "context deadline exceeded"
CLOSED = "no server outside of the simulation is called in this run"
TOO_MANY = f"{CALLS_MAX} calls of servers outside of the simulation are open already"
GONE = "the server of the simulation has stopped"
OPERATION, ANSWERED = "outside", "outside-answer"


class OutsideRequest(msgspec.Struct, frozen=True):
    """A request to a server outside.

    url: with http or https
    connect_to: host and port of the connection, where they are not those of the URL
    authorities: PEM certificates that the server's certificate is checked with, b"" for those of
        this machine
    verified: False accepts any certificate
    client_pair: PEM certificate and key of the client, b"" for none
    timeout_us: how long an answer is waited for
    receiver: the name of a service by which the sender knows the certificates and further headers
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    connect_to: tuple[str, int] | None = None
    authorities: bytes = b""
    verified: bool = True
    client_pair: bytes = b""
    timeout_us: int = 30 * SECOND
    answer_max: int = ANSWER_MAX
    receiver: str = ""


class OutsideAnswer(NamedTuple):
    """The result of a request: an answer, or the text of the failure.

    failure: with a code, of the body
    took_us: the part of the request's timeout that has passed; on a clock that runs as fast as
        possible virtual time does not show it
    """

    code: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    failure: str = ""
    took_us: int = 0


Arrived = Callable[[OutsideAnswer], None]


def failed(text: str) -> OutsideAnswer:
    """The result of a call without an answer."""
    return OutsideAnswer(0, (), b"", text)


class Sender(Protocol):
    """Carries calls out, outside of virtual time.  It posts `ANSWERED` to the gate for each, once."""

    def send(self, number: int, request: OutsideRequest, limit_s: float) -> None:
        """Begin a call; the result is given up after the limit, in real seconds."""
        ...

    def cancel(self, number: int) -> None:
        """End a call: its result is no longer of use."""
        ...


class _Call(NamedTuple):
    request: OutsideRequest
    arrived: Arrived
    timer: Timer
    cause: int


class Outside:
    """All calls of one kernel to servers outside.

    sender: carries calls out; None in a replay and while the state is closed
    is_open: True between the operations that open and close it
    """

    def __init__(self, kernel: Driver) -> None:
        self.sender: Sender | None = None
        self.is_open = False
        self.settings: dict[str, Any] = {}
        self._kernel = kernel
        self._calls: dict[int, _Call] = {}
        self._held: dict[int, None] = {}  # calls that the sender still carries out
        self._number = 0
        kernel.gate.handle(OPERATION, self._switch)
        kernel.gate.handle(ANSWERED, self._answer)

    @property
    def open_count(self) -> int:
        """The number of calls that wait for an answer."""
        return len(self._calls)

    @property
    def open_calls(self) -> tuple[str, ...]:
        """Method and URL of each call that waits for an answer, in the order of the calls."""
        return tuple(f"{call.request.method} {call.request.url}" for call in self._calls.values())

    def begin(self, sender: Sender, settings: dict[str, Any]) -> None:
        """Send calls from now on.  Called outside of virtual time.

        settings: MessagePack values that the simulation may read in `settings`, in a replay too
        """
        self.sender = sender
        self._kernel.gate.post(OPERATION, [True, settings], lambda _: None)

    def end(self) -> None:
        """Send nothing from now on, and fail the open calls.  Called outside of virtual time."""
        if self.sender is None:
            return
        self.sender = None
        self._kernel.gate.post(OPERATION, [False, {}], lambda _: None)

    def call(self, request: OutsideRequest, arrived: Arrived) -> None:
        """Send a request.  Its result arrives later in virtual time, or at once if it is not sent."""
        if not self.is_open or len(self._calls) >= CALLS_MAX:
            arrived(failed(TOO_MANY if self.is_open else CLOSED))
            return
        kernel = self._kernel
        self._number = number = self._number + 1
        timer = kernel.timer_at(kernel.now_us + request.timeout_us, self._late, number)
        self._calls[number] = _Call(request, arrived, timer, kernel.cause)
        if self.sender is not None:
            self._held[number] = None
            kernel.hold()
            # A pace below 1 gives the server the same share of its timeout as any other pace.
            slower = min(1.0, kernel.rate) or 1.0
            self.sender.send(number, request, request.timeout_us / SECOND / slower)

    # --- inside the simulation --------------------------------------------------------------------

    def _switch(self, payload: list[Any], done: Callable[[Any], None]) -> None:
        self.is_open, self.settings = payload
        if not self.is_open:
            for number in list(self._calls):
                self._let_go(number)
                self._finish(number, failed(GONE))
        done(None)

    def _answer(self, payload: list[Any], done: Callable[[Any], None]) -> None:
        number, code, headers, body, failure, *more = payload
        took_us, still = (*more, 0, False)[:2]  # older journals have none, or the first
        self._let_go(number)
        # A sender that gave up leaves the call to its deadline, which is near if time passes.
        if failure != DEADLINE_EXCEEDED or still:
            pairs = tuple((name, value) for name, value in headers)
            self._finish(number, OutsideAnswer(code, pairs, body, failure, took_us))
        done(None)

    def _late(self, number: int) -> None:
        if self.sender is not None:
            self.sender.cancel(number)
        self._let_go(number)
        self._finish(number, failed(DEADLINE_EXCEEDED))

    def _let_go(self, number: int) -> None:
        if number in self._held:
            del self._held[number]
            self._kernel.let_go()

    def _finish(self, number: int, answer: OutsideAnswer) -> None:
        call = self._calls.pop(number, None)
        if call is not None:
            call.timer.cancel()
            self._kernel.follow(call.cause)
            call.arrived(answer)
