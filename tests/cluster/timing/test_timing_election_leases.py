"""Leaders by a lease of another name or namespace: faults find them, and a refusal is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sim.app.cluster import Cluster
from sim.app.inspect.traces import records
from sim.app.notes import notes_of
from sim.app.run import run_plan
from sim.report.story import tell
from sim.scenario.compile import load
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND

STORY = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: leases}
spec:
  duration: 1m
  cluster:
    nodes: [{count: 1}]
    controllerManager: {flags: {FLAGS}}
"""


def plan_with(folder: Path, flags: str) -> Any:
    file = folder / "leases.yaml"
    file.write_text(STORY.replace("FLAGS", flags))
    return load(file)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["controller-manager", "scheduler"])
async def test_leader_by_a_lease_of_another_namespace_is_found(part: str) -> None:
    component = ComponentPlan(replicas=2, flags={"leader-elect-resource-namespace": "default"})
    field = part.replace("-", "_")
    async with Cluster(ClusterPlan(boot_us=0, **{field: component})) as cluster:
        await cluster.run_until(30 * SECOND)
        key = cluster.scheme.key("leases", *cluster.election_lease(part))
        lease = cluster.storage.store.get(key)
        assert lease is not None
        leader = lease.obj["spec"]["holderIdentity"].partition("_")[0]
        assert cluster.actor_named(f"{part}-leader") == leader
        assert key.split("/")[3] == "default"
        cluster.do.crash(actor=f"{part}-leader", restart_after="1m")
        await cluster.run_for(30 * SECOND)
        assert cluster.actor_named(f"{part}-leader") != leader


@pytest.mark.slow
async def test_lost_lease_of_another_namespace_gets_its_intruder() -> None:
    component = ComponentPlan(replicas=1, flags={"leader-elect-resource-namespace": "default"})
    async with Cluster(ClusterPlan(boot_us=0, controller_manager=component)) as cluster:
        await cluster.run_until(20 * SECOND)
        cluster.do.lose_lease(component="controller-manager", holder="intruder")
        await cluster.run_for(1 * SECOND)
        lease = cluster.storage.store.get(
            cluster.scheme.key("leases", *cluster.election_lease("controller-manager"))
        )
        assert lease is not None
        assert lease.obj["spec"]["holderIdentity"] == "intruder"
        assert cluster.refused == ()


@pytest.mark.slow
async def test_candidate_that_is_refused_its_lease_is_reported_once(tmp_path: Path) -> None:
    plan = plan_with(tmp_path, "leader-elect-resource-name: mine")
    result = await run_plan(plan, trace_file=tmp_path / "leases.trace")
    (refusal,) = result.refused
    assert refusal.startswith("leases/orch-system/mine to controller-manager-0 at ")
    assert "cannot get resource" in refusal
    (decision,) = [
        record
        for record in records(tmp_path / "leases.trace")
        if record.kind == "decision" and record.values["what"] == "refused-lease"
    ]
    assert tell(decision).startswith("cannot lead: is refused leases/orch-system/mine: ")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("leader-elect-resource-name: mine", "allows no lock with leader-elect-resource-name mine"),
        ("leader-elect-resource-lock: configmapsleases", "leader-elect-resource-lock configmapsleases"),
        ("leader-elect-resource-namespace: default", ""),
        ("leader-elect-resource-lock: endpointsleases", ""),
        ("leader-elect-resource-name: mine, leader-elect: false", ""),
    ],
)
def test_lock_that_no_role_allows_is_noted_before_the_run(tmp_path: Path, flags: str, text: str) -> None:
    notes = notes_of(plan_with(tmp_path, flags))
    assert [text in note for note in notes] == ([True] if text else [])
