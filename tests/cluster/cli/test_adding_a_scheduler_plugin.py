"""A worked example for contributors: a scheduler plugin of your own.

Teams pay for their nodes: a node with the label `team` takes only pods of that team, and a pod
prefers a node of its team to one that is free for all. Nothing but the class and its name in
`scheduler_plugins` is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.scheduler.plugins import ClusterEvent, NodeView, SchedulerPlugin, Status
from sim import Cluster


class TeamNodes(SchedulerPlugin):
    """Reserves nodes for the pods of a team."""

    name = "TeamNodes"
    weight = 5
    # A refused pod fits when a node is added, or when a node gets another label.
    events = ClusterEvent.NODE_ADD | ClusterEvent.NODE_LABEL

    def filter(self, pod: Mapping[str, Any], node: NodeView) -> Status | None:
        """Refuse nodes of another team. No pod can be preempted to change that."""
        team = node.labels.get("team")
        if team is None or team == self.pod_key(pod):
            return None
        return self.refuse("node(s) belonged to another team", unresolvable=True)

    def score(self, pod: Mapping[str, Any], node: NodeView) -> int:
        """Prefer nodes of the pod's team; the default normalisation makes this 0 or 100."""
        return int("team" in node.labels)

    def pod_key(self, pod: Mapping[str, Any]) -> str | None:
        """Return the pod's team: pods of one team with equal demands share all results."""
        team: str | None = (pod["metadata"].get("labels") or {}).get("team")
        return team


def pod(name: str, **labels: str) -> dict[str, Any]:
    """Return a pod that requests one of the eight CPUs of a node."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container]},
    }


def node_of(cluster: Cluster, name: str) -> str | None:
    """Return the node of a pod."""
    found = cluster.get("pods", name)
    assert found is not None
    node: str | None = found["spec"].get("nodeName")
    return node


def label_node(cluster: Cluster, name: str, team: str | None) -> None:
    """Set or remove the label `team` of a node."""
    reply = cluster.request(
        "patch",
        "nodes",
        name=name,
        body={"metadata": {"labels": {"team": team}}},
        content_type=cluster.names.media_merge_patch,
    )
    assert reply.ok, reply.message


async def test_plugin_reserves_nodes_and_explains_pending_pods() -> None:
    async with Cluster(nodes=2, scheduler_plugins=[TeamNodes()]) as cluster:
        await cluster.run_for("1m")
        label_node(cluster, "node-0", "red")
        label_node(cluster, "node-1", "red")
        await cluster.run_for("1s")
        cluster.apply(pod("blue", team="blue"), pod("red", team="red"))
        await cluster.run_for("20s")

        assert node_of(cluster, "red") in ("node-0", "node-1")
        assert node_of(cluster, "blue") is None
        failed = [event for event in cluster.list("events") if event["reason"] == "FailedScheduling"]
        assert [event["message"] for event in failed] == [
            "0/2 nodes are available: 2 node(s) belonged to another team. "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        ]

        label_node(cluster, "node-1", None)  # the event that the plugin names wakes the pod
        await cluster.run_for("2s")
        assert node_of(cluster, "blue") == "node-1"


async def test_plugin_score_attracts_pods_to_nodes_of_their_team() -> None:
    async with Cluster(nodes=4, scheduler_plugins=[TeamNodes()]) as cluster:
        await cluster.run_for("1m")
        label_node(cluster, "node-2", "red")
        await cluster.run_for("1s")
        cluster.apply(*[pod(f"red-{number}", team="red") for number in range(5)])
        await cluster.run_for("20s")
        assert {node_of(cluster, f"red-{number}") for number in range(5)} == {"node-2"}
