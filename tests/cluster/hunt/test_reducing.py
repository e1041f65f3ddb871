"""Shrinking runs the beginning of its candidates once, and has the result of runs from the start."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from sim.app.hunt import reducing
from sim.app.hunt.reducing import EXPLAINED, explained, smallest
from sim.app.study.outcome import perform
from sim.app.travel import FORKS, sharing
from tests.cluster.hunt.test_judging import OUTAGE, document
from tests.cluster.hunt.test_story import CAUSE, STALL

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not FORKS, reason="no process can be forked")]
BEFORE_US = 39_999_999


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def facts(rest_us: int) -> list[Any]:
    """What is explained of a failure, of a run without one, and of the failure once more."""
    jobs = [
        explained(one, rest_us=rest_us) for one in (document(OUTAGE), document(), document(STALL, OUTAGE))
    ]
    return [structs.asdict(perform(job)) | {"wall_s": 0} for job in jobs]


def test_runs_with_a_common_beginning_are_explained_as_from_the_start(folder: Path) -> None:
    before = EXPLAINED.shared
    with EXPLAINED:
        shared = facts(BEFORE_US)
        assert len([*folder.iterdir()]) == 1  # of the process that rests
    assert shared == facts(0)
    assert shared[0]["causes"] == (CAUSE,)
    assert EXPLAINED.shared == before + 3
    assert [*folder.rglob("*")] == []


def test_shrinking_by_shared_runs_arrives_where_other_runs_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shrunk() -> tuple[Any, ...]:
        before = EXPLAINED.shared
        with EXPLAINED:
            result = smallest(document(STALL, OUTAGE), CAUSE, lambda jobs: map(perform, jobs), budget=25)
        return EXPLAINED.shared - before, result

    monkeypatch.setattr(reducing, "FORK_S", 0.0)
    count, small = shrunk()
    assert count > 5
    monkeypatch.setattr(sharing, "FORKS", False)
    assert shrunk() == (0, small)
    assert [*folder.rglob("*")] == []


def test_expectations_that_the_failure_is_not_of_are_left_out_by_one_run() -> None:
    large, runs = document(OUTAGE), []
    others = [{"name": f"other {n}", "eventually": "all nodes are ready", "by": "3m"} for n in range(8)]
    large["spec"]["expect"] += others

    def counted(jobs: Any) -> Any:
        for job in jobs:
            runs.append(job)
            yield perform(job)

    small = smallest(large, CAUSE, counted, budget=1).document
    assert [one["name"] for one in small["spec"]["expect"]] == ["nodes stay"]
    assert len(runs) == 4  # all and one without the drawn step, one with it, and a candidate
