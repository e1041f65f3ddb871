"""A node agent's certificates: the first by a bootstrap token, later ones by rotation."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from sim.api.types import Obj
from sim.app.agents.pods import agent_listens
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.errors import InputError
from sim.options.node.agent import parse_node_agent
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import MINUTE, SECOND

GROUP = "system:bootstrappers:joining"
REQUESTS = "certificatesigningrequests"
CONFIG = {
    "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "b", "user": "c"}}],
    "clusters": [{"name": "b", "cluster": {"server": "https://apiserver-0:6443"}}],
    "users": [{"name": "c", "user": {"token": "abcdef.0123456789abcdef"}}],
}
BOOTSTRAP = {"bootstrap-orchconfig": CONFIG}


def plan(flags: dict[str, Any], duration: str = "1h") -> ClusterPlan:
    """One node; certificates are valid for this long."""
    (node,) = plain_nodes(1)
    manager = ComponentPlan(flags={"cluster-signing-duration": duration})
    return ClusterPlan(nodes=(replace(node, flags=flags),), controller_manager=manager)


def token(cluster: Cluster) -> Obj:
    """The Secret of the token."""
    fields = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": GROUP,
    }
    names = cluster.names
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"{names.bootstrap_secret_prefix}abcdef",
            "namespace": names.system_namespace,
        },
        "type": names.secret_type_bootstrap_token,
        "data": {name: b64encode(value.encode()).decode() for name, value in fields.items()},
    }


def bindings(cluster: Cluster) -> list[Obj]:
    """What kubeadm grants to machines that join, and to nodes."""
    certificates = f"system:{cluster.names.group('certificates')}:{REQUESTS}"
    granted = {
        "system:node-bootstrapper": GROUP,
        f"{certificates}:nodeclient": GROUP,
        f"{certificates}:selfnodeclient": "system:nodes",
    }
    rbac = cluster.names.group("rbac")
    return [
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"granted-{number}"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": group}],
        }
        for number, (role, group) in enumerate(granted.items())
    ]


def ready(cluster: Cluster) -> str:
    """The condition Ready of the node; "" without a node."""
    node = cluster.get("nodes", "node-0")
    conditions = (node or {}).get("status", {}).get("conditions") or []
    return next((each["status"] for each in conditions if each["type"] == "Ready"), "")


async def test_agent_registers_when_its_first_certificate_is_there() -> None:
    async with Cluster(plan(BOOTSTRAP)) as cluster:
        cluster.apply(*bindings(cluster))
        await cluster.run_for("30s")
        # The token is not known: the agent ends, and starts again.
        assert cluster.list(REQUESTS) == []
        assert cluster.get("nodes", "node-0") is None
        cluster.apply(token(cluster))
        await cluster.run_for("20s")
        (made,) = cluster.list(REQUESTS)
        assert made["metadata"]["name"].startswith("node-csr-")
        assert made["spec"]["username"] == "system:bootstrap:abcdef"
        assert [each["type"] for each in made["status"]["conditions"]] == ["Approved"]
        await cluster.run_for("10s")
        assert ready(cluster) == "True"


@pytest.mark.slow
@pytest.mark.parametrize(("rotates", "state"), [(False, "Unknown"), (True, "True")])
async def test_node_is_lost_when_its_certificate_ends_unless_it_is_replaced(
    rotates: bool, state: str
) -> None:
    async with Cluster(plan({**BOOTSTRAP, "rotate-certificates": rotates}, "20m")) as cluster:
        cluster.apply(*bindings(cluster), token(cluster))
        await cluster.run_for("19m")
        assert ready(cluster) == "True"
        await cluster.run_for("4m")
        assert ready(cluster) == state


@pytest.mark.slow
async def test_certificate_is_replaced_between_seven_and_nine_tenths_of_its_time() -> None:
    async with Cluster(plan({**BOOTSTRAP, "rotate-certificates": True}, "1h")) as cluster:
        cluster.apply(*bindings(cluster), token(cluster))
        await cluster.run_for("1m")
        first = cluster.nodes["node-0"].machine.certificates.client
        assert first is not None
        await cluster.run_until(40 * MINUTE)
        assert len(cluster.list(REQUESTS)) <= 1
        assert cluster.nodes["node-0"].machine.certificates.client == first
        await cluster.run_until(54 * MINUTE)
        second = cluster.nodes["node-0"].machine.certificates.client
        assert second is not None
        part = (second.begin_us + 5 * MINUTE - first.begin_us) / (first.end_us - first.begin_us)
        assert 0.7 <= part <= 0.9


async def test_agent_without_an_approved_request_ends_and_starts_again() -> None:
    """Without a certificate for five minutes, although servers answer."""
    async with Cluster(plan({**BOOTSTRAP, "rotate-certificates": True})) as cluster:
        cluster.apply(token(cluster), bindings(cluster)[0])
        await cluster.run_for("4m50s")
        actor = cluster.supervisor["node-0"]
        assert actor.incarnations == 1 and ready(cluster) == ""
        await cluster.run_for("40s")
        assert actor.incarnations == 2


async def test_serving_certificate_is_requested_and_waits_for_its_approval() -> None:
    async with Cluster(plan({"rotate-server-certificates": True})) as cluster:
        await cluster.run_for("30s")
        (made,) = cluster.list(REQUESTS)
        assert made["spec"]["signerName"].endswith("-serving") and "status" not in made["metadata"]
        held = cluster.nodes["node-0"].machine.certificates
        assert not agent_listens(cluster.nodes, cluster.options.nodes, "node-0")
        assert held.serving is None and held.client is not None and ready(cluster) == "True"
        approval = {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
        reply = cluster.request(
            "patch", REQUESTS, "", made["metadata"]["name"], subresource="approval", body=approval,
            content_type=cluster.names.media_merge_patch,
        )  # fmt: skip
        assert reply.ok, reply.message
        await cluster.run_for("5s")
        assert held.serving is not None and "BEGIN CERTIFICATE" in held.serving.pem
        assert agent_listens(cluster.nodes, cluster.options.nodes, "node-0")


def test_serving_certificate_needs_its_gate_and_the_first_one_a_token() -> None:
    gate = {"rotate-server-certificates": True, "feature-gates": "RotateKubeletServerCertificate=false"}
    with pytest.raises(InputError, match="requires feature gate RotateKubeletServerCertificate"):
        parse_node_agent(gate)
    config = {**CONFIG, "users": [{"name": "c", "user": {"client-certificate": "f"}}]}
    with pytest.raises(InputError, match="the user of the current context has no token"):
        parse_node_agent({"bootstrap-orchconfig": config})


async def test_runs_with_certificates_repeat() -> None:
    found = []
    for _ in range(2):
        async with Cluster(plan(BOOTSTRAP), seed=3) as cluster:
            cluster.apply(*bindings(cluster), token(cluster))
            await cluster.run_until(20 * SECOND)
            held = cluster.nodes["node-0"].machine.certificates.client
            assert held is not None
            found.append(held.pem)
    assert found[0] == found[1]


@pytest.mark.slow
async def test_end_of_a_certificate_is_the_same_with_and_without_fast_paths() -> None:
    found = []
    for fast in (True, False):
        async with Cluster(plan(BOOTSTRAP, "10m"), fast=fast) as cluster:
            cluster.apply(*bindings(cluster), token(cluster))
            await cluster.run_for("12m")
            assert ready(cluster) == "Unknown"
            found.append(cluster.kernel.trace.sha256())
    assert found[0] == found[1]
