"""Options of the node agent, each with two values; and the ledger of all of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.node.server.logs import read_log
from sim.api.types import Obj
from sim.api.verbs.log import log_options
from sim.app.cluster import Cluster
from sim.app.options import idle_options
from sim.app.plain_plan import plain_nodes
from sim.app.reference.options import option_rows
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.node.agent import parse_node_agent
from sim.scenario.compile import load
from sim.scenario.plan.plan import ClusterPlan
from tests.cluster.cli.test_options import pod

REFUSED_MAX = 15
DOCUMENT = Path(__file__).parents[3] / "FIDELITY.md"
SUMMARY = (
    "Of the 145 options that the specification of the node agent names, 127 have an effect, 10 are taken without one, "
    "and 8 are refused."
)
BEGIN = "Options of the node agent that are refused:"
SPECIFIED = json.loads(
    (Path(__file__).parents[2] / "unit" / "sim" / "options" / "specified_names.json").read_text()
)["node-agent"]


def plan(**flags: Any) -> ClusterPlan:
    """A cluster of one node, with these flags of its agent."""
    (node,) = plain_nodes(1)
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return ClusterPlan(nodes=(replace(node, flags=named),))


def node(cluster: Cluster) -> Obj:
    return cluster.get("nodes", "node-0") or {}


async def registered(**flags: Any) -> Obj:
    """The node as its agent has registered it."""
    async with Cluster(plan(**flags)) as cluster:
        await cluster.run_for("5s")
        return node(cluster)


# --- the node -------------------------------------------------------------------------------------

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: example}
spec:
  duration: 1m
  cluster:
    nodes: [{count: COUNT, flags: {hostname-override: NAME}}]
"""


@pytest.mark.parametrize(("given", "name"), [("' Edge-1 '", "edge-1"), ("''", "node-0")])
def test_name_of_the_only_node_of_a_group_is_that_of_the_option(
    tmp_path: Path, given: str, name: str
) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO.replace("COUNT", "1").replace("NAME", given))
    assert [each.name for each in load(tmp_path / "s.yaml").cluster.nodes] == [name]


def test_name_for_several_nodes_and_another_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO.replace("COUNT", "2").replace("NAME", "edge"))
    with pytest.raises(InputError, match="2 nodes cannot have one name"):
        load(tmp_path / "s.yaml")
    with pytest.raises(InputError, match="hostname-override: the node is called node-0"):
        Cluster(plan(hostname_override="edge"))


@pytest.mark.parametrize(("given", "family"), [("0.0.0.0", r"172\.[0-9.]+"), ("::", r"fd00:[0-9a-f:]+")])
async def test_unspecified_address_chooses_the_family(given: str, family: str) -> None:
    addresses = (await registered(node_ip=given))["status"]["addresses"]
    found = [each["address"] for each in addresses if each["type"] == "InternalIP"]
    assert len(found) == 1 and re.fullmatch(family, found[0])


async def test_external_cloud_taints_the_node_and_sets_its_addresses() -> None:
    made = await registered(cloud_provider="external", node_ip="10.9.8.7")
    names = NAMES["orch"]
    taints = [(each["key"], each["value"], each["effect"]) for each in made["spec"]["taints"]]
    assert (names.taint_uninitialized, "true", "NoSchedule") in taints
    assert "providerID" not in made["spec"]
    assert made["metadata"]["annotations"][names.annotation_provided_node_ip] == "10.9.8.7"
    async with Cluster(plan(cloud_provider="external", node_status_update_frequency="1s")) as cluster:
        await cluster.run_for("5s")
        given = [{"type": "ExternalIP", "address": "192.0.2.1"}]
        body = {"status": {"addresses": given}}
        media = cluster.names.media_merge_patch
        reply = cluster.request(
            "patch", "nodes", "", "node-0", subresource="status", body=body, content_type=media
        )
        assert reply.ok
        await cluster.run_for("60s")
        assert node(cluster)["status"]["addresses"] == given


@pytest.mark.parametrize(("flags", "wanted"), [({}, "orrery://node-0"), ({"provider_id": "x://1"}, "x://1")])
async def test_simulated_cloud_names_the_instance_unless_an_option_does(
    flags: dict[str, Any], wanted: str
) -> None:
    assert (await registered(cloud_provider="orrery", **flags))["spec"]["providerID"] == wanted
    assert "uninitialized" not in json.dumps(await registered(cloud_provider="orrery", **flags))


@pytest.mark.parametrize(("cores", "pods"), [(0, "110"), (3, "24")])
async def test_pods_per_core_are_a_second_limit(cores: int, pods: str) -> None:
    assert (await registered(pods_per_core=cores))["status"]["capacity"]["pods"] == pods


