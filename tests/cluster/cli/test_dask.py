"""Many seeds on a Dask cluster have the outcomes of worker processes, and an unusable cluster is
reported in one line.
"""

import json
import pickle
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sim.app.hunt.ground import ground_of
from sim.app.hunt.judging import PROGRAMS, trial
from sim.app.hunt.reducing import explained
from sim.app.process.own_programs import with_functions
from sim.app.study import dask_pool
from sim.app.study.outcome import Job, Key, digest_for, key_of, packed, perform_for, program_digest
from sim.app.study.pool import dask, processes
from sim.app.study.results import Results
from sim.app.study.summary import jobs_of
from sim.errors import InputError
from sim.scenario.compile import load

distributed = pytest.importorskip(
    "distributed", reason="DASK IS NOT TESTED: the extra is missing (pip install 'orrery[dask]')"
)

SMALL = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: small}
spec:
  duration: 20s
  cluster: {nodes: [{count: 2}]}
  expect: [{name: up, when: "all nodes are ready", within: [0s, 20s]}]
"""

# In a process of its own: Dask's event loop and threads outlive a cluster, and warn as they go.
MAIN = """
import sys
from pathlib import Path
from distributed import LocalCluster
from sim.app.cli import main as cli

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        sys.exit(cli.main([*sys.argv[1:], "--dask", cluster.scheduler_address]))
"""

OWN = "sim.app.study.outcome:packed"  # in the place of a program of the user

# What is asked of clusters that are not as they ought to be: a line is printed of each.
FAULTY = """
import sys
from contextlib import closing
from itertools import count
from distributed import LocalCluster
from sim.app.study import dask_pool
from sim.app.study.outcome import Job, key_of, packed
from sim.errors import InputError
from sim.scenario.compile import load

def told(address, jobs=(), after=lambda seed: None):
    try:
        with closing(dask_pool.connect(address)) as client:
            for one in dask_pool.performed(client, address, jobs):
                after(one.seed)
    except InputError as error:
        print(str(error).replace(address, "ADDRESS"))

def job(seed):
    return Job(key_of(plan), seed, packed(plan))

