"""Clocks of programs outside that follow the virtual time of a served cluster.

A program attaches a clock.  Virtual time then goes only as far as the earliest instant that an
attached clock has announced, and rests while one of them has a turn.  A clock gets a turn when its
instant has come, or when the cluster has given its program something: an answer, an event of a
watch.  The program does what is due, sends requests, and ends its turn.  So neither a pause nor a
step nor any pace lets a program be late, and with several programs the order of what they do
depends on their names and on the numbers of their requests alone.

Turns of all clocks that are concerned run at the same time.  Their requests wait until all turns
have ended, and then enter in order of clock and number; what they are given is counted by request,
so that a program knows when it has received all that belongs to a turn.

Holds: nothing of this is an operation of the journal: only when requests enter depends on it, and a
replay takes them from there. A clock ends with its connection, and time does not wait for it any
more. A program that neither ends its turn nor its connection holds time, as at a breakpoint.

Mirrors  nothing upstream; the rounds of conservative parallel simulation, with an announced instant
         of each program as its lookahead.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from secrets import token_hex
from typing import Any

import msgspec
import trio

from sim.errors import InputError
from sim.kernel import NEVER_US, Kernel, stream
from sim.units import Virtual

HEADER = "orrery-clock"  # of a request: ident of the clock, a space, number of the request
CLOCKS_MAX = 100
QUIET_S = 15.0  # real seconds, after which a message without news shows that the connection lives


class Clock:
    """An attached clock.

    turn: the number of its turn; has_turn: True until it has ended it
    next_us: the instant that it has announced
    sent: requests that its program has sent; `_came` those that have come
    given: parts of answers, by the number of the request, since its last turn
    """

    def __init__(self, turns: Turns, name: str) -> None:
        self.name, self.ident = name, token_hex(8)
        self.turn, self.has_turn, self.next_us = 0, False, NEVER_US
        self.sent = self._low = 0
        self.given: dict[int, int] = {}
        self.queued: list[tuple[int, Callable[[], None]]] = []
        self.news = trio.Event()
        self._came: set[int] = set()  # those above `_low`
        self._turns = turns

    @property
    def missing(self) -> bool:
        """True while requests that were sent have not come."""
        return self._low + len(self._came) < self.sent

    @property
    def concerned(self) -> bool:
        """True if it is to have a turn."""
        return bool(self.given) or self.next_us <= self._turns.kernel.now_us

    def come(self, number: int) -> bool:
        """Note that a request has come, or never will; False if that is known."""
        if number <= self._low or number in self._came:
            return False
        self._came.add(number)
        while self._low + 1 in self._came:
            self._low += 1
            self._came.remove(self._low)
        return True


class Mark:
    """The clock and number of one request.  Every call of it may be repeated."""

    __slots__ = ("_clock", "_has_given", "_number", "_turns")

    def __init__(self, turns: Turns, clock: Clock, number: int) -> None:
        self._turns, self._clock, self._number = turns, clock, number
        self._has_given = False

    def enter(self, post: Callable[[], None]) -> None:
        """Let the request enter in its turn.  post: hands it to the gate"""
        self._clock.come(self._number)
        self._clock.queued.append((self._number, post))
        self._turns.check()

    def give(self, parts: int) -> None:
        """Note that the program is given parts of the answer, from within the simulation."""
        self._has_given, entry = True, self._clock.given
        entry[self._number] = entry.get(self._number, 0) + parts
        self._turns.halt()

    def answered(self) -> None:
        """The request has been answered, perhaps without entering."""
        self._clock.come(self._number)
        if not self._has_given:
            self.give(1)
            self._turns.check()


class Turns:
    """The clocks that are attached to one cluster.

    attached: in the order in which they came
    on_rest: called when nothing more is due now, for the cluster and for the clocks
    """

    def __init__(self, kernel: Kernel) -> None:
        self.on_rest: Callable[[], None] = lambda: None
        self.kernel = kernel
        self.attached: dict[str, Clock] = {}
        self._awaited = 0

    def wait_for(self, clocks: int) -> None:
        """Let time rest, and no clock do anything, until so many are attached."""
        self._awaited = clocks
        if clocks:
            self.halt()

    @property
    def names(self) -> list[str]:
        """The names of the attached clocks."""
        return [clock.name for clock in self.attached.values()]

    def mark(self, header: str) -> Mark | None:
        """The mark of a request with this header; None if no attached clock has sent it."""
        ident, _, number = header.partition(" ")
        clock = self.attached.get(ident)
        return Mark(self, clock, int(number)) if clock and number.isdecimal() and len(number) < 16 else None

    def _attach(self, name: str) -> Clock:
        """Attach a clock, which has its first turn at once."""
        number = 1
        while (unique := name if number == 1 else f"{name}#{number}") in self.names:
            number += 1
        clock = Clock(self, unique)
        self.attached[clock.ident] = clock
        self.kernel.at_rest = self.rested
        clock.turn, clock.has_turn = 1, True
        self.halt()
        return clock

    def end_turn(self, ident: str, turn: int, sent: int, next_us: int | None, lost: list[int]) -> None:
        """End a turn, or announce another instant after it.  Raises InputError.

        sent: the requests that the program has sent so far
        lost: those among them that no answer will come to
        """
        clock = self.attached.get(ident)
        if clock is None:
            raise InputError("no such clock is attached", "clock", "attach it again")
        if turn > clock.turn:
            raise InputError(f"{turn} is none of its turns", "turn")
        for number in lost:
            if clock.come(number):
                clock.given[number] = 1
        if turn < clock.turn:  # it has got another one
            return
        clock.sent = max(clock.sent, sent)
        clock.next_us = NEVER_US if next_us is None else Virtual(next_us)
        clock.has_turn = False
        self.check()

    def halt(self) -> None:
        """Let time rest with the present instant, until no clock is concerned."""
        self.kernel.bind(self.kernel.now_us)

    @property
    def _waits(self) -> bool:
        if len(self.attached) < self._awaited:
            return True
        self._awaited = 0
        return any(clock.has_turn or clock.missing for clock in self.attached.values())

    def check(self) -> None:
        """Let requests enter, or time go on, unless a turn has not ended."""
        if self._waits:
            self.halt()
            return
        clocks = self.attached.values()
        queued = [(clock.name, *each) for clock in clocks for each in clock.queued]
        if not queued and not any(clock.concerned for clock in clocks):
            self._go_on()
            return
        self.halt()
        for clock in clocks:
            clock.queued.clear()
        for _, _, post in sorted(queued, key=lambda each: each[:2]):
            post()
        self.kernel.kick()

    def rested(self) -> None:
        """Nothing more is due now: give turns."""
        if self._waits:
            return
        concerned = [clock for clock in self.attached.values() if clock.concerned]
        for clock in concerned:
            clock.turn, clock.has_turn = clock.turn + 1, True
            clock.news.set()
        if not concerned:
            self._go_on()
            self.on_rest()

    @property
    def next_us(self) -> Virtual:
        """The next instant that a clock has announced."""
        return min((clock.next_us for clock in self.attached.values()), default=NEVER_US)

    def _go_on(self) -> None:
        """Let time go on to the next instant that a clock has announced."""
        self.kernel.bind(self.next_us)

    def changed(self) -> None:
        """Let all clocks know that pace, pause or goal have changed."""
        for clock in self.attached.values():
            clock.news.set()

    def messages(self, name: str, state: Callable[[], dict[str, Any]]) -> AsyncGenerator[bytes, None]:
        """Attach a clock until the messages are closed.  Raises InputError.

        The messages are JSON: its turns, and changes of time.

        state: pace and pauses of time
        """
        if len(self.attached) >= CLOCKS_MAX:
            raise InputError(f"{CLOCKS_MAX} clocks are attached", "", "end some of these programs")
        return self._messages(name, state)

    async def _messages(self, name: str, state: Callable[[], dict[str, Any]]) -> AsyncGenerator[bytes, None]:
        kernel, shown, clock = self.kernel, 0, self._attach(name)
        seed = stream(kernel.seed, f"clock/{clock.name}").getrandbits(53)
        fixed = {"clock": clock.ident, "name": clock.name, "seed": seed, "epoch_us": kernel.epoch_us}
        try:
            while True:
                clock.news = trio.Event()
                now_us = kernel.now_us if clock.has_turn else kernel.outside_now_us()
                message = {**fixed, "turn": clock.turn, "now_us": now_us, **state()}
                if clock.turn > shown:
                    message["given"] = sorted(clock.given.items())
                    clock.given, shown = {}, clock.turn
                yield msgspec.json.encode(message)
                with trio.move_on_after(QUIET_S):
                    await clock.news.wait()
        finally:  # wait for it no longer
            self.attached.pop(clock.ident, None)
            self.check()
