"""Queues of a priority level against a model that keeps only lists and recounts everything."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.api.fairness.classification import Queuing, Work, deal
from sim.api.fairness.queues import GUESS_US, PER_SEAT_US, QueueSet, Verdict
from sim.units import MS


@dataclass
class Job:
    number: int
    work: Work
    arrival: int
    began_us: int = -1

    @property
    def seats(self) -> int:
        return max(self.work.seats, self.work.final_seats)

    @property
    def cost(self) -> int:
        return (self.work.seats * GUESS_US + self.work.final_seats * self.work.extra_us) * PER_SEAT_US


@dataclass
class Queue:
    next: int = 0
    waiting: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)

    def bound(self) -> None:
        if self.waiting:
            self.next = max(self.next, self.waiting[0].arrival)


class Model:
    """queueset.go read aloud."""

    def __init__(self, limit: int, queuing: Queuing) -> None:
        self.limit, self.queuing = limit, queuing
        self.queues = [Queue() for _ in range(queuing.queues)]
        self.progress = self.at_us = self.arrivals = 0
        self.robin = -1

    @property
    def in_use(self) -> int:
        return sum(job.seats for queue in self.queues for job in queue.running)

    def sync(self, now_us: int) -> None:
        active = [queue for queue in self.queues if queue.waiting or queue.running]
        wanted = sum(job.seats for queue in active for job in queue.waiting + queue.running)
        if active and now_us > self.at_us:
            self.progress += min(wanted, self.limit) * (now_us - self.at_us) * PER_SEAT_US // len(active)
        self.at_us = now_us

    def arrive(self, number: int, flow: int, work: Work, now_us: int) -> bool:
        self.sync(now_us)
        hand = deal(flow, self.queuing.queues, self.queuing.hand)
        offset = self.arrivals % len(hand)
        self.arrivals += 1
        order = [self.queues[index] for index in hand[offset:] + hand[:offset]]
        queue = min(order, key=lambda one: sum(job.cost for job in one.waiting))
        if self.in_use >= self.limit and len(queue.waiting) >= self.queuing.length:
            return False
        if not queue.waiting and not queue.running:
            queue.next = self.progress
        queue.waiting.append(Job(number, work, self.progress))
        return True

    def start_next(self, now_us: int) -> int | None:
        self.sync(now_us)
        count = len(self.queues)
        order = [(self.robin + 1 + step) % count for step in range(count)]
        order = [index for index in order if self.queues[index].waiting]
        if not order:
            return None
        index = min(order, key=lambda i: self.queues[i].next + self.queues[i].waiting[0].cost)
        queue = self.queues[index]
        job = queue.waiting[0]
        in_use = self.in_use
        if in_use + job.seats > self.limit and (job.seats <= self.limit or in_use):
            return None
        self.robin = index
        queue.running.append(queue.waiting.pop(0))
        queue.next += job.cost
        queue.bound()
        job.began_us = now_us
        return job.number

    def finish(self, number: int, now_us: int) -> None:
        self.sync(now_us)
        for queue in self.queues:
            for job in queue.running:
                if job.number == number:
                    queue.next -= job.work.seats * (GUESS_US - now_us + job.began_us) * PER_SEAT_US
                    queue.bound()

    def release(self, number: int, now_us: int) -> None:
        self.sync(now_us)
        for queue in self.queues:
            queue.running = [job for job in queue.running if job.number != number]

    def give_up(self, number: int, now_us: int) -> None:
        self.sync(now_us)
        for queue in self.queues:
            kept = [job for job in queue.waiting if job.number != number]
            if len(kept) < len(queue.waiting):
                queue.waiting = kept
                queue.bound()


WORK = st.builds(Work, st.integers(1, 3), st.sampled_from([0, 0, 2]), st.sampled_from([0, 5 * MS]))
STEPS = st.lists(
    st.tuples(
        st.integers(0, 20_000),
        st.sampled_from(["arrive"] * 3 + ["finish"] * 2 + ["give up"]),
        st.integers(0, 5),
        WORK,
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4), st.sampled_from([Queuing(1, 1, 3), Queuing(4, 1, 5), Queuing(8, 3, 2)]), STEPS)
def test_requests_start_in_the_order_of_the_model(
    limit: int, queuing: Queuing, steps: list[tuple[int, str, int, Work]]
) -> None:
    queues, model = QueueSet(limit, queuing), Model(limit, queuing)
    waiting: list[int] = []
    running: dict[int, Work] = {}
    held: list[tuple[int, int]] = []  # (until, number): served, its events not yet
    now_us = 0
    for number, (past_us, what, which, work) in enumerate(steps):
        now_us += past_us
        for until_us, served in [one for one in held if one[0] <= now_us]:
            queues.release(served, now_us)
            model.release(served, now_us)
            held.remove((until_us, served))
        if what == "arrive":
            verdict = queues.arrive(number, which * 977, work, now_us)
            assert (verdict is Verdict.WAIT) == model.arrive(number, which * 977, work, now_us)
            if verdict is Verdict.WAIT:
                waiting.append(number)
                running[number] = work
        elif what == "give up" and waiting:
            gone = waiting.pop(which % len(waiting))
            del running[gone]
            assert queues.give_up(gone, now_us)
            model.give_up(gone, now_us)
        elif what == "finish" and (started := [n for n in running if n not in waiting]):
            done = started[which % len(started)]
            extra_us = queues.finish(done, now_us)
            model.finish(done, now_us)
            assert extra_us == running.pop(done).extra_us
            if extra_us:
                held.append((now_us + extra_us, done))
            else:
                model.release(done, now_us)
        else:
            continue
        while (begun := queues.start_next(now_us)) is not None:
            assert begun == model.start_next(now_us)
            waiting.remove(begun)
        assert model.start_next(now_us) is None
        assert queues.in_use == model.in_use
        assert queues.progress == model.progress
        assert queues.waiting == bool(waiting)