# --- pods -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("namespace", "is_there"), [("default", True), ("kube-system", False)])
async def test_service_of_the_servers_is_that_of_the_namespace(namespace: str, is_there: bool) -> None:
    async with Cluster(plan(master_service_namespace=namespace)) as cluster:
        shown = pod("env")
        shown["spec"]["containers"][0] |= {"image": "busybox", "command": ["env"]}
        shown["metadata"]["namespace"] = "other"
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        await cluster.run_for("5s")
        cluster.apply(shown)
        await cluster.run_for("15s")
        agent = cluster.nodes["node-0"].machine.agent
        code, text = read_log(agent, "other", "env", "c", log_options({}))
        assert code == 200 and text
        assert ("ORCH_SERVICE_HOST=" in text) is is_there


@pytest.mark.slow
@pytest.mark.parametrize(("infra", "is_kept"), [("i:pause", True), ("registry.k8s.io/pause:3.8", False)])
async def test_image_of_sandboxes_is_kept_by_the_collection(infra: str, is_kept: bool) -> None:
    async with Cluster(plan(pod_infra_container_image=infra, minimum_image_ttl_duration="0s")) as cluster:
        await cluster.run_for("5s")
        machine = cluster.nodes["node-0"].machine
        machine.images = {"i:pause": 1 << 20, "i:other": 1 << 20}
        await cluster.run_for("20m")
        assert machine.agent is not None
        machine.agent.image_gc.clear()
        await cluster.run_for("1s")
        machine.agent.image_gc.clear()
        assert sorted(machine.images) == (["i:pause"] if is_kept else [])


# --- options without an effect, and the ledger ----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "wrong", "problem"),
    [
        ("container-runtime", None, "docker", 'unsupported CRI runtime: "docker", only "remote"'),
        ("hairpin-mode", "none", "maybe", 'option "maybe" specified. Valid options are'),
        ("iptables-drop-bit", 3, 32, "must be between 0 and 31"),
        ("iptables-masquerade-bit", 3, 15, "iptables-drop-bit must be different"),
        ("make-iptables-util-chains", False, "maybe", "wanted true or false"),
        ("oom-score-adj", 5, -1001, "must be between -1000 and 1000"),
        ("contention-profiling", True, "maybe", "wanted true or false"),
        ("orch-api-content-type", "application/json", 1, "wanted a text"),
        ("cloud-config", "/x", 1, "wanted a text"),
        ("cloud-container-registry-config", "/x", 1, "wanted a text"),
    ],
)
def test_option_without_an_effect_is_checked_and_noted(
    name: str, value: object, wrong: object, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        parse_node_agent({name: wrong})
    (row,) = [row for row in option_rows("node-agent", NAMES["orch"]) if row.name == name]
    assert row.taken and not row.effect
    if value is not None:
        (note,) = idle_options(plan(**{name: value}))
        assert f"option {name} changes nothing: {row.taken}" in note
    assert idle_options(plan(**{name: row.default})) == []


def test_each_option_of_the_specification_has_an_effect_or_a_reason() -> None:
    rows = {row.name: row for row in option_rows("node-agent", NAMES["orch"])}
    assert [name for name in SPECIFIED if name not in rows] == []
    assert SUMMARY in " ".join(DOCUMENT.read_text().split())
    assert len(SPECIFIED) == 145
    counts = [
        sum(bool(getattr(rows[name], field)) for name in SPECIFIED) for field in ("effect", "taken", "reason")
    ]
    assert counts == [127, 10, 8]
    assert sum(bool(rows[name].reason) for name in SPECIFIED) <= REFUSED_MAX


def test_document_holds_the_tables_of_the_agents_options() -> None:
    """`python -m tests.cluster.cli.test_agent_options` writes them again."""
    assert DOCUMENT.read_text().partition(BEGIN)[2] == tables()


def tables() -> str:
    """The end of FIDELITY.md: the options of the agent without an effect, by the reason."""
    rows, parts = option_rows("node-agent", NAMES["kubernetes"]), [""]
    for field, heading in (
        ("reason", ""),
        ("taken", "Options of the node agent that are taken without an effect:"),
    ):
        reasons = dict.fromkeys(getattr(row, field) for row in rows if getattr(row, field))
        parts += [*([heading, ""] if heading else []), "| option | reason |", "|---|---|"]
        for reason in reasons:
            names = ", ".join(row.name for row in rows if getattr(row, field) == reason)
            parts.append(f"| {names} | {reason} |")
        parts.append("")
    return "\n".join(["", *parts])


if __name__ == "__main__":
    DOCUMENT.write_text(DOCUMENT.read_text().partition(BEGIN)[0] + BEGIN + tables())
