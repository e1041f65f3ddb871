"""A run leaves copies of its process at instants, from which `orrery fork` continues."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sim.app.cli.main import main
from sim.app.inspect import checkpoints
from sim.app.inspect.checkpoints import CHECKPOINTS_MAX, Checkpoints, Future, door_of
from sim.app.run import Result, run_plan
from sim.app.travel import FORKS, Job
from sim.errors import InputError
from sim.kernel import read_header
from sim.scenario.plan.plan import Plan
from sim.units import SECOND, Virtual
from tests.cluster.travel.plans import fails, perform, plan_of
from tests.cluster.travel.test_back import FAILS, written

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not FORKS, reason="no process can be forked")]
ROOT = Path(__file__).resolve().parents[3]
HALF = Virtual(30 * SECOND)
STEPS = "- {crash: {actor: scheduler-0}}\n- {at: 95s, name: later, heal: {nodes: {name: node-1}}}\n"


def ran(kept: Checkpoints, plan: Plan) -> Result:
    result: Result = kept.run(partial(run_plan, plan, rest=kept))
    return result


def test_run_with_checkpoints_has_the_trace_of_a_run_without() -> None:
    then = {"name": "then", "after": "node-b-0-fails", "heal": {"nodes": {"name": "node-b-0"}}}
    again = {"name": "again", "at": "35s", "every": "20s", "compact": {}}
    plan = plan_of(fails("node-b-0", "61s"), then, fails("node-c-0", "61s"), again)
    with closing(Checkpoints(plan, Virtual(5 * SECOND), "this")) as kept:
        result = ran(kept, plan)
        at_s = [one.at_us // SECOND for one in kept.copies]
    whole = perform(Job(plan, plan.seed), None)
    assert (result.trace_sha256, result.verdicts) == (whole.trace_sha256, whole.verdicts)
    assert len(at_s) <= CHECKPOINTS_MAX
    assert at_s == [*range(5, 170, 10), 170, 175]  # of 33, every second one was given up


def test_future_of_another_run_is_not_continued() -> None:
    plan = plan_of(fails("node-b-0", "61s"))
    with closing(Checkpoints(plan, HALF, "this")) as kept:

        def problem(other: Plan, program: str = "this") -> str:
            return kept._problem(Future(HALF, program, other, Path()), HALF)

        assert problem(plan_of(fails("node-c-0", "31s"))) == ""
        assert problem(plan, "another") == "the program has changed since the checkpoints were made"
        for other in (replace(plan, seed=9), plan_of(fails("node-b-0", "29s")), plan_of(early=[])):
            assert problem(other) == "it is another run up to the checkpoint at 30s"
        assert "another run" in problem(plan_of(expect=[{"name": "up", "always": "all nodes are ready"}]))
        assert problem(plan_of(expect=[])) == ""


def test_checkpoints_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for every_us, error in ((0, "no time passes"), (180 * SECOND, "the run ends at 3m0s, before the first")):
        with pytest.raises(InputError, match=error):
            Checkpoints(plan_of(), Virtual(every_us), "this")
    monkeypatch.setattr(checkpoints, "FORKS", False)
    with pytest.raises(InputError, match="no process can be copied on this system"):
        Checkpoints(plan_of(), HALF, "this")


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Path]:
    """The trace of a run of which another process holds checkpoints."""
    trace = tmp_path / "held.trace"
    words = [
        "run",
        str(written(tmp_path, FAILS)),
        "--checkpoints",
        "30s",
        "--trace",
        str(trace),
        "--no-report",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "orrery", *words, "-q"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as held:
        assert held.stderr is not None
        try:
            assert "holds 3 checkpoints, 30s to 1m30s, in " in held.stderr.readline()
            yield trace
        finally:
            held.terminate()
        assert held.wait() == 0
    assert not door_of(trace).exists()


def test_fork_continues_from_a_checkpoint_as_from_the_start(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again, steps = tmp_path / "again.trace", tmp_path / "steps.yaml"
    again.write_bytes(trace.read_bytes())  # without checkpoints
    steps.write_text(STEPS)

    def forked(run: Path, *words: str) -> tuple[bytes, str]:
        result = run.with_suffix(".forked")
        assert main(["fork", str(run), *words, "--trace", str(result), "--no-report", "-q"]) == 0
        return result.read_bytes(), capsys.readouterr().err

    future = ["80s", "--with", str(steps)]
    assert forked(trace, *future)[1] == "orrery: continues from the checkpoint at 1m0s\n"
    assert forked(trace, *future)[0] == forked(again, *future)[0]
    assert len(read_header(trace.with_suffix(".forked"))["document"]["spec"]["timeline"]) == 3
    assert (
        forked(trace, "65s", "--instead", "--for", "2m")[0]
        == forked(again, "65s", "--instead", "--for", "2m")[0]
    )
    _, said = forked(trace, "29s", "--instead")
    assert said == "orrery: the run is repeated from its start: no checkpoint is before 29s\n"


def test_checkpoints_of_a_trace_have_one_holder(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", str(trace.parent / "t.yaml"), "--checkpoints", "30s", "--trace", str(trace)]
    assert main(run) == 2
    assert "another command holds checkpoints of this trace" in capsys.readouterr().err


def test_fork_repeats_the_run_when_the_holder_has_been_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "held.trace"
    run = ["run", str(written(tmp_path, FAILS)), "--checkpoints", "1m", "--hold", "0s", "--trace", str(trace)]
    assert main([*run, "--no-report", "-q"]) == 0
    assert not door_of(trace).exists()
    door_of(trace).touch()
    assert main(["fork", str(trace), "65s", "--instead", "--no-report", "-q"]) == 0
    assert "from its start: the command that held checkpoints has ended" in capsys.readouterr().err
