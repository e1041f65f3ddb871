"""Work queue: each key is queued once and processed by one worker at a time; a key that is added
during its processing is queued again.

Holds: a key that waits is not added a second time; a key that is added while it is processed is
queued at `done`; keys come out in the order in which they were added; of several delayed adds of a
key the earliest time counts.

Mirrors  client-go v1.25 util/workqueue/{queue,delaying_queue,rate_limiting_queue}.go.
Differs  never shuts down on its own: it ends with its actor. Bound: as many entries as there are
         keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from sim.client.rest.limiter import Limiter, default_limiter
from sim.kernel import Context, Timer
from sim.units import SECOND

Key = Any  # hashable: mostly "namespace/name"
Sync = Callable[[Any], Awaitable[str | None]]


# Upstream's names of queues, as metrics show them, where they differ.
UPSTREAM_NAMES = {
    "csrapproving": "certificate",
    "endpointslice": "endpoint_slice",
    "expand": "volume_expand",
    "replicationcontroller": "replicationmanager",
}


def shown_name(name: str) -> str:
    """The name of a queue in metrics; those of all signers have one name."""
    return "certificate" if name.startswith("csrsigning-") else UPSTREAM_NAMES.get(name, name)


def never(_: Key) -> bool:
    """The default of `WorkQueue.returns`: False for every key."""
    return False


class WorkQueue:
    """The queue of keys of one control loop."""

    def __init__(self, ctx: Context, name: str, limiter: Limiter | None = None) -> None:
        self.name = name
        self._ctx = ctx
        self._limiter = limiter if limiter is not None else default_limiter()
        self._queue: deque[Key] = deque()
        self._processing: set[Key] = set()
        self._delayed: dict[Key, Timer] = {}
        self._waiters: deque[Any] = deque()
        # The cause of each key that waits, or will wait after its processing.
        self._causes: dict[Key, int] = {}
        self._labels = ctx.name, shown_name(name)
        self._untouched = True  # no worker has taken a key yet
        ctx.kernel.queues[ctx.name, name] = self
        ctx.kernel.gauges[f"{ctx.name} {name}"] = self._gauges
        # True if a worker that took the key now would only put it back with a delay.
        self.returns: Callable[[Key], bool] = never

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def keys(self) -> dict[str, list[str]]:
        """The keys that wait, are processed, and are due later."""
        groups = {"waits": self._queue, "processed": self._processing, "later": self._delayed}
        return {name: sorted(map(str, keys)) for name, keys in groups.items()}

    def add(self, key: Key, *, anew: bool = False) -> None:
        """Queue a key unless it waits already; if it is being processed, queue it afterwards.

        `anew`: True replaces the cause of a waiting key, because the earlier reason no longer holds
        """
        cause, known = self._ctx.kernel.cause, self._causes.get(key)
        if known is not None:
            # Objects found at the start of a process have no order: the latest write is the cause
            # of the key.
            if anew or (self._untouched and known < cause):
                self._causes[key] = cause
            return
        self._causes[key] = cause
        meters = self._ctx.kernel.meters
        if meters is not None:
            meters.count("workqueue_adds_total", self._labels)
        if key not in self._processing:
            self._push(key)

    @property
    def cause(self) -> int:
        """The cause of what happens now."""
        return self._ctx.kernel.cause

    def gone(self, uid: str) -> int:
        """The last write by which the owner of this uid lost an object, or the write that deleted
        the object with this key in the store (0: none is known).
        """
        return self._ctx.kernel.standing.gone(uid)

    def add_cause(self, key: Key, cause: int) -> None:
        """Record a later cause of a waiting key, from before the process first received the key."""
        if self._untouched and self._causes.get(key, cause) < cause:
            self._causes[key] = cause

    def _push(self, key: Key) -> None:
        assert key in self._causes and key not in self._processing, "a key waits twice"
        self._queue.append(key)
        meters = self._ctx.kernel.meters
        if meters is not None:
            meters.since[self, key] = self._ctx.kernel.now_us
        if self._waiters:
            self._ctx.kernel.wake(self._waiters.popleft())

    def add_after_us(self, key: Key, delay_us: int) -> None:
        """Queue a key after a delay; of several delays for one key the earliest end counts."""
        if delay_us <= 0:
            self.add(key)
            return
        at_us = self._ctx.kernel.now_us + self._ctx.clock.real_us(delay_us)
        waiting = self._delayed.get(key)
        if waiting is not None:
            if waiting.at_us <= at_us:
                return
            waiting.cancel()
        self._delayed[key] = self._ctx.timer_us(delay_us, self._ripe, key)

    def _ripe(self, key: Key) -> None:
        del self._delayed[key]
        idle = self._waiters and key not in self._causes and key not in self._processing
        if idle and self.returns(key):  # no worker needs to be woken for it
            self.add_rate_limited(key)
            self.forget(key)
        else:
            self.add(key)

    def add_rate_limited(self, key: Key) -> None:
        """Queue a failed key after the delay that its limiter sets."""
        meters = self._ctx.kernel.meters
        if meters is not None:
            meters.count("workqueue_retries_total", self._labels)
        self.add_after_us(key, self._limiter.when_us(key, self._ctx.now_us()))

    def forget(self, key: Key) -> None:
        """Reset the failures of a key after a success, or when the loop drops the key."""
        self._limiter.forget(key)

    def retries(self, key: Key) -> int:
        """The number of failures of a key since `forget`."""
        return self._limiter.retries(key)

    async def get(self) -> Key:
        """Wait for a key and take it; call `done` when finished."""
        self._untouched = False
        while not self._queue:
            self._waiters.append(self._ctx.kernel.ticket())
            await self._ctx.kernel.park(f"work in {self.name}")
        return self._take()

    def _take(self) -> Key:
        key = self._queue.popleft()
        assert key not in self._processing, "two workers have one key"
        self._processing.add(key)
        self._ctx.kernel.follow(self._causes.pop(key))
        self._measure("workqueue_queue_duration_seconds", key, again=True)
        return key

    def done(self, key: Key) -> None:
        """End the processing of a key, successful or not."""
        self._processing.discard(key)
        self._measure("workqueue_work_duration_seconds", key, again=False)
        if key in self._causes:
            self._push(key)

    def _gauges(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """What is processed now, as far as there was a reader when it began (metrics.go)."""
        kernel = self._ctx.kernel
        meters, now_us = kernel.meters, kernel.now_us
        since = [] if meters is None else [meters.since.get((self, key), now_us) for key in self._processing]
        took_s = [(now_us - begun_us) / SECOND for begun_us in since]
        yield "workqueue_depth", self._labels, len(self._queue)
        yield "workqueue_unfinished_work_seconds", self._labels, sum(sorted(took_s))
        yield "workqueue_longest_running_processor_seconds", self._labels, max(took_s, default=0.0)

    def _measure(self, family: str, key: Key, *, again: bool) -> None:
        """Count the time since the key came into its present state.  again: a new one begins"""
        meters = self._ctx.kernel.meters
        if meters is None:
            return
        now_us = self._ctx.kernel.now_us
        begun_us = meters.since.pop((self, key), None)
        if begun_us is not None:
            meters.observe(family, self._labels, (now_us - begun_us) / SECOND)
        if again:
            meters.since[self, key] = now_us


def spawn_workers(
    ctx: Context, queue: WorkQueue, sync: Sync, workers: int, max_retries: int | None = None
) -> None:
    """Start `workers` tasks that take keys from the queue and sync them.

    sync: returns None when the key needs no more work, or an error text
    max_retries: number of retries in a row for a failing key, with growing delay; None: unlimited
    """
    failed = ctx.kernel.kind("sync-error", "queue", "key", "error")

    async def work() -> None:
        while True:
            key = await queue.get()
            error = await sync(key)
            if error is None:
                queue.forget(key)
            else:
                # This failure is the cause of the next try, so that causes show the delay.
                ctx.kernel.follow(ctx.record(failed, (queue.name, str(key), error)))
                if max_retries is None or queue.retries(key) < max_retries:
                    queue.add_rate_limited(key)
                else:
                    queue.forget(key)
            queue.done(key)

    for index in range(workers):
        ctx.spawn(work, name=f"{queue.name}-{index}")