if __name__ == "__main__":
    plan = load(sys.argv[1])
    own = Job(key_of(plan), 0, packed(plan), ("sim.app.study.outcome:packed",))
    dask_pool.LOST_S = dask_pool.LOOK_S = 0.2
    local = dict(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    with LocalCluster(**local) as cluster:
        (worker,) = cluster.workers.values()
        told(worker.address)
        right, dask_pool.DIGEST = dask_pool.DIGEST, "__import__('nowhere')"
        told(cluster.scheduler_address)
        dask_pool.DIGEST = "'of another version'"
        told(cluster.scheduler_address)
        dask_pool.DIGEST = f"'of another version' if programs else {right}"
        told(cluster.scheduler_address, [job(0), own])
        dask_pool.DIGEST = f"__import__('nowhere' if programs else 'sim') and {right}"
        told(cluster.scheduler_address, [job(0), own])
        dask_pool.DIGEST, right = right, dask_pool.PERFORM
        dask_pool.PERFORM = "__import__('nowhere')"
        told(cluster.scheduler_address, [job(0)])
        dask_pool.PERFORM = "b''"
        told(cluster.scheduler_address, [job(0)])
        told(cluster.scheduler_address, [own])
        dask_pool.PERFORM = right
        told(cluster.scheduler_address, map(job, range(9)), lambda seed: print("seed", seed) or (seed == 1 and cluster.close()))
    with LocalCluster(**local) as cluster:
        told(cluster.scheduler_address, map(job, count()), lambda seed: cluster.scale(0))
"""


@pytest.mark.slow
def test_a_dask_cluster_gives_what_processes_give(tmp_path: Path) -> None:
    scenario, kept = tmp_path / "small.yaml", tmp_path / "kept.jsonl"
    scenario.write_text(SMALL)
    command = ["run", str(scenario), "--seeds", "5", "--json", "--resume", str(kept)]
    root = Path(__file__).resolve().parents[3]
    ran = subprocess.run(
        [sys.executable, "-c", MAIN, *command],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    blob = packed(load(scenario))
    here = {one.seed: one.sha256 for one in processes(1)(Job(Key("k"), seed, blob) for seed in range(5))}
    there = Results(kept)
    key = key_of(load(scenario))
    found = {seed: there.get(Job(key, seed, b"")) for seed in range(5)}
    assert {seed: one.sha256 for seed, one in found.items() if one is not None} == here


@pytest.mark.slow
def test_a_hunt_uses_a_dask_cluster_more_than_once(tmp_path: Path) -> None:
    scenario = tmp_path / "small.yaml"
    scenario.write_text(SMALL)
    command = ["hunt", str(scenario), "--budget", "4 runs", "--no-shrink", "--json", "--out", str(tmp_path)]
    root = Path(__file__).resolve().parents[3]
    ran = subprocess.run(
        [sys.executable, "-c", MAIN, *command],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert json.loads(ran.stdout)["complete"] is True, ran.stderr
    assert json.loads(ran.stdout)["runs"] >= 4


def test_address_without_a_scheduler_is_reported() -> None:
    with pytest.raises(InputError, match="no Dask scheduler"):
        dask("nonsense")


@pytest.mark.slow
def test_problem_of_a_cluster_is_reported_in_one_line(tmp_path: Path) -> None:
    scenario = tmp_path / "small.yaml"
    scenario.write_text(SMALL)
    ran = subprocess.run(
        [sys.executable, "-c", FAULTY, str(scenario)],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    copy = "(copy the sources of the program to every worker, and start the workers again)"
    same = "(install the same version of orrery on every worker)"
    assert [re.sub(r"inproc://\S+", "WORKER", line) for line in ran.stdout.splitlines()] == [
        "ADDRESS: is no Dask scheduler, but a Worker",
        f"ADDRESS: the worker WORKER cannot run orrery: No module named 'nowhere' {same}",
        f"ADDRESS: the worker WORKER has another version of orrery {same}",
        f"ADDRESS: the worker WORKER has another version of {OWN} {copy}",
        f"ADDRESS: the worker WORKER cannot run {OWN}: No module named 'nowhere' {copy}",
        f"ADDRESS: a worker cannot run orrery: No module named 'nowhere' {same}",
        f"ADDRESS: a worker has another version of orrery {same}",
        f"ADDRESS: a worker has another version of orrery or {OWN} {same[:-1]}; {copy[1:]}",
        "seed 0",
        "seed 1",
        "ADDRESS: the Dask cluster went away",
        "ADDRESS: the Dask cluster has had no workers for 0 s",
    ], ran.stderr


def test_a_job_of_another_version_is_not_performed() -> None:
    assert perform_for("another", (), b"no job that could be read here") == b""
    assert perform_for(program_digest(), (OWN,), b"no job that could be read here") == b""
    assert perform_for(program_digest(), (), pickle.dumps(Job(Key("k"), 3, b"no plan"))).startswith(
        b'{"key":"k","seed":3'
    )


def test_digest_of_own_programs_is_that_of_the_sources_at_their_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "own_mover.py"
    file.write_text("async def run(client): ...\n")
    first = digest_for(("own_mover:run",))
    assert first.startswith(program_digest())
    file.write_text("async def run(client): pass\n")
    assert digest_for(("own_mover:run",)) == first
    digest_for.cache_clear()  # as in a process that starts later
    assert digest_for(("own_mover:run",)) != first
    with pytest.raises(InputError, match="there is no function 'own_mover:walk'"):
        digest_for(("own_mover:walk",))


def test_jobs_name_the_programs_that_they_run(tmp_path: Path) -> None:
    scenario = tmp_path / "small.yaml"
    scenario.write_text(SMALL)
    plan = with_functions(load(scenario), {"mover": OWN})
    assert [job.programs for job in jobs_of(plan, 0, 2)] == [(OWN,), (OWN,)]
    document = {**ground_of(scenario).document, PROGRAMS: {"mover": OWN}}
    assert (trial(document).programs, explained(document).programs) == ((OWN,), (OWN,))


def test_address_without_an_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_pool, "ANSWER_S", 0.2)
    nothing = pytest.raises(InputError, match="no Dask scheduler answers: nothing was heard")
    with socket.create_server(("127.0.0.1", 0)) as mute, nothing:
        dask(f"tcp://127.0.0.1:{mute.getsockname()[1]}")
