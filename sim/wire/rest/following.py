"""The clock of a process that runs alone, when it follows the virtual time of a served cluster.

Attaches a clock (`sim.wire.turns`) and turns each of its turns into work of the process's kernel:
timers that are due, then what the server has given, in order of the requests and whole.  Requests
carry the clock and their number, and the end of a turn says how many there are and when the process
has something to do again.

Holds: nothing arrives between two turns, so that the order of what the process does depends on
nothing but its seed and what it is given; a call that ends without an answer is reported, so that
the server does not wait for it.

Mirrors  nothing upstream.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import groupby
from typing import Any

import httpx
import trio

from sim.errors import InputError
from sim.kernel import NEVER_US, Kernel
from sim.units import Virtual, Wall
from sim.wire.rest.access import AccessError, Credentials
from sim.wire.rest.answers import parts_of
from sim.wire.turns import HEADER

PATH = "/orrery/v1/time"
ANSWER, OPEN, EVENTS, LOST = "answer", "open", "events", "lost"
CONNECT_S = 30.0
LOG = logging.getLogger(__name__)
Part = tuple[str, str, Any]  # operation of the gate, what it is, data


class Following:
    """The clock of one process.

    name: of the process, by which the server orders what clocks do
    credentials: for the server of the clock
    sent: requests so far
    state: pace and pauses of the clock, as far as they are known
    """

    def __init__(self, name: str, credentials: Credentials) -> None:
        self.sent = 0
        self.state: dict[str, Any] = {"pace": 0.0, "paused": True}
        self._name, self._credentials = name, credentials
        self._begin_us = 0  # of this process, in the time of the clock
        self._ident, self._turn, self._next_us = "", 0, NEVER_US
        self._parts: dict[int, deque[Part]] = {}  # that have arrived, by request
        self._over: set[int] = set()  # requests that nothing arrives for any more
        self._framed: set[int] = set()  # watches in frames of protobuf
        self._lost: list[int] = []
        self._arrived = trio.Event()
        self._prepared, self._done = 0, set[int]()  # all up to a number, and those after it
        self._next = trio.Event()
        self._messages: AsyncIterator[dict[str, Any]] | None = None
        self._nursery: trio.Nursery | None = None
        self._client: httpx.AsyncClient | None = None

    async def attach(self, nursery: trio.Nursery) -> tuple[int, Wall]:
        """Attach the clock; returns a seed and its time, at which this process is at 0.

        Raises InputError and AccessError.
        """
        self._nursery = nursery
        if self._credentials.asks:
            await trio.to_thread.run_sync(self._credentials.refresh)
        first: dict[str, Any] = await nursery.start(self._read)
        self._ident, self._begin_us = first["clock"], first["now_us"]
        return first["seed"], Wall(first["epoch_us"] + first["now_us"])

    async def begin(self, nursery: trio.Nursery) -> Kernel:
        """Attach the clock, and make a kernel with its time.  Raises InputError and AccessError."""
        seed, epoch_us = await self.attach(nursery)
        kernel = Kernel(seed, epoch_us=epoch_us)
        kernel.set_goal(kernel.now_us)
        return kernel

    async def run(self, kernel: Kernel) -> None:
        """Do the turns of the clock until the server ends; the process has its first one already."""
        assert self._messages is not None
        await kernel.run_until(kernel.now_us)
        await self._end_turn(kernel, 1)
        async for message in self._messages:
            turn, at_us = message["turn"], Virtual(message["now_us"] - self._begin_us)
            self.state = {name: message[name] for name in self.state}
            if turn <= self._turn:
                self.on_change()
                continue
            entry = Counter(dict(message["given"]))
            await self._wait_for(entry)
            await kernel.run_until(at_us)
            for number in sorted(entry.keys() | (self._over & self._parts.keys())):
                self._enter(kernel, number, entry[number])
            await kernel.run_until(at_us)
            await self._end_turn(kernel, turn)
        LOG.critical("the clock at %s has ended", self._credentials.access.server)

    def on_change(self) -> None:
        """Pace or pauses of the clock have changed."""

    def header(self, number: int) -> tuple[str, str]:
        """The header of a request, which makes it one of this clock."""
        return HEADER, f"{self._ident} {number}"

    def number(self) -> int:
        """The number of a new request."""
        self.sent += 1
        return self.sent

    async def in_order(self, number: int, prepare: Callable[[], Awaitable[None]]) -> None:
        """Prepare a request after all earlier ones: tokens are asked for outside of its turn."""
        try:
            while self._prepared + 1 < number:
                await self._next.wait()
            await prepare()
        finally:
            self._pass(number)

    def _pass(self, number: int) -> None:
        """Let the next requests be prepared."""
        self._done.add(number)
        while self._prepared + 1 in self._done:
            self._prepared += 1
            self._done.remove(self._prepared)
        self._next.set()
        self._next = trio.Event()

    def take(self, operation: str, number: int, what: str, data: Any) -> None:
        """Keep what has arrived for a request until it is given."""
        stored = self._parts.setdefault(number, deque())
        if what == OPEN and data:
            self._framed.add(number)
        if what == EVENTS:
            events = parts_of(data, framed=number in self._framed)
            stored.extend((operation, EVENTS, event) for event in events)
        else:
            stored.append((operation, what, data))
        self._arrived.set()

    def end(self, number: int, last: str) -> None:
        """Nothing arrives for a request any more.  last: what has arrived last, "" for nothing"""
        if not last and number > self._prepared:
            self._pass(number)
        if last == ANSWER:  # which is whole
            return
        self._over.add(number)
        self._framed.discard(number)
        self._arrived.set()
        if last in ("", LOST) and self._nursery is not None:
            self._lost.append(number)
            if self._turn:
                self._nursery.start_soon(self._announce)

    async def _wait_for(self, given: Counter[int]) -> None:
        """Wait until all has arrived that the server has given."""
        while any(
            len(self._parts.get(number, ())) < parts and number not in self._over
            for number, parts in given.items()
        ):
            self._arrived = trio.Event()
            await self._arrived.wait()

    def _enter(self, kernel: Kernel, number: int, count: int) -> None:
        """Let the next parts of an answer enter, and neighbouring events of a watch at once."""
        stored = self._parts.get(number, deque())
        count = len(stored) if number in self._over else min(count, len(stored))
        taken = [stored.popleft() for _ in range(count)]
        for (operation, what), parts in groupby(taken, lambda part: part[:2]):
            data = [part[2] for part in parts]
            whole = [b"".join(data)] if what == EVENTS else data
            for each in whole:
                kernel.gate.post(operation, [number, what, each], _nothing)
        if not stored:
            self._parts.pop(number, None)

    async def _end_turn(self, kernel: Kernel, turn: int) -> None:
        self._turn, self._next_us = turn, await self.next_us(kernel)
        await self._announce()

    async def next_us(self, kernel: Kernel) -> Virtual:
        """When the process has something to do again, once it has nothing to do now."""
        return kernel.due_us

    async def _announce(self) -> None:
        lost, self._lost = self._lost, []
        next_us = None if self._next_us >= NEVER_US else self._next_us + self._begin_us
        body = {
            "clock": self._ident, "turn": self._turn, "sent": self.sent, "next_us": next_us, "lost": lost
        }  # fmt: skip
        url, headers = f"{self._credentials.access.server}{PATH}/turn", self._credentials.headers()
        try:
            answer = await self._http().post(url, json=body, headers=headers)
            if answer.is_error:
                LOG.error("a turn of the clock could not be ended: %s", _message(answer))
        except httpx.HTTPError as error:
            LOG.error("the clock does not answer: %r", error)

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            context = self._credentials.context()
            verify: Any = True if context is None else context
            timeout = httpx.Timeout(None, connect=CONNECT_S)
            self._client = httpx.AsyncClient(verify=verify, timeout=timeout)
        return self._client

    async def _read(self, task_status: trio.TaskStatus[dict[str, Any]]) -> None:
        """Attach the clock, and pass its messages on."""
        send, receive = trio.open_memory_channel[dict[str, Any]](1 << 16)
        url, headers = f"{self._credentials.access.server}{PATH}/clock", self._credentials.headers()
        begun = False
        try:
            async with (
                send,
                self._http().stream("POST", url, json={"name": self._name}, headers=headers) as answer,
            ):
                if answer.is_error:
                    await answer.aread()
                    raise InputError(_message(answer), url, "is it served by orrery serve?")
                async for line in answer.aiter_lines():
                    if not line.startswith("data: "):
                        continue
                    message = json.loads(line[6:])
                    if not begun:
                        begun, self._messages = True, receive
                        task_status.started(message)
                    await send.send(message)
        except httpx.HTTPError as error:
            if not begun:
                raise AccessError(f"{url} does not answer: {error or type(error).__name__}") from None


def _message(answer: httpx.Response) -> str:
    try:
        return f"{answer.status_code} {answer.json()['message']}"
    except (ValueError, KeyError, TypeError):
        return str(answer.status_code)


def _nothing(_: object) -> None:
    """The result of the operation is not needed."""
