"""Certificates of agents, controller managers, schedulers and API servers that end during a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.errors import InputError
from sim.scenario.compile import compile_plan
from sim.scenario.plan.plan import CertificatePlan, ClusterPlan, ComponentPlan
from sim.scenario.read.source import Document
from sim.units import MINUTE
from tests.cluster.cli.test_agent_certificates import BOOTSTRAP, token

pytestmark = pytest.mark.slow


def plan(certificates: CertificatePlan, managers: int = 1, **flags: Any) -> ClusterPlan:
    nodes = tuple(replace(node, flags=flags) for node in plain_nodes(2))
    manager = ComponentPlan(managers, {"cluster-signing-duration": "20m"})
    return ClusterPlan(nodes=nodes, controller_manager=manager, certificates=certificates)


def states(cluster: Cluster) -> list[str]:
    return [
        condition["status"]
        for node in cluster.list("nodes")
        for condition in node["status"]["conditions"]
        if condition["type"] == "Ready"
    ]


def holder(cluster: Cluster, name: str) -> str:
    lease = cluster.get("leases", name, cluster.names.system_namespace)
    return "" if lease is None else str(lease["spec"].get("holderIdentity") or "")


async def test_nodes_look_dead_after_the_end_of_certificates_that_are_not_replaced() -> None:
    async with Cluster(plan(CertificatePlan(agents_us=20 * MINUTE))) as cluster:
        await cluster.run_until("19m55s")
        assert states(cluster) == ["True", "True"]
        await cluster.run_until("21m")
        assert states(cluster) == ["Unknown", "Unknown"]
        codes = {code for (client, code) in cluster.api_servers["apiserver-0"].tally if "orchlet" in client}
        assert 401 not in codes  # the door refuses them, not the replica


async def test_rotation_is_approved_and_keeps_nodes_alive() -> None:
    flags = {"rotate-certificates": True}
    async with Cluster(plan(CertificatePlan(agents_us=20 * MINUTE), **flags)) as cluster:
        await cluster.run_until("13m50s")
        assert cluster.list("certificatesigningrequests") == []
        await cluster.run_until("18m30s")  # 70 to 90 % of twenty minutes, and some polls
        requests = cluster.list("certificatesigningrequests")
        assert len(requests) == 2 and all("certificate" in one["status"] for one in requests)
        await cluster.run_until("45m")
        assert states(cluster) == ["True", "True"]


async def test_rotation_without_a_signer_in_time_fails_until_a_person_renews() -> None:
    flags = {"rotate-certificates": True}
    async with Cluster(plan(CertificatePlan(agents_us=20 * MINUTE), **flags)) as cluster:
        await cluster.run_until("10m")
        cluster.do.crash(actor="controller-manager-0", restartAfter="12m")
        await cluster.run_until("26m")
        assert states(cluster) == ["Unknown", "Unknown"]
        cluster.do.certificate(actor="nodes", validFor="1h")
        await cluster.run_for("2m")
        assert states(cluster) == ["Unknown", "Unknown"]  # an agent reads them when it starts
        cluster.do.crash(actor="nodes", restartAfter="1s")
        await cluster.run_for("1m")
        assert states(cluster) == ["True", "True"]


@pytest.mark.parametrize("rotates", [False, True])
async def test_restart_with_a_bootstrap_token_gets_a_new_certificate(rotates: bool) -> None:
    flags = {**BOOTSTRAP, "rotate-certificates": rotates}
    async with Cluster(plan(CertificatePlan(agents_us=20 * MINUTE), **flags)) as cluster:
        cluster.apply(token(cluster))
        await cluster.run_until("10m")
        cluster.do.crash(actor="controller-manager-0", restartAfter="11m")
        # An agent that began with a certificate does not use the token, also when it may rotate.
        await cluster.run_until("23m")
        assert states(cluster) == ["Unknown", "Unknown"]
        cluster.do.crash(actor="nodes", restartAfter="1s")
        await cluster.run_for("1m")
        assert states(cluster) == ["True", "True"]
        names = [one["spec"]["username"] for one in cluster.list("certificatesigningrequests")]
        assert names.count("system:bootstrap:abcdef") == 2


async def test_rotating_agent_without_certificate_ends_after_five_minutes_and_joins_again() -> None:
    """Timing: transport.go ends the process, and systemd starts it again."""
    flags = {**BOOTSTRAP, "rotate-certificates": True}
    async with Cluster(plan(CertificatePlan(agents_us=20 * MINUTE), **flags)) as cluster:
        cluster.apply(token(cluster))
        await cluster.run_until("10m")
        cluster.do.crash(actor="controller-manager-0", restartAfter="11m")
        await cluster.run_until("24m50s")
        assert states(cluster) == ["Unknown", "Unknown"]
        await cluster.run_until("26m")
        assert states(cluster) == ["True", "True"]
        assert cluster.supervisor["node-0"].incarnations == 2


async def test_controller_manager_without_valid_certificate_loses_its_lease_and_stays_out() -> None:
    lifetimes = CertificatePlan(controller_managers_us=20 * MINUTE)
    async with Cluster(plan(lifetimes, managers=1)) as cluster:
        name = cluster.election_lease("controller-manager")[1]
        await cluster.run_until("19m")
        before = holder(cluster, name)
        first = cluster.supervisor["controller-manager-0"].incarnations
        await cluster.run_until("22m")
        assert cluster.supervisor["controller-manager-0"].incarnations > first
        lease = cluster.get("leases", name, cluster.names.system_namespace)
        assert lease is not None and lease["spec"]["renewTime"] < "2026-01-01T00:20:01Z"
        cluster.do.certificate(actor="controller-manager", validFor="2h")
        await cluster.run_for("1m")
        assert holder(cluster, name) == before  # it runs, with the old certificate
        cluster.do.crash(actor="controller-manager", restartAfter="1s")
        await cluster.run_for("1m")
        assert holder(cluster, name) not in ("", before)


async def test_scheduler_binds_nothing_without_a_valid_certificate() -> None:
    async with Cluster(plan(CertificatePlan(schedulers_us=20 * MINUTE))) as cluster:
        await cluster.run_until("21m")
        pod = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }  # fmt: skip
        cluster.apply(pod)
        await cluster.run_for("2m")
        found = cluster.get("pods", "web")
        assert found is not None and "nodeName" not in found["spec"]


async def test_serving_certificate_that_ended_hinders_new_connections_only() -> None:
    async with Cluster(plan(CertificatePlan(api_servers_us=20 * MINUTE))) as cluster:
        await cluster.run_until("23m")
        assert states(cluster) == ["True", "True"]
        cluster.do.crash(actor="apiserver-0", restartAfter="5s")
        await cluster.run_for("2m")
        # No process can connect, also none that would write that the nodes are lost.
        lease = cluster.get("leases", "node-0", cluster.names.lease_namespace)
        assert lease is not None and lease["spec"]["renewTime"] < "2026-01-01T00:23:20Z"
        cluster.do.certificate(actor="apiserver-0", validFor="2h")
        await cluster.run_for("2m")
        lease = cluster.get("leases", "node-0", cluster.names.lease_namespace)
        assert lease is not None and lease["spec"]["renewTime"] > "2026-01-01T00:26:00Z"
        assert states(cluster) == ["True", "True"]


@pytest.mark.parametrize("fast", [True, False])
async def test_ends_of_certificates_are_the_same_with_and_without_fast_paths(fast: bool) -> None:
    lifetimes = CertificatePlan(20 * MINUTE, 25 * MINUTE, 25 * MINUTE, 15 * MINUTE)
    hashes = []
    for each in (fast, True):
        async with Cluster(plan(lifetimes), fast=each) as cluster:
            await cluster.run_until("27m")
            hashes.append(cluster.kernel.trace.sha256())
    assert hashes[0] == hashes[1]


def compiled(certificates: Any = None, **step: Any) -> ClusterPlan:
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"}}
    cluster = {"nodes": [{"count": 1}], **({"certificates": certificates} if certificates else {})}
    timeline = [{"at": "1m", "certificate": step}] if step else []
    return compile_plan(
        Document("", {**head, "spec": {"cluster": cluster, "timeline": timeline}}), Path()
    ).cluster


def test_lifetimes_are_read() -> None:
    found = compiled({"agents": "1h", "apiServers": "2h"}, actor="nodes", validFor="0s").certificates
    assert (found.agents_us, found.schedulers_us, found.of("apiserver-1")) == (60 * MINUTE, 0, 120 * MINUTE)


@pytest.mark.parametrize(
    ("certificates", "step", "message"),
    [
        ({"agents": "soon"}, {}, "'soon' is not a duration"),
        ({"schedulers": "10s"}, {}, "10s is too short"),
        ({"agent": "1h"}, {}, "unknown field 'agent'"),
        (None, {"actor": "node-0"}, "the certificate of node-0 does not end"),
        ({"agents": "1h"}, {"actor": "scheduler"}, "the certificate of scheduler-0 does not end"),
        ({"agents": "1h"}, {"actor": "storage"}, "the certificate of storage does not end"),
        ({"agents": "1h"}, {"actor": "node-0", "validFor": "-1s"}, "negative"),
    ],
)
def test_wrong_certificates_are_refused(certificates: Any, step: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        compiled(certificates, **step)
