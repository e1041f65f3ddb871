"""The steps of a sync: decisions that depend on answers, apart from the sending of requests.

Turns a generator of actions into requests, events and delays of one process.  A pure function
yields an action, gets the answer with the time at which it came, and decides again; `carry_out` is
the only part that waits.  A test sends answers of its own.  A controller with actions that no other
one has gives `carry_out` its own function that does them.

Holds: an action is carried out before the next one is decided; the end of a process ends its steps
       without another action.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, NamedTuple, TypeVar, assert_never

from sim.api.schema.resource import Resource
from sim.api.types import Obj, Reply
from sim.client.events.recorder import EventKind
from sim.dataclass import dataclass

if TYPE_CHECKING:
    from sim.client import Client, EventRecorder, WorkQueue
    from sim.kernel import Context

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")


class SyncFailed(Exception):
    """Ends a sync with an error text.

    silent: True if the key is not retried, as when its namespace is being deleted
    """

    def __init__(self, message: str, silent: bool = False) -> None:
        super().__init__(message)
        self.silent = silent


@dataclass(frozen=True, slots=True)
class Get:
    """Read an object.  revision: as that of a request; "0" may be answered from the cache"""

    resource: str | Resource
    namespace: str
    name: str
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object."""

    resource: str
    namespace: str
    obj: Obj


@dataclass(frozen=True, slots=True)
class Update:
    """Update an object, on condition of the revision that it has."""

    resource: str
    obj: Obj
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object."""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Event:
    """Record an event about an object."""

    obj: Obj
    kind: EventKind
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Requeue:
    """Sync a key again.  after_us: the delay; None: that of the queue for a key that failed"""

    key: str
    after_us: int | None = None


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for a duration."""

    us: int


Action = Get | Create | Update | Delete | Event | Requeue | Sleep


class Answer(NamedTuple):
    """What follows an action.

    reply: of a request; that of other actions has no content
    wall_us: the time by the clock of the process
    """

    reply: Reply
    wall_us: int


Steps = Generator[Action, Answer, T]
DONE = Reply(code=200)


async def carry_out(steps: Generator[A, R, T], do: Callable[[A], Awaitable[R]]) -> T:
    """Do one action after the other until the steps end; returns their result.  Raises what they
    raise.

    do: does an action and returns its answer
    """
    try:
        action = next(steps)
        while True:
            action = steps.send(await do(action))
    except StopIteration as end:
        result: T = end.value
        return result


class Shell(NamedTuple):
    """What carries out the actions of a controller."""

    ctx: Context
    client: Client
    recorder: EventRecorder
    queue: WorkQueue

    async def carry_out(self, steps: Steps[T]) -> T:
        """Carry out actions until the steps end; returns their result.  Raises what they raise."""
        return await carry_out(steps, self._answer)

    async def _answer(self, action: Action) -> Answer:
        reply = await self.do(action)
        return Answer(reply, self.ctx.wall_us())

    async def do(self, action: Action) -> Reply:
        """Do one action; returns its reply."""
        match action:
            case Get(resource, namespace, name, revision):
                return await self.client.get(resource, namespace, name, revision=revision)
            case Create():
                return await self.client.create(action.resource, action.namespace, action.obj)
            case Update():
                return await self.client.update(action.resource, action.obj, action.subresource)
            case Delete():
                return await self.client.delete(action.resource, action.namespace, action.name)
            case Event():
                self.recorder.event(action.obj, action.kind, action.reason, action.message)
            case Requeue(after_us=None):
                self.queue.add_rate_limited(action.key)
            case Requeue():
                assert action.after_us is not None
                self.queue.add_after_us(action.key, action.after_us)
            case Sleep():
                await self.ctx.sleep_us(action.us)
            case _:
                assert_never(action)
        return DONE
