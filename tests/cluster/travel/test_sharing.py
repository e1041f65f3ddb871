"""A job that continues from a process that rests has the result of a run from the start."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sim.app.run import Result
from sim.app.travel import FORKS, CrashError, Job, Rest, Sharing, sharing
from sim.errors import InputError
from sim.units import SECOND, Virtual
from tests.cluster.travel.plans import EARLY, fails, perform, plan_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not FORKS, reason="no process can be forked")]
MINUTE = Virtual(60 * SECOND)
# At 70 s the repeated early step occurs too: the later step was planned first, at the start.
FAILS = fails("node-a-0", "70s", **{"for": "30s"})
LATER: list[list[dict[str, Any]]] = [
    [],
    [FAILS],
    [
        {"name": "heals", "after": "end of drawn", "delay": "5s", "fail": FAILS["fail"]},
        {**fails("node-b-0", "70s"), "name": "drawn", "for": "10s..20s", "at": "61s..90s"},
        fails("node-c-0", "61s"),
    ],
]


@pytest.fixture
def minute() -> Iterator[Sharing[Result]]:
    with Sharing(perform) as found:
        yield found


def facts(result: Result) -> tuple[Any, ...]:
    return result.trace_sha256, result.steps, result.verdicts, result.refused, result.timeline.to_plain()


@pytest.mark.parametrize("later_first", [True, False])
def test_runs_from_a_rest_equal_runs_from_the_start(minute: Sharing[Result], later_first: bool) -> None:
    waits = {
        "name": "waits", "when": "any nodes have Ready=Unknown", "after": "node-a-0-fails",
        "crash": {"actor": "controller-manager-0"},
    }  # fmt: skip
    for later in LATER:
        known = [*EARLY, waits] if FAILS in later else EARLY
        plan = plan_of(*known, *later, early=[]) if not later_first else plan_of(*known, early=later)
        assert facts(minute(Job(plan, 3, MINUTE))) == facts(perform(Job(plan, 3), None))
    assert minute.shared == len(LATER)


def test_order_of_steps_at_one_instant_is_that_of_the_document(minute: Sharing[Result]) -> None:
    steps = [fails("node-a-0", "61s"), fails("node-b-0", "61s")]
    hashes = []
    for timeline in (steps, steps[::-1], [steps[0]], steps):
        plan = plan_of(*timeline)
        hashes.append(minute(Job(plan, 3, MINUTE)).trace_sha256)
        assert hashes[-1] == perform(Job(plan, 3), None).trace_sha256
    assert len(set(hashes)) == 3


def test_one_common_part_serves_other_names_durations_and_steps() -> None:
    plans = [plan_of(FAILS), replace(plan_of(), name="other"), plan_of(duration="2m")]
    with Sharing(perform) as found:
        results = [found(Job(plan, 3, MINUTE)) for plan in plans]
        assert len(found._resting) == 1
        found(Job(plans[0], 4, MINUTE))
        assert len(found._resting) == 2
    assert [one.name for one in results] == ["t", "other", "t"]
    assert [one.virtual_us for one in results] == [180 * SECOND, 180 * SECOND, 120 * SECOND]


def test_job_of_the_process_is_that_which_was_asked_for() -> None:
    def more_of(job: Job, rest: Rest | None) -> Any:
        perform(job, rest)
        return (job if rest is None else rest.job).more

    with Sharing(more_of) as found:
        assert [found(Job(plan_of(), 3, MINUTE, more)) for more in ("first", "second")] == ["first", "second"]


def test_crash_of_a_job_is_reported_and_the_next_one_runs() -> None:
    def crash(job: Job, rest: Rest | None) -> str:
        result = perform(job, rest)
        assert rest is not None
        if rest.job.more:
            os.kill(os.getpid(), signal.SIGKILL)
        return result.trace_sha256

    with Sharing(crash) as found:
        with pytest.raises(CrashError, match="its process ended by SIGKILL"):
            found(Job(plan_of(), 3, MINUTE, more=True))
        assert found(Job(plan_of(), 3, MINUTE)) == perform(Job(plan_of(), 3), None).trace_sha256


def test_error_of_a_plan_is_raised_and_the_next_one_runs(minute: Sharing[Result]) -> None:
    wrong = [{"name": "no such", "eventually": "at least 1 pods labelled app=none are Running", "by": "1m"}]
    with pytest.raises(InputError, match="no pods here are labelled"):
        minute(Job(plan_of(expect=wrong), 3, MINUTE))
    assert minute(Job(plan_of(), 3, MINUTE)).ok


def test_processes_end_with_what_asks_them() -> None:
    with Sharing(perform) as found:
        found(Job(plan_of(), 3, MINUTE))
        (resting,) = found._resting.values()
        assert resting is not None
        os.kill(resting.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(resting.pid, 0)


def test_run_that_ends_before_its_rest_is_performed_from_the_start() -> None:
    def early(job: Job, rest: Rest | None) -> str:
        return "from the start" if rest is None else "too early"

    with Sharing(early) as found:
        assert [found(Job(plan_of(), 3, MINUTE)) for _ in range(2)] == ["from the start"] * 2


def test_job_is_performed_from_the_start_without_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "FORKS", False)
    plan = plan_of(FAILS)
    with Sharing(perform) as found:
        assert found(Job(plan, 3, MINUTE)).trace_sha256 == perform(Job(plan, 3), None).trace_sha256
        assert not found.shared
