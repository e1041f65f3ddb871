"""Many seeds on a Dask cluster come out as in worker processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from sim.app.outcome import Job, Key, key_of, packed
from sim.app.pool import dask, processes
from sim.app.results import Results
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
from sim.app import cli

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        sys.exit(cli.main([*sys.argv[1:], "--dask", cluster.scheduler_address]))
"""


@pytest.mark.slow
def test_a_dask_cluster_gives_what_processes_give(tmp_path: Path) -> None:
    scenario, kept = tmp_path / "small.yaml", tmp_path / "kept.jsonl"
    scenario.write_text(SMALL)
    command = ["run", str(scenario), "--seeds", "5", "--json", "--resume", str(kept)]
    root = Path(__file__).resolve().parents[2]
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


def test_an_address_without_a_scheduler_is_told() -> None:
    with pytest.raises(InputError, match="no Dask scheduler"):
        dask("nonsense")
