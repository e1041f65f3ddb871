"""`orrery run --seeds`: every seed has the outcome of a run of its own, independent of earlier runs
in the process.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event, Thread

import pytest
import trio

from sim.app.run import run_plan
from sim.app.study import pool
from sim.app.study.outcome import Job, Key, Outcome, packed
from sim.app.study.pool import Worker, processes
from sim.scenario.compile import load

ROOT = Path(__file__).resolve().parents[3]
SMALL = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: small}
spec:
  duration: 70s
  cluster: {nodes: [{count: 3}]}
  timeline: [{at: 20s, name: death, fail: {nodes: {name: node-1}, how: power-loss}}]
  expect:
    - {name: found, when: "nodes named node-1 have Ready=Unknown", within: [29.6s, 45.6s], after: death}
    - {name: mean, when: "nodes named node-1 have Ready=Unknown", after: death, over: {mean: [30s, 45s], seeds: 4}}
"""


def orrery(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sim.app.cli.main", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are forks of this process, though a runner of tests has a thread of its own."""
    monkeypatch.setattr(pool, "_start_method", lambda: "fork")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


@pytest.mark.slow
def test_many_seeds_give_what_single_runs_give_and_a_second_start_reads_it(
    small: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    command = ("run", str(small), "--seed", "3", "--seeds", "4", "-j", "2", "--resume", str(kept), "--json")
    first = orrery(*command)
    assert first.returncode == 0, first.stderr
    study = json.loads(first.stdout)
    plan = load(small)
    for run in study["runs"]:
        alone = trio.run(lambda seed=run["seed"]: run_plan(plan, seed=seed))
        assert (run["trace_sha256"], run["events"]) == (alone.trace_sha256, alone.steps)
    found, mean = study["expectations"]
    assert found["held"] == 4 and len(found["quantities"][0]["values"]) == 4
    assert mean["over"]["ok"] is True
    before = kept.read_bytes()
    again = orrery(*command)
    assert json.loads(again.stdout) == study and kept.read_bytes() == before


@pytest.mark.slow
def test_rejected_commands_are_reported_for_many_seeds_as_for_one(small: Path) -> None:
    service = "{apiVersion: v1, kind: Service, metadata: {name: d}, spec: {clusterIP: 1.2.3.4, ports: [{port: 80}]}}"
    late = f"timeline: [{{at: 1m, apply: {{objects: [{service}]}}}}, "
    small.write_text(small.read_text().replace("timeline: [", late))
    one = orrery("run", str(small), "--no-report")
    (line,) = [line for line in one.stdout.splitlines() if line.startswith("refused ")]
    assert "apply services/d at 1m" in line
    many = orrery("run", str(small), "--no-report", "--seeds", "2", "-j", "1").stdout
    assert f"refused in 2 of 2 seeds; seed 0: {line.removeprefix('refused ')[:60]}" in many
    told = json.loads(orrery("run", str(small), "--seeds", "2", "-j", "1", "--json").stdout)["runs"]
    assert [len(run["refused"]) for run in told] == [1, 1]
    swept = orrery("sweep", str(small), "--no-report", "--vary", "cluster.boot=1s,10s", "--seeds", "1").stdout
    for boot in ("1s", "10s"):
        assert f"refused at {boot} in 1 of 1 seeds; seed 0: apply services/d at 1m" in swept


@pytest.mark.slow
def test_bounds_over_seeds_decide_the_exit_status(small: Path, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    failed = orrery(
        "run", str(small), "--seeds", "2", "-j", "1", "--no-report", "--junit", str(junit),
        "--set", "expect[1].over={mean: [0s, 1s]}",
    )  # fmt: skip
    assert failed.returncode == 1 and "mean 0.00s to 1.00s" in failed.stdout
    (shown,) = re.findall(r'message="(.*?)"', junit.read_text())
    assert shown.startswith("measured mean ") and shown.endswith(", wanted mean 0.00s to 1.00s over seeds")
    assert f"{shown}\nholds in 2 of 2 seeds" in junit.read_text()
    few = orrery("run", str(small), "--seeds", "2", "-j", "1", "--no-report", "--junit", str(junit))
    assert few.returncode == 0 and '<skipped message="2 seeds are too few" />' in junit.read_text()
    bad = orrery("run", str(small), "--seeds", "2", "--set", "expect[1].over={p101: [0s, 1s]}")
    assert bad.returncode == 2 and "does not know 'p101'" in bad.stderr
    assert orrery("run", str(small), "-j", "2").returncode == 2


@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_crashed_worker_costs_one_seed_and_is_replaced(small: Path) -> None:
    short, long = packed(load(small)), packed(load(small, ["duration=9h"]))
    jobs = [Job(Key("k"), 0, b"not a plan"), Job(Key("k"), 1, short), Job(Key("k"), 2, long)]
    found = []
    for one in processes(1)(jobs):
        found.append(one)
        if one.seed == 1:
            (performer,) = _performers()
            os.kill(performer, signal.SIGKILL)
    assert [one.seed for one in found] == [0, 1, 2]
    assert found[0].error.startswith("UnpicklingError") and found[1].ok
    assert found[2].error == "its process ended by SIGKILL"


def test_a_worker_ignores_interrupts_from_its_first_instruction_on() -> None:
    worker = Worker()
    assert worker.process.pid is not None
    os.kill(worker.process.pid, signal.SIGINT)  # it has hardly begun
    worker.give(Job(Key("k"), 0, b"not a plan"))
    assert worker.take().error.startswith("UnpicklingError")
    worker.end()


def test_worker_that_crashed_while_idle_costs_its_next_job() -> None:
    worker = Worker()
    assert worker.process.pid is not None
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.join()
    worker.give(Job(Key("k"), 7, b"not a plan"))
    assert worker.take().error == "its process ended by SIGKILL"
    worker.end()


@pytest.mark.usefixtures("forked")
def test_interrupt_during_the_start_of_a_worker_is_handled_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[bool] = []

    def start(process: ForkProcess) -> None:
        signal.raise_signal(signal.SIGINT)
        BaseProcess.start(process)
        started.append(True)

    monkeypatch.setattr(ForkProcess, "start", start, raising=False)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Worker()
    finally:
        signal.signal(signal.SIGINT, before)
    assert started


@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_worker_with_grown_memory_is_replaced_and_nothing_else_changes(small: Path) -> None:
    blob = packed(load(small))
    jobs = [Job(Key("k"), seed, blob) for seed in range(3)]

    def performed(most_mib: int) -> tuple[list[str], int]:
        performers, found = [], []
        for one in processes(1, most_mib)(jobs):
            performers += _performers()
            found.append(one.sha256)
        return found, len(set(performers))

    one, each = performed(10_000), performed(1)
    assert one[0] == each[0] and one[1] == 1
    assert each[1] > 1


@pytest.mark.slow
def test_a_thread_that_threading_does_not_know_forbids_a_fork() -> None:
    command = (
        "import _thread; from sim.app.study import pool; print(pool._start_method());"
        "begun, ends = _thread.allocate_lock(), _thread.allocate_lock(); begun.acquire(); ends.acquire();"
        "_thread.start_new_thread(lambda: (begun.release(), ends.acquire()), ()); begun.acquire();"
        "print(pool._start_method())"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["fork", "forkserver"]


@pytest.mark.slow
def test_a_fork_and_a_fork_of_the_server_have_the_outcome_of_a_run_of_its_own(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = load(small)
    alone = [trio.run(lambda seed=seed: run_plan(plan, seed=seed)).trace_sha256 for seed in (1, 2, 3)]
    jobs = [Job(Key("k"), seed, packed(plan)) for seed in (1, 2, 3)]
    with monkeypatch.context() as here:
        here.setattr(pool, "_start_method", lambda: "fork")
        assert [one.sha256 for one in processes(1)(jobs)] == alone
    ends = Event()
    thread = Thread(target=ends.wait)
    thread.start()  # now this process may not be forked
    try:
        found = []
        for one in processes(1)(jobs):
            assert any(b"forkserver" in _command(pid) for pid in _children(os.getpid()))
            found.append(one.sha256)
    finally:
        ends.set()
        thread.join()
    assert found == alone


@pytest.mark.usefixtures("forked")
def test_worker_forked_here_imports_nothing_again(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Outcome(Key("k"), 7, sha256="made by this process")
    monkeypatch.setattr("sim.app.study.pool.perform", lambda job: ours)
    worker = Worker()
    worker.give(Job(Key("k"), 7, b""))
    assert worker.take() == ours
    worker.end()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _performers(pid: int = 0) -> list[int]:
    """The processes that run jobs: the children of the workers that this process, or another, has
    forked.
    """
    workers = [one for one in _children(pid or os.getpid()) if b"forkserver" not in _command(one)]
    return [performer for worker in workers for performer in _children(worker)]


@pytest.mark.slow
def test_more_workers_than_the_system_has_room_for_are_refused(small: Path) -> None:
    command = shlex.join(
        [sys.executable, "-m", "sim.app.cli.main", "run", str(small), "--seeds", "99", "-j", "99"]
    )
    ran = subprocess.run(
        ["sh", "-c", f"ulimit -n 40; {command} --no-report"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 2
    told = ran.stderr.splitlines()[-1]
    assert re.fullmatch(r"orrery: --jobs: no process more .* beside \d+.* \(give fewer\)", told)


def _begun(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A run in a session of its own; no signal to end is ignored there (`tests/conftest.py`)."""
    return subprocess.Popen(
        [sys.executable, "-m", "sim.app.cli.main", "run", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def _assert_gone(session: int) -> None:
    for _ in range(1000):  # the last to go notices that its pipe is closed
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    pytest.fail("a process of the run is left")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "to", "status"),
    [
        (signal.SIGINT, os.killpg, 130),  # as a terminal does: to the workers too
        (signal.SIGTERM, os.kill, 143),
        (signal.SIGHUP, os.killpg, 129),  # as a terminal does that goes away
    ],
)
def test_a_signal_to_end_keeps_what_is_done_and_leaves_no_worker(
    small: Path, tmp_path: Path, number: signal.Signals, to: Callable[[int, int], None], status: int
) -> None:
    kept = tmp_path / "kept.jsonl"
    process = _begun(str(small), "--seeds", "100000", "-j", "1", "--no-report", "--resume", str(kept))
    while not kept.exists() or kept.read_bytes().count(b"\n") < 2:
        assert process.poll() is None
        time.sleep(0.02)
    to(process.pid, number)
    shown, told = process.communicate(timeout=60)
    assert process.returncode == status
    done = kept.read_bytes().count(b"\n")
    assert f"{done} of 100000 seeds" in shown and '"error"' not in kept.read_text()
    assert f"stopped early: {kept} has the results so far" in told
    _assert_gone(process.pid)


@pytest.mark.slow
def test_workers_end_in_the_middle_of_their_jobs_when_their_parent_is_killed(small: Path) -> None:
    process = _begun(str(small), "--seeds", "2", "-j", "1", "--no-report", "--set", "duration=2000h")
    found: list[int] = []
    while not found:
        assert process.poll() is None
        time.sleep(0.02)
        found = _performers(process.pid)
    process.kill()
    process.communicate(timeout=60)
    _assert_gone(process.pid)


@pytest.mark.slow
def test_single_run_that_gets_sigterm_leaves_no_file_behind(small: Path, tmp_path: Path) -> None:
    """The trace for the report is in a temporary folder while it is needed."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    report = str(tmp_path / "r.html")
    process = _begun(str(small), "--report", report, "--set", "duration=2000h", TMPDIR=str(folder))
    while not list(folder.glob("*/run.trace")):
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (143, "orrery: interrupted\n")
    assert list(folder.iterdir()) == []


def test_a_sweep_prints_and_keeps_a_line_for_each_setting(small: Path, tmp_path: Path) -> None:
    flag = "cluster.controllerManager.flags.node-monitor-grace-period"
    csv, page = tmp_path / "sweep.csv", tmp_path / "sweep.html"
    done = orrery(
        "sweep", str(small), "--seeds", "1", "--vary", f"{flag}=20s,40s", "--csv", str(csv), "--report", str(page)
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = [line.rstrip() for line in done.stdout.splitlines()]
    lines = told[told.index("found") + 2 :]
    early, late = lines[0].split(), lines[1].split()
    assert (early[:2], late[:2]) == (["20s", "0/1"], ["40s", "1/1"])
    assert float(late[-1]) - float(early[-1]) == pytest.approx(20, abs=5.1)
    rows = csv.read_text().splitlines()
    assert len(rows) == 1 + 2 * 2 and '<div class="chart"' in page.read_text()
