"""The children with which an established cluster begins, and the client that creates each."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.established import children_of
from sim.api.types import Obj
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]
LABELS = {"app": "a"}


def owner(kind: str, **spec: Any) -> Obj:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    metadata = {"name": "a", "namespace": "d", "uid": "u", "generation": 1}
    whole = {"selector": {"matchLabels": LABELS}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": whole}


def node(name: str, **spec: Any) -> Obj:
    return {"metadata": {"name": name, "labels": {"node": name}}, "spec": spec, "status": {}}


@pytest.mark.parametrize(
    ("kind", "client"),
    [("ReplicaSet", "replicaset-controller"), ("ReplicationController", "replication-controller")],
)
def test_replicas_are_one_pod_so_many_times_by_the_client_of_the_kind(kind: str, client: str) -> None:
    (pods,) = children_of(owner(kind, replicas=3), [], NAMING)
    assert (pods.client, pods.resource, pods.times) == (client, "pods", 3)
    (reference,) = pods.body["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"], reference["controller"]) == (kind, "u", True)


def test_deployment_has_one_replica_set_unless_it_is_paused() -> None:
    (made,) = children_of(owner("Deployment", replicas=2), [], NAMING)
    assert (made.resource, made.body["spec"]["replicas"], made.times) == ("replicasets", 2, 1)
    assert children_of(owner("Deployment", replicas=2, paused=True), [], NAMING) == ()


def test_stateful_set_has_a_revision_and_pods_with_ordinals() -> None:
    stateful = owner("StatefulSet", replicas=2, serviceName="s")
    revision, *pods = children_of(stateful, [], NAMING)
    assert revision.resource == "controllerrevisions"
    assert [pod.body["metadata"]["name"] for pod in pods] == ["a-0", "a-1"]
    claims = [{"metadata": {"name": "data"}}]
    assert children_of(owner("StatefulSet", replicas=2, volumeClaimTemplates=claims), [], NAMING) == ()


def test_daemon_set_has_a_pod_on_each_node_that_it_fits() -> None:
    tainted = node("b", taints=[{"key": "k", "effect": "NoSchedule"}])
    revision, *pods = children_of(
        owner("DaemonSet", updateStrategy={"type": "RollingUpdate"}), [node("a"), tainted, node("c")], NAMING
    )
    assert revision.resource == "controllerrevisions"
    fields = [
        pod.body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        for pod in pods
    ]
    names = [each["nodeSelectorTerms"][0]["matchFields"][0]["values"] for each in fields]
    assert names == [["a"], ["c"]]


def test_kinds_without_children_have_none() -> None:
    assert children_of(owner("Job"), [node("a")], NAMING) == ()
