"""A request in steps: the operations of its verb are carried out one after the other.

Turns the steps of a verb into operations for the storage, and the storage's answers into the next
operation or the reply.  A write is prepared from what the watch cache shows, and costs one
operation if that is still stored; otherwise the storage's answer contains the current object.

Holds: no reply depends on the cache alone: a request that writes nothing runs again on what is
stored.  An object that a failed precondition has returned is not read again.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher/cacher.go (GuaranteedUpdate) and
         pkg/storage/etcd3/store.go (GuaranteedUpdate, conditionalDelete).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from actors.apiserver.caches.watch_caches import Caches
from actors.apiserver.handlers import Handlers
from sim.api.refusals import Refusal, Steps, nested_too_deep
from sim.api.store import Answer, Delete, Get, Item, Mismatch, Op, Put
from sim.api.types import Reply, Request
from sim.api.verbs.call import Call


class _Known(NamedTuple):
    """The object that is stored under the request's key (None: no object)."""

    item: Item | None


def _updates(request: Request) -> bool:
    """True if upstream begins a request of this kind with the object that its cache shows."""
    return request.verb in ("update", "patch") or request.subresource == "binding"


def _last_reply(call: Call, end: StopIteration | Refusal | RecursionError) -> Reply:
    """The reply to a request with steps that ended so."""
    if isinstance(end, StopIteration):
        reply: Reply = end.value
        return reply
    if isinstance(end, Refusal):
        return end.reply(tuple(call.warnings))
    return nested_too_deep().reply()


def _continue(call: Call, steps: Steps, answer: Answer) -> Op | Reply:
    """Give an answer to the steps of a request; returns their next operation, or the reply."""
    try:
        return steps.send(answer)
    except (StopIteration, Refusal, RecursionError) as end:
        return _last_reply(call, end)


def run_through(call: Call, steps: Steps, apply: Callable[[Op], Answer]) -> Reply:
    """The reply to a request on a prompt storage."""
    try:
        op = next(steps)
        while True:
            op = steps.send(apply(op))
    except (StopIteration, Refusal, RecursionError) as end:
        return _last_reply(call, end)


class Straight:
    """The execution of one request on a prompt storage, one piece of work after the other.

    call: of its run
    """

    def __init__(self, call: Call, steps: Steps) -> None:
        self.call = call
        self._steps = steps

    def advance(self, answer: Answer) -> Op | Reply:
        """Take an answer of the storage (None: begin); return the next operation, or the reply."""
        return _continue(self.call, self._steps, answer)


class Stepwise:
    """The execution of one request on a storage that takes its time.

    call, steps: of its first run
    """

    def __init__(
        self, handlers: Handlers, caches: Caches, request: Request, call: Call, steps: Steps
    ) -> None:
        self._handlers = handlers
        self._caches = caches
        self._request = request
        self.call = call
        self._steps = steps
        self._key = call.key
        self._guesses = _updates(request)
        self._guessed = self._wrote = False
        self._known: _Known | None = None

    def advance(self, answer: Answer) -> Op | Reply:
        """Take an answer of the storage (None: begin); return the next operation, or the reply."""
        if isinstance(answer, Mismatch) and answer.key == self._key:
            self._known = _Known(answer.current)
        while True:
            found = _continue(self.call, self._steps, answer)
            if not isinstance(found, Reply):
                known = self._look(found)
                if known is None:
                    self._wrote = self._wrote or isinstance(found, Put | Delete)
                    return found
                answer = known.item
                continue
            if self._wrote or not self._guessed:
                return found
            self._guesses = self._guessed = False  # what the cache showed may be out of date
            try:
                self.call = self._handlers.call(self._request)
                self._steps, answer = self._handlers.steps(self.call), None
            except Refusal as refusal:
                return refusal.reply()

    def _look(self, op: Op) -> _Known | None:
        """Return the answer to an operation if it is known without the storage."""
        if not isinstance(op, Get) or op.key != self._key:
            return None
        known, self._known = self._known, None
        if known is not None:
            return known
        cache = self._caches.of(self.call.resource)
        if not self._guesses or self._wrote or cache.direct or not self._caches.ready:
            return None
        item = cache.get(self._key)
        if item is None:
            return None
        self._guessed = True
        return _Known(item)
