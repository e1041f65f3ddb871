"""The logs of node agents in files of a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.errors import InputError
from sim.scenario.plan.plan import ClusterPlan
from tests.cluster.cli.test_options import pod


def plan(flags: dict[str, Any]) -> ClusterPlan:
    return ClusterPlan(nodes=tuple(replace(node, flags=flags) for node in plain_nodes(1)))


async def logged(folder: Path, flags: dict[str, Any]) -> str:
    """What the agent of a cluster logs in half a minute."""
    async with Cluster(plan(flags), agent_logs=folder) as cluster:
        cluster.apply(pod("web"))
        await cluster.run_for("30s")
    return (folder / "node-0.log").read_text()


def files_of(folder: Path) -> list[Path]:
    return [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]


@pytest.mark.slow
async def test_agent_logs_its_start_its_pods_and_its_events(tmp_path: Path) -> None:
    quiet = await logged(tmp_path / "0", {})
    assert '"Orchlet version" orchletVersion="v1.25.16"' in quiet
    assert 'orchlet_node_status.go:73] "Successfully registered node" node="node-0"' in quiet
    assert "SyncLoop" not in quiet and "Event occurred" not in quiet
    loud = await logged(tmp_path / "3", {"v": 3})
    assert '"SyncLoop ADD" source="api" pods=[default/web]' in loud
    assert 'reason="Started" message="Started container c"' in loud


async def test_files_of_a_machine_are_below_its_node(tmp_path: Path) -> None:
    flags = {"logtostderr": False, "log-file": "/../../var/agent.log"}
    async with Cluster(plan(flags), agent_logs=tmp_path / "logs") as cluster:
        await cluster.run_for("30s")
    assert files_of(tmp_path) == [Path("logs/node-0/var/agent.log")]


@pytest.mark.slow
async def test_run_with_and_without_logs_is_the_same(tmp_path: Path) -> None:
    traces = []
    for folder in (None, tmp_path / "logs"):
        async with Cluster(plan({"v": 3}), agent_logs=folder) as cluster:
            cluster.apply(pod("web"))
            await cluster.run_for("30s")
            traces.append(cluster.kernel.trace.sha256())
    assert traces[0] == traces[1]


def test_folder_that_holds_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="holds files already"):
        Cluster(plan({}), agent_logs=tmp_path)
    Cluster(plan({}), agent_logs=tmp_path, replaces_log=True)
