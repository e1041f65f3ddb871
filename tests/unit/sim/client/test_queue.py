"""The queue of a control loop: each key once, with its cause, its delays and its retries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sim.client.queue import WorkQueue, never
from sim.client.rest.limiter import ItemExponential


class Timer:
    """A delay that ends when the test says so."""

    def __init__(self, at_us: int, ends: Any, key: str) -> None:
        self.at_us, self.ends, self.key = at_us, ends, key
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def end(self) -> None:
        self.ends(self.key)


class Meters:
    """Counts and observations."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.since: dict[Any, int] = {}
        self.observed: list[tuple[str, float]] = []

    def count(self, family: str, labels: Any) -> None:
        self.counts[family] = self.counts.get(family, 0) + 1

    def observe(self, family: str, labels: Any, value: float) -> None:
        self.observed.append((family, value))


class Process:
    """The context of a process, with a kernel of which the test sets time and cause."""

    name = "loop"

    def __init__(self, measured: bool = False) -> None:
        self.meters = Meters() if measured else None
        self.timers: list[Timer] = []
        self.woken: list[int] = []
        self.followed: list[int] = []
        self.kernel: Any = SimpleNamespace(
            queues={},
            gauges={},
            cause=0,
            now_us=0,
            meters=self.meters,
            wake=self.woken.append,
            follow=self.followed.append,
            ticket=lambda: 7,
            standing=SimpleNamespace(gone=len),
        )
        self.clock = SimpleNamespace(real_us=lambda us: us)

    def now_us(self) -> int:
        return int(self.kernel.now_us)

    def timer_us(self, delay_us: int, ends: Any, key: str) -> Timer:
        self.timers.append(Timer(self.kernel.now_us + delay_us, ends, key))
        return self.timers[-1]


def made(measured: bool = False) -> tuple[Process, WorkQueue]:
    process: Any = Process(measured)
    return process, WorkQueue(process, "q", ItemExponential(5, 40))


def take(queue: WorkQueue) -> Any:
    """Take a key that waits."""
    queue._untouched = False
    return queue._take()


def test_a_key_waits_once_and_again_after_its_processing() -> None:
    process, queue = made()
    assert process.kernel.queues == {("loop", "q"): queue}
    for key in "aba":
        queue.add(key)
    assert len(queue) == 2
    assert take(queue) == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 1  # while it is processed it does not wait
    queue.done("a")
    assert len(queue) == 2
    assert [take(queue), take(queue)] == ["b", "a"]
    queue.done("a")
    queue.done("b")
    assert len(queue) == 0
    assert not never("a")


def test_the_cause_of_a_key_is_the_first_one_once_a_worker_has_begun() -> None:
    process, queue = made()

    def add(key: str, cause: int, **more: bool) -> None:
        process.kernel.cause = cause
        queue.add(key, **more)

    # of what is found at the start the latest write is the cause
    for cause in (3, 5, 4):
        add("a", cause)
    queue.add_cause("a", 6)
    queue.add_cause("a", 5)
    queue.add_cause("none", 9)
    take(queue)
    add("b", 3)
    add("b", 5)
    queue.add_cause("b", 9)
    take(queue)
    add("c", 3)
    add("c", 2, anew=True)
    take(queue)
    assert process.followed == [6, 3, 2]
    process.kernel.cause = 8
    assert (queue.cause, queue.gone("uid")) == (8, 3)


def test_of_several_delays_of_a_key_the_earliest_end_counts() -> None:
    process, queue = made()
    for delay_us in (0, -1):
        queue.add_after_us("now", delay_us)
    assert (len(queue), process.timers) == (1, [])
    for delay_us in (20, 20, 30):
        queue.add_after_us("a", delay_us)
    assert [timer.at_us for timer in process.timers] == [20]
    queue.add_after_us("a", 19)
    assert [timer.is_cancelled for timer in process.timers] == [True, False]
    process.timers[1].end()
    assert len(queue) == 2
    queue.add_after_us("a", 50)
    assert process.timers[-1].at_us == 50


def test_failures_of_a_key_are_counted_until_it_is_forgotten() -> None:
    process, queue = made()
    for _ in range(2):
        queue.add_rate_limited("a")
        process.timers[-1].end()
    assert [timer.at_us for timer in process.timers] == [5, 10]
    assert queue.retries("a") == 2
    queue.forget("a")
    assert queue.retries("a") == 0


def test_a_worker_that_waits_is_woken_once_for_each_key() -> None:
    process, queue = made()
    queue._waiters.extend([1, 2])
    queue.add("a")
    queue.add("a")
    assert process.woken == [1]
    queue.add("b")
    queue.add("c")
    assert process.woken == [1, 2]


def test_a_key_that_a_worker_would_return_wakes_none() -> None:
    def ripe(
        waiting: bool = True, known: bool = False, processed: bool = False, returned: bool = True
    ) -> int:
        """The number of keys in the queue after the delay of a key has ended."""
        process, queue = made()
        queue.returns = lambda key: returned
        queue.add_after_us("a", 9)
        if known:
            queue._causes["a"] = 0
        if processed:
            queue._processing.add("a")
        if waiting:
            queue._waiters.append(1)
        process.timers[0].end()
        assert queue.retries("a") == 0
        assert (len(process.timers) == 2) is (len(queue) == 0 and not known and not processed)
        return len(queue)

    assert ripe() == 0
    assert ripe(returned=False) == 1
    assert ripe(waiting=False) == 1
    assert ripe(known=True) == 0
    assert ripe(processed=True) == 0


def test_times_in_the_queue_and_at_work_are_measured() -> None:
    process, queue = made(measured=True)
    meters = process.meters
    assert meters is not None
    for key in "abb":
        queue.add(key)
    process.kernel.now_us = 2_000_000
    take(queue)
    process.kernel.now_us = 5_000_000
    take(queue)
    process.kernel.now_us = 6_000_000
    gauges = {family: value for family, _, value in queue._gauges()}
    assert gauges == {
        "workqueue_depth": 0,
        "workqueue_unfinished_work_seconds": 5.0,
        "workqueue_longest_running_processor_seconds": 4.0,
    }
    queue.done("a")
    queue.done("a")
    assert meters.observed == [
        ("workqueue_queue_duration_seconds", 2.0),
        ("workqueue_queue_duration_seconds", 5.0),
        ("workqueue_work_duration_seconds", 4.0),
    ]
    queue.add_rate_limited("c")
    assert meters.counts == {"workqueue_adds_total": 2, "workqueue_retries_total": 1}
    idle = {family: value for family, _, value in made()[1]._gauges()}
    assert set(idle.values()) == {0}
