"""Clusters that become steady: `run_until_steady`, and steps that wait for it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from sim import Cluster, Lab, load, run_plan
from sim.client import Client
from tests.cluster.faults.test_custom_resources import WIDGETS, begun, made, widget

CRON = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "tick"},
    "spec": {
        "schedule": "* * * * *",
        "jobTemplate": {
            "spec": {
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "r/a:1"}]}
                }
            }
        },
    },
}
FILE = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: rest}
spec:
  duration: 20m
  cluster: {nodes: [{count: 1}]}
  timeline:
    - {name: rests, when: the cluster is steady for 2m, mark: {}}
    - {name: dark, after: rests, delay: 1m, fail: {nodes: {name: node-0}, how: power-loss}}
  expect:
    - {name: booted and rests, when: {changed: nodes}, within: [0s, 1m]}
    - {name: rests again, when: the cluster is steady for 2m, within: [2m, 4m], after: dark}
    - {name: never for long, never: the cluster is steady for 19m}
"""


@pytest.mark.slow
def test_lab_runs_until_nothing_is_written() -> None:
    with Lab(nodes=1) as lab:
        rest = lab.run_until_steady("2m")
        assert rest and rest.took_s < 60
        assert lab.state().at_us >= (120 + rest.took_s) * 1e6
        lab.apply(CRON)
        rest = lab.run_until_steady("2m", limit="10m")
        assert not rest
        assert rest.still_changes.startswith("cronjobs/default/tick (")
        assert lab.run_until("the cluster is steady for 30s", limit="10m") is not None


@pytest.mark.slow
async def test_cluster_runs_until_nothing_is_written() -> None:
    async with Cluster(nodes=1) as cluster:
        rest = await cluster.run_until_steady("1m")
        assert rest
        assert cluster.kernel.now_us >= 60_000_000


@pytest.mark.slow
async def test_written_custom_objects_keep_a_cluster_from_rest() -> None:
    async def operator(client: Client) -> None:
        for size in itertools.count():
            await client.ctx.sleep_us(20_000_000)
            await client.patch(WIDGETS, "n", "w", {"spec": {"a": str(size)}}, "merge")

    async with Cluster(naming="kubernetes", nodes=1) as cluster:
        await begun(cluster)  # defines the resource while nothing is observed yet
        made(cluster, WIDGETS, widget("w"))
        assert await cluster.run_until_steady("1m", limit="10m")
        cluster.add_program("operator", operator)
        rest = await cluster.run_until_steady("1m", limit="5m")
        assert rest.still_changes.startswith("widgets/n/w (")


@pytest.mark.slow
async def test_step_waits_until_the_cluster_is_steady(tmp_path: Path) -> None:
    path = tmp_path / "rest.yaml"
    path.write_text(FILE)
    result = await run_plan(load(path))
    assert [verdict.measured for verdict in result.verdicts if not verdict.ok] == []
