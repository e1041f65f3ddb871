"""`orrery back` shows a cluster as it was, and `orrery fork` runs another future."""

from pathlib import Path
from typing import Any

import pytest
import trio
import yaml

from sim.app.cli.main import main
from sim.app.inspect.forked import forked_plan
from sim.app.inspect.moment import as_it_was, instant
from sim.app.run import run_plan
from sim.errors import InputError
from sim.kernel import read
from sim.scenario.compile import load
from tests.cluster.scenario import WEB
from tests.cluster.travel.plans import fails

pytestmark = pytest.mark.slow
FAILS = fails("node-1", "70s")


def written(folder: Path, *steps: dict[str, Any], name: str = "t", **spec: Any) -> Path:
    """A scenario of two nodes with objects in a file of their own."""
    (folder / "web.yaml").write_text(yaml.safe_dump(WEB))
    body = {
        "duration": "2m",
        "cluster": {"nodes": [{"count": 2}]},
        "objects": ["web.yaml"],
        "timeline": list(steps),
        "expect": [{"name": "again", "eventually": "at least 6 pods are Running", "by": "1m"}],
        **spec,
    }
    file = folder / f"{name}.yaml"
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": name}}
    file.write_text(yaml.safe_dump({**head, "spec": body}))
    return file


def traced(file: Path) -> Path:
    trace = file.with_suffix(".trace")
    trio.run(lambda: run_plan(load(file, ["seed=5"]), trace_file=trace))
    return trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("back")
    found = traced(written(folder, FAILS))
    (folder / "web.yaml").unlink()  # the trace holds the objects of files
    return found


def test_back_reads_the_state_of_the_instant(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*words: str) -> list[str]:
        assert main(["back", str(trace), *words]) == 0
        return capsys.readouterr().out.splitlines()

    assert shown("65s")[:2] == [
        "at 1m5s: nodes 2, ready 2, pods 6, running 6", "faults in force: none"
    ]  # fmt: skip
    assert shown("75s", "--", "state")[1] == "faults in force: node-1-fails"
    assert [line.split()[:2] for line in shown("1m59s", "--", "get", "nodes")] == [
        ["NAME", "STATUS"], ["node-0", "Ready"], ["node-1", "NotReady"]
    ]  # fmt: skip
    assert shown("0s", "--", "get", "pods", "-A") == ["No resources found"]
    lease = yaml.safe_load(
        "\n".join(shown("71s", "--", "get", "lease/node-1", "-n", "orch-node-lease", "-o", "yaml"))
    )
    assert lease["spec"]["renewTime"] < "2026-01-01T00:01:10"
    described = shown("60s", "--", "describe", "node", "node-1")
    assert described[0] == "kind: Node"
    assert any("RegisteredNode" in line for line in described[described.index("events:") :])


def test_back_has_the_trace_of_the_run_so_far(trace: Path) -> None:
    records = [record for record in read(trace) if record.at_us <= 80_000_000]
    assert as_it_was(trace, instant("80s"), lambda cluster: cluster.kernel.trace.count) == len(records)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["3m"], "the run ends at 2m0s, before 3m0s"),
        (["soon"], "'soon' is no instant of a run"),
        (["1m", "--", "get", "pod", "none"], "there was no pod 'none' at 1m0s"),
        (["1m", "--", "draw"], "invalid choice: 'draw'"),
    ],
)
def test_wrong_question_is_refused(
    trace: Path, words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["back", str(trace), *words]) == 2
    assert error in capsys.readouterr().err


def test_trace_of_another_run_is_refused(trace: Path, tmp_path: Path) -> None:
    other = written(tmp_path, FAILS, objects=[])
    with pytest.raises(InputError, match="is of another run from record"):
        as_it_was(trace, instant("90s"), lambda _: None, other)


def test_trace_of_another_version_is_refused(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.app.inspect.moment.__version__", "9.9")
    with pytest.raises(InputError, match="and this is 9\\.9"):
        as_it_was(trace, instant("90s"), lambda _: None)


def test_fork_is_the_same_run_up_to_the_instant(trace: Path, tmp_path: Path) -> None:
    steps = tmp_path / "steps.yaml"
    steps.write_text(
        "- {crash: {actor: scheduler-0}}\n- {at: 90s, name: later, heal: {nodes: {name: node-1}}}\n"
    )
    plan = forked_plan(trace, instant("80s"), [steps], lasts="30s")
    assert [step.name for step in plan.steps] == ["node-1-fails", "crash-2", "later"]
    assert (plan.duration_us, plan.seed) == (110_000_000, 5)
    other = tmp_path / "other.trace"
    trio.run(lambda: run_plan(plan, trace_file=other))
    first, second = ([one for one in read(file) if one.at_us <= 80_000_000] for file in (trace, other))
    assert first == second
    assert as_it_was(other, instant("100s"), lambda cluster: [*cluster.do.active]) == ["crash-2"]


def test_fork_may_leave_out_later_steps_and_what_is_about_them(tmp_path: Path) -> None:
    about = {"name": "about", "never": "nodes have Ready=Unknown", "after": "node-1-fails"}
    file = written(tmp_path, FAILS, expect=[about])
    plan = forked_plan(file, instant("1m"), [], instead=True)
    assert (plan.steps, plan.expectations) == ((), ())


def test_step_before_the_instant_is_refused_at_its_place(tmp_path: Path) -> None:
    file, steps = written(tmp_path, FAILS), tmp_path / "steps.yaml"
    for text in (
        "- {at: 30s, crash: {actor: scheduler-0}}",
        "- {when: any pods are Pending, crash: {actor: scheduler-0}}",
    ):
        steps.write_text(text)
        with pytest.raises(InputError, match="may occur before 1m0s") as caught:
            forked_plan(file, instant("1m"), [steps])
        assert "steps.yaml:1:3" in str(caught.value)
