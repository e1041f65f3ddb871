"""A connection of the HTTP server below its protocols: states, limits, writing, and its end.

A byte stream becomes a `Line`: what it waits for is noted for its owner, what is written has a time
limit, and each way in which it ends is taken once.

Holds: a connection that its client has closed is closed at once; a write that makes no progress for
SEND_S ends the connection, even if the application is shielded from cancellation; limits do not
count the time in which this process was stopped.

Mirrors  golang net/http server.go (closeWriteAndWait), at go1.19.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import trio

from sim.transitions import Transitions
from sim.wire.http.fronts.stream import GONE, PIECE_BYTES, Stream
from sim.wire.patience import Limit, within

KEEP_ALIVE_S = 120.0  # without a request, or within the head of one
# What a connection waits for: a request, or the rest of the body of each request that it has.
IDLE, STALLED = "idle", "stalled"
GRACE_S = 2  # for what is being sent when the server ends
SEND_S = 60.0  # for PIECE_BYTES to a client that does not read
LAST_SEND_S = 2  # for an answer that has begun, and for the refusal, before what is no request
LINGER_S = 0.5  # Go's rstAvoidanceDelay: for the client to read the answer to what was not all read


class Phase(Enum):
    """The states of a connection.

    BUSY: it has requests
    STALLED: each of its requests waits for the rest of its body
    SWITCHED: an answer has changed the protocol, and uses the connection
    ENDING: the client sends no more, and there is no request
    CLOSING: a last answer is sent, and the client may read it
    GONE: nothing can be sent any more
    """

    HANDSHAKE = "handshake"
    IDLE = "idle"
    BUSY = "busy"
    STALLED = "stalled"
    SWITCHED = "switched"
    ENDING = "ending"
    CLOSING = "closing"
    GONE = "gone"


_CLOSED = "the client closes it, or the server chooses it to make room"
TRANSITIONS = Transitions(
    Phase.HANDSHAKE,
    {
        Phase.HANDSHAKE: {
            Phase.IDLE: "the handshake is done, or there is none",
            Phase.CLOSING: "the client speaks no TLS, and receives an answer that says so",
            Phase.GONE: "the handshake takes too long, or the client closes it",
        },
        Phase.IDLE: {
            Phase.BUSY: "a request begins",
            Phase.ENDING: "the client sends no more",
            Phase.CLOSING: "no request comes for too long, or the bytes are no request",
            Phase.GONE: _CLOSED,
        },
        Phase.BUSY: {
            Phase.IDLE: "the last request is answered",
            Phase.STALLED: "each request waits for the rest of its body",
            Phase.SWITCHED: "an answer changes the protocol",
            Phase.CLOSING: "the protocol ends it, or an exception was met",
            Phase.GONE: _CLOSED,
        },
        Phase.STALLED: {
            Phase.BUSY: "a body is complete, or another request begins",
            Phase.IDLE: "the last request is answered before its body is complete",
            Phase.CLOSING: "the protocol ends it, or an exception was met",
            Phase.GONE: _CLOSED,
        },
        Phase.SWITCHED: {Phase.CLOSING: "the answer has ended", Phase.GONE: _CLOSED},
        Phase.ENDING: {
            Phase.CLOSING: "what it sent before is fed to the protocol",
            Phase.GONE: "a request begins in what it sent before",
        },
        Phase.CLOSING: {Phase.GONE: "the client has read the answer, or takes too long"},
        Phase.GONE: {},
    },
)


# The states that follow from the requests, and what the owner knows the connection to wait for.
_OPEN = (Phase.HANDSHAKE, Phase.IDLE, Phase.BUSY, Phase.STALLED)
_WAITS = {Phase.HANDSHAKE: IDLE, Phase.IDLE: IDLE, Phase.STALLED: STALLED}


class Line:
    """One client's connection. on_wait: called with what it waits for, IDLE or STALLED, or ""

    scope: of all that is done for it
    refused: the code of a last answer, 0 if there is none
    failed: the code of one after an exception: 400 where the client's bytes raised it
    leaving: True if it ends with the answers to its present requests
    """

    def __init__(self, stream: Stream, on_wait: Callable[[Line, str], None]) -> None:
        self.stream = stream
        self.scope = trio.CancelScope()
        self.state: Phase = TRANSITIONS.start
        self.refused, self.failed = 0, 500
        self.leaving = False
        self._on_wait = on_wait
        self._limit = Limit(self.scope)
        self._sending: within | None = None
        self._ending: Limit | None = None  # of all writes, when the server ends

    def name(self) -> str:
        """The client, for the log."""
        try:
            return str(self.stream.socket.getpeername())
        except OSError:
            return "a client that has gone"

    def release(self) -> None:
        """Cut the references in circles, which would wait for a full garbage collection, that a
        served cluster does not make; TLS alone holds some 40 KiB.
        """
        self._limit.set(float("inf"))
        if self._ending is not None:
            self._ending.set(float("inf"))

    # --- its state --------------------------------------------------------------------------------

    def move(self, state: Phase) -> None:
        """Pass to a state, which has to be one that may follow."""
        self.state = TRANSITIONS.move(self.state, state)

    def lose(self) -> None:
        """Note that nothing can be sent any more."""
        if self.state is not Phase.GONE:
            self.move(Phase.GONE)

    def close(self) -> None:
        """Closes it at once, in any state."""
        self.lose()
        self.scope.cancel()
        self.stream.close()

    def leave(self) -> None:
        """Let it end with the answers to its present requests, and at once without one."""
        self.leaving = True
        if self.state in (Phase.HANDSHAKE, Phase.IDLE):
            self.close()

    def wait_for_request(self) -> None:
        """Note that it has no request; called again after each one."""
        self._limit.renew(KEEP_ALIVE_S)
        if self.state is Phase.IDLE:
            self._on_wait(self, IDLE)
        elif self.state in _OPEN:
            self._follow(Phase.IDLE)

    def begin_request(self, *, stalled: bool = False) -> None:
        """Note that it has a request. stalled: the rest of its body is waited for"""
        self._limit.set(float("inf"))
        if self.state in _OPEN:
            self._follow(Phase.STALLED if stalled else Phase.BUSY)
        elif self.state in (Phase.ENDING, Phase.GONE):
            self.close()

    def _follow(self, after: Phase) -> None:
        """Pass to a state that follows from the requests, and notify the owner of a new wait."""
        before = self.state
        if after is before:
            return
        if after is Phase.STALLED and before is not Phase.BUSY:
            self.move(Phase.BUSY)
        self.move(after)
        if (waits_for := _WAITS.get(after, "")) != _WAITS.get(before, ""):
            self._on_wait(self, waits_for)

    # --- writing ----------------------------------------------------------------------------------

    async def write(self, data: bytes | memoryview) -> None:
        """Write a part of an answer; closes the connection if the client does not take it.

        It is shielded from cancellation, which would leave half an answer.
        """
        if len(data) > PIECE_BYTES:
            data = memoryview(data)
        for begin in range(0, len(data), PIECE_BYTES):
            if self.state is Phase.GONE:
                return
            try:
                done = self.stream.send_now(data[begin : begin + PIECE_BYTES])
            except GONE:
                self.close()
                return
            if not done:
                await self._flush()

    async def _flush(self) -> None:
        left_s = SEND_S if self._ending is None else min(SEND_S, self._ending.left_s)
        self._sending = within(left_s, shield=True)
        with self._sending as scope:
            try:
                await self.stream.flush()
            except GONE:
                self.close()
        self._sending = None
        if scope.cancelled_caught:
            self.close()

    def limit_sending(self, seconds: float) -> None:
        """Let writes end within some seconds, also those that are shielded."""
        self._ending = Limit(trio.CancelScope())
        self._ending.set(seconds)
        if self._sending is not None:
            self._sending.shorten(seconds)

    async def end_writing(self, last: bytes) -> None:
        """Send a last answer, which may be empty, and wait for the client to read it."""
        with within(LAST_SEND_S):
            await self.write(last)
        with within(LINGER_S):
            try:
                self.stream.end_sending()
                await self.stream.skip()  # bytes that are not read would take the answer back
            except GONE:
                return
