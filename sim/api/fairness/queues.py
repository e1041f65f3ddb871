"""The seats and queues of one priority level: which requests run, which wait, which is next.

Arrivals and ends of requests, each with its time, give starts: fair queuing in virtual time, where
a queue that has received little service is served before one that has received much.

Holds: no more seats are taken than exist, except by a single request that wants more than all; each
request starts at most once; of equal queues the least recently served is first; no clock, no random
draws.

Mirrors  kubernetes v1.25 apiserver pkg/util/flowcontrol/fairqueuing/queueset/{queueset,types}.go.
Differs  a request that has waited too long is refused at that time; upstream refuses it when
         another arrives in its queue; the progress of virtual time is rounded down to 1e-8
         seat-seconds at each event, in integers.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from enum import Enum
from typing import NamedTuple

from sim.api.fairness.classification import Queuing, Work, deal
from sim.units import MS

GUESS_US = 3 * MS  # queueset.go, estimatedServiceDuration: the duration assumed at the start
PER_SEAT_US = 100  # seatsecs.go: progress is counted in 1e-8 seat-seconds


class Verdict(Enum):
    """The answer to an arrival. WAIT: the request is queued, and may be the next to start."""

    START = "start"
    WAIT = "wait"
    REFUSE = "refuse"


class _Job:
    """A waiting or running request. began_us: -1 while it waits."""

    __slots__ = ("arrival", "began_us", "queue", "work")

    def __init__(self, work: Work, queue: _Queue | None, arrival: int) -> None:
        self.work = work
        self.queue = queue
        self.arrival = arrival
        self.began_us = -1

    @property
    def seats(self) -> int:
        return max(self.work.seats, self.work.final_seats)

    @property
    def cost(self) -> int:
        """Seats × time that it is expected to take."""
        work = self.work
        return (work.seats * GUESS_US + work.final_seats * work.extra_us) * PER_SEAT_US


class _Queue:
    """Requests of the flows that use this queue. next: virtual start time of its next request."""

    __slots__ = ("index", "next", "seats", "waiting", "waiting_cost")

    def __init__(self, index: int) -> None:
        self.index = index
        self.next = 0
        self.seats = 0  # taken by its requests
        self.waiting: dict[int, _Job] = {}  # oldest first
        self.waiting_cost = 0

    @property
    def active(self) -> bool:
        return self.seats > 0 or bool(self.waiting)

    def bound(self) -> None:
        """A request does not start before it arrives in virtual time either
        (boundNextDispatchLocked).
        """
        for oldest in self.waiting.values():
            self.next = max(self.next, oldest.arrival)
            return


class QueueState(NamedTuple):
    """One queue, as the debugging pages show it.

    position: among the queues of the level
    waiting: numbers of the requests, oldest first
    seats: taken by running requests
    next: virtual start time of its next request, in 1e-8 seat-seconds
    initial_seats, seats_max, work: sums over the waiting requests, the last in 1e-8 seat-seconds
    """

    position: int
    waiting: tuple[int, ...] = ()
    executing: int = 0
    seats: int = 0
    next: int = 0
    initial_seats: int = 0
    seats_max: int = 0
    work: int = 0


class QueueSet:
    """The state of one level.

    limit: its seats
    queuing: None if requests cannot wait
    """

    def __init__(self, limit: int, queuing: Queuing | None) -> None:
        self.limit = limit
        self.queuing = queuing
        self.in_use = 0
        self._queues: dict[int, _Queue] = {}
        self._jobs: dict[int, _Job] = {}
        self._waiting_queues: list[int] = []  # indexes of queues with waiting requests, in order
        self._wanted = 0  # seats of all waiting and running requests
        self._active = 0  # number of queues with waiting or running requests
        self._progress = 0
        self._at_us = 0
        self._arrivals = 0
        self._last_served = -1  # the queue served last

    def configure(self, limit: int, queuing: Queuing | None) -> None:
        """Applies a changed configuration.

        Requests in a queue that no flow uses any more wait there until they are served.
        """
        self.limit, self.queuing = limit, queuing

    @property
    def waiting(self) -> bool:
        """True if a request waits."""
        return bool(self._waiting_queues)

    @property
    def executing(self) -> tuple[int, ...]:
        """The numbers of the requests that have seats."""
        return tuple([number for number, job in self._jobs.items() if job.began_us >= 0])

    def queued(self, number: int) -> int:
        """The number of requests in the queue of a request, with this one."""
        queue = self._jobs[number].queue
        return 0 if queue is None else len(queue.waiting)

    @property
    def progress(self) -> int:
        """Virtual time, in 1e-8 seat-seconds."""
        return self._progress

    def states(self) -> list[QueueState]:
        """All queues of the level, in the order of their indexes."""
        count = 0 if self.queuing is None else self.queuing.queues
        executing: dict[int, int] = {}
        for job in self._jobs.values():
            if job.queue is not None and job.began_us >= 0:
                executing[job.queue.index] = executing.get(job.queue.index, 0) + 1
        found = []
        for index in range(count):
            queue = self._queues.get(index)
            if queue is None:
                found.append(QueueState(index))
                continue
            jobs = queue.waiting.values()
            found.append(
                QueueState(
                    index,
                    tuple(queue.waiting),
                    executing.get(index, 0),
                    queue.seats,
                    queue.next,
                    sum(job.work.seats for job in jobs),
                    sum(job.seats for job in jobs),
                    queue.waiting_cost,
                )
            )
        return found

    # --- events ---------------------------------------------------------------------------------

    def arrive(self, number: int, flow: int, work: Work, now_us: int) -> Verdict:
        """A request arrives; after WAIT the caller calls `start_next`."""
        self._sync(now_us)
        queuing = self.queuing
        if queuing is None:
            job = _Job(work, None, self._progress)
            if not self._fits(job.seats):
                return Verdict.REFUSE
            self._jobs[number] = job
            self._begin(job, now_us)
            return Verdict.START
        queue = self._shortest(deal(flow, queuing.queues, queuing.hand))
        if self.in_use >= self.limit and len(queue.waiting) >= queuing.length:
            return Verdict.REFUSE
        if not queue.active:
            self._active += 1
            queue.next = self._progress
        if not queue.waiting:
            insort(self._waiting_queues, queue.index)
        job = self._jobs[number] = queue.waiting[number] = _Job(work, queue, self._progress)
        queue.waiting_cost += job.cost
        self._wanted += job.seats
        return Verdict.WAIT

    def start_next(self, now_us: int) -> int | None:
        """Starts the next request; None if none waits, or if its seats are not free."""
        if not self._waiting_queues or self.in_use >= self.limit:
            return None
        self._sync(now_us)
        queue = self._next_queue()
        number = next(iter(queue.waiting))
        job = queue.waiting[number]
        if not self._fits(job.seats):
            return None
        self._last_served = queue.index
        self._remove_waiting(queue, number, job)
        queue.next += job.cost
        queue.seats += job.seats
        queue.bound()
        self._begin(job, now_us)
        return number

    def finish(self, number: int, now_us: int) -> int:
        """A request has been served.

        Returns after how many microseconds its seats are free, by `release`; 0: they are free now.
        """
        self._sync(now_us)
        job = self._jobs[number]
        if job.queue is not None:
            guessed_us = GUESS_US - (now_us - job.began_us)
            job.queue.next -= job.work.seats * guessed_us * PER_SEAT_US
            job.queue.bound()
        if not job.work.extra_us:
            self.release(number, now_us)
        return job.work.extra_us

    def release(self, number: int, now_us: int) -> None:
        """Frees the seats of a served request."""
        self._sync(now_us)
        job = self._jobs.pop(number)
        self.in_use -= job.seats
        if job.queue is not None:
            job.queue.seats -= job.seats
            self._wanted -= job.seats
            self._active -= not job.queue.active

    def give_up(self, number: int, now_us: int) -> bool:
        """Removes a request that has waited too long; False if it does not wait any more."""
        job = self._jobs.get(number)
        if job is None or job.queue is None or job.began_us >= 0:
            return False
        self._sync(now_us)
        del self._jobs[number]
        self._remove_waiting(job.queue, number, job)
        job.queue.bound()
        self._wanted -= job.seats
        self._active -= not job.queue.active
        return True

    # --- decisions ------------------------------------------------------------------------------

    def _sync(self, now_us: int) -> None:
        """Advances virtual time: by the seats in use per active queue."""
        past_us, self._at_us = now_us - self._at_us, now_us
        if past_us and self._active:
            self._progress += min(self._wanted, self.limit) * past_us * PER_SEAT_US // self._active

    def _fits(self, seats: int) -> bool:
        return self.in_use + seats <= self.limit or not self.in_use

    def _shortest(self, hand: list[int]) -> _Queue:
        """The queue of a hand with the least waiting cost.

        The search starts at a different queue each time, so that no queue is preferred.
        """
        offset = self._arrivals % len(hand)
        self._arrivals += 1
        best: _Queue | None = None
        for index in hand[offset:] + hand[:offset]:
            queue = self._queues.get(index)
            if queue is None:
                queue = self._queues[index] = _Queue(index)
            if best is None or queue.waiting_cost < best.waiting_cost:
                best = queue
        assert best is not None
        return best

    def _next_queue(self) -> _Queue:
        """The queue with the earliest virtual end of its oldest request, from the one after the
        last served.
        """
        start = bisect_right(self._waiting_queues, self._last_served)
        best: _Queue | None = None
        best_end = 0
        for index in self._waiting_queues[start:] + self._waiting_queues[:start]:
            queue = self._queues[index]
            end = queue.next + next(iter(queue.waiting.values())).cost
            if best is None or end < best_end:
                best, best_end = queue, end
        assert best is not None
        return best

    def _remove_waiting(self, queue: _Queue, number: int, job: _Job) -> None:
        del queue.waiting[number]
        queue.waiting_cost -= job.cost
        if not queue.waiting:
            self._waiting_queues.remove(queue.index)

    def _begin(self, job: _Job, now_us: int) -> None:
        job.began_us = now_us
        self.in_use += job.seats
