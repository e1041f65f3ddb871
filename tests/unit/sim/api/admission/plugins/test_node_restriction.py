"""NodeRestriction: what a node agent may write."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.admission.base import Denial
from sim.api.admission.plugins.node_restriction import NodeRestriction
from sim.api.auth.node_identity import node_of
from sim.api.types import Obj, UserInfo
from sim.ident import NAMES
from tests.unit.sim.api.admission.test_chain import FakeView, asks

NAMING = NAMES["kubernetes"]
AGENT = UserInfo("system:node:n", ("system:nodes", "system:authenticated"))
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}
PLUGIN = NodeRestriction(NAMING)


def cluster() -> FakeView:
    """A cluster with the node of the agent, and a pod on it and on another node."""
    pods = [
        {
            "metadata": {"name": f"on-{node}", "namespace": "d", "uid": f"uid-{node}"},
            "spec": {"nodeName": node},
        }
        for node in ("n", "m")
    ]
    return FakeView(pods=pods, nodes=[{"metadata": {"name": "n", "uid": "u"}}])


def decide(resource: str, operation: str, obj: Obj, *, namespace: str = "d", **rest: Any) -> str:
    """The text of the refusal; "" if the request is allowed."""
    asked = asks(resource, operation, namespace, **{"user": AGENT, **rest})
    result = PLUGIN.mutate(asked, obj, cluster())
    return (
        result.message.partition(" is forbidden: ")[2] or result.message if isinstance(result, Denial) else ""
    )


def mirror(owners: Any = (OWNER,), **spec: Any) -> Obj:
    metadata = {
        "name": "p", "annotations": {NAMING.annotation_mirror_pod: "h"}, "ownerReferences": [*owners],
    }  # fmt: skip
    return {"metadata": metadata, "spec": {"nodeName": "n", "containers": [{"name": "c"}], **spec}}


def test_only_users_in_the_group_of_nodes_are_nodes() -> None:
    assert node_of(NAMING, AGENT) == "n"
    assert node_of(NAMING, UserInfo("system:node:n", ("system:authenticated",))) is None
    assert node_of(NAMING, UserInfo("ann", ("system:nodes",))) is None
    assert decide("nodes", "update", {"metadata": {"name": "m"}}, name="m", user=UserInfo("ann")) == ""


def test_node_user_without_a_name_is_refused() -> None:
    nameless = UserInfo("system:node:", ("system:nodes",))
    text = decide("nodes", "update", {}, namespace="", name="n", user=nameless)
    assert text == 'could not determine node from user "system:node:"'


def test_decision_about_a_node_is_not_repeated_for_other_users() -> None:
    view = cluster()
    PLUGIN.mutate(asks("nodes", "update", "", name="n", user=UserInfo("ann")), {}, view)
    assert not view.volatile
    PLUGIN.mutate(asks("nodes", "update", "", name="n", user=AGENT), {}, view)
    assert view.volatile


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (mirror(), ""),
        (
            {"metadata": {"name": "p"}, "spec": {}},
            'pod does not have "kubernetes.io/config.mirror" annotation, node "n" can only create mirror pods',
        ),
        (mirror(nodeName="m"), 'node "n" can only create pods with spec.nodeName set to itself'),
        (
            mirror((OWNER, OWNER)),
            'node "n" can only create pods with a single owner reference set to itself',
        ),
        (mirror(()), 'node "n" can only create pods with an owner reference set to itself'),
        (
            mirror(({**OWNER, "name": "m"},)),
            'node "n" can only create pods with an owner reference set to itself',
        ),
        (
            mirror(({**OWNER, "controller": False},)),
            'node "n" can only create pods with a controller owner reference set to itself',
        ),
        (
            mirror(({**OWNER, "blockOwnerDeletion": True},)),
            'node "n" must not set blockOwnerDeletion on an owner reference',
        ),
        (mirror(({**OWNER, "uid": "other"},)), "node n UID mismatch: expected other got u"),
        (mirror(serviceAccountName="a"), 'node "n" can not create pods that reference a service account'),
        (mirror(imagePullSecrets=[{"name": "s"}]), 'node "n" can not create pods that reference secrets'),
        (
            mirror(volumes=[{"name": "v", "azureFile": {"secretName": "s"}}]),
            'node "n" can not create pods that reference secrets',
        ),
        (
            mirror(containers=[{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}]}]),
            'node "n" can not create pods that reference configmaps',
        ),
        (
            mirror(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            'node "n" can not create pods that reference persistentvolumeclaims',
        ),
    ],
)
def test_node_creates_only_mirror_pods_of_its_own(pod: Obj, text: str) -> None:
    assert decide("pods", "create", pod, name="p") == text


@pytest.mark.parametrize(
    ("operation", "subresource", "name", "text"),
    [
        ("delete", "", "on-n", ""),
        ("delete", "", "on-m", 'node "n" can only delete pods with spec.nodeName set to itself'),
        ("delete", "", "none", 'pods "none" not found'),
        (
            "update",
            "",
            "on-n",
            'unexpected operation "UPDATE", node "n" can only create and delete mirror pods',
        ),
        ("create", "eviction", "on-n", ""),
        ("create", "eviction", "on-m", "node n can only evict pods with spec.nodeName set to itself"),
        ("create", "eviction", "", "could not determine pod from request data"),
        (
            "update",
            "ephemeralcontainers",
            "on-n",
            "unexpected pod subresource \"ephemeralcontainers\", only 'status' and 'eviction' are allowed",
        ),
    ],
)
def test_node_touches_only_pods_that_are_bound_to_it(
    operation: str, subresource: str, name: str, text: str
) -> None:
    assert decide("pods", operation, {"metadata": {}}, name=name, subresource=subresource) == text


@pytest.mark.parametrize(
    ("node", "labels", "text"),
    [
        ("n", {}, ""),
        ("m", {}, 'node "n" can only update pod status for pods with spec.nodeName set to itself'),
        ("n", {"a": "b"}, 'node "n" cannot update labels through pod status'),
    ],
)
def test_node_updates_the_status_of_its_pods_without_labels(node: str, labels: Obj, text: str) -> None:
    old = {"metadata": {"name": "p"}, "spec": {"nodeName": node}}
    new = {**old, "metadata": {"name": "p", "labels": labels}}
    assert decide("pods", "update", new, name="p", subresource="status", old=old) == text


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("n", {}, ""),
        ("m", {}, 'node "n" is not allowed to modify node "m"'),
        (
            "n",
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
            'node "n" is not allowed to modify taints',
        ),
        (
            "n",
            {"spec": {"configSource": {"configMap": {}}}},
            'node "n" is not allowed to update configSource to a new non-nil configSource',
        ),
        ("n", {"labels": {"kubernetes.io/hostname": "n", "a": "b", "node.kubernetes.io/x": "y"}}, ""),
        (
            "n",
            {
                "labels": {
                    "x.k8s.io/b": "",
                    "node-restriction.kubernetes.io/a": "",
                    "a.node-restriction.kubernetes.io/c": "",
                }
            },
            "is not allowed to modify labels: a.node-restriction.kubernetes.io/c,"
            " node-restriction.kubernetes.io/a, x.k8s.io/b",
        ),
    ],
)
def test_node_updates_itself_but_for_taints_and_protected_labels(name: str, change: Obj, text: str) -> None:
    old: Obj = {"metadata": {"name": name}, "spec": {"taints": []}}
    new = {"metadata": {"name": name, "labels": change.get("labels")}, "spec": change.get("spec", {})}
    assert decide("nodes", "update", new, namespace="", name=name, old=old) == text


def test_node_registers_itself_without_protected_labels() -> None:
    def registered(name: str, spec: Obj | None = None, **labels: str) -> str:
        obj = {"metadata": {"name": name, "labels": labels}, "spec": spec or {}}
        return decide("nodes", "create", obj, namespace="")

    assert registered("n", **{"kubernetes.io/os": "linux"}) == ""
    assert registered("m") == 'node "n" is not allowed to modify node "m"'
    text = 'node "n" is not allowed to set the following labels: node-role.kubernetes.io/control-plane'
    assert registered("n", **{"node-role.kubernetes.io/control-plane": ""}) == text
    text = 'node "n" is not allowed to create pods with a non-nil configSource'
    assert registered("n", {"configSource": {"configMap": {}}}) == text


@pytest.mark.parametrize(
    ("namespace", "name", "text"),
    [
        ("kube-node-lease", "n", ""),
        ("kube-node-lease", "m", "can only access node lease with the same name as the requesting node"),
        ("d", "n", 'can only access leases in the "kube-node-lease" system namespace'),
    ],
)
@pytest.mark.parametrize("operation", ["create", "update", "delete"])
def test_node_writes_only_its_own_lease(namespace: str, name: str, text: str, operation: str) -> None:
    obj = {"metadata": {"name": name}}
    assert decide("leases", operation, obj, namespace=namespace, name=name) == text


@pytest.mark.parametrize("operation", ["create", "update", "delete"])
def test_node_writes_only_its_own_csi_node(operation: str) -> None:
    text = "can only access CSINode with the same name as the requesting node"
    for name, wanted in (("n", ""), ("m", text)):
        asked = {"namespace": "", "name": name}
        assert decide("csinodes", operation, {"metadata": {"name": name}}, **asked) == wanted


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        ({"apiVersion": "v1", "kind": "Pod", "name": "on-n", "uid": "uid-n"}, ""),
        (None, "node requested token not bound to a pod"),
        (
            {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u"},
            "node requested token not bound to a pod",
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "name": "on-n"},
            "node requested token with a pod binding without a uid",
        ),
        ({"apiVersion": "v1", "kind": "Pod", "name": "none", "uid": "u"}, 'pods "none" not found'),
        (
            {"apiVersion": "v1", "kind": "Pod", "name": "on-n", "uid": "u"},
            "the UID in the bound object reference (u) does not match the UID in record."
            " The object might have been deleted and then recreated",
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "name": "on-m", "uid": "uid-m"},
            "node requested token bound to a pod scheduled on a different node",
        ),
    ],
)
def test_node_gets_tokens_only_for_its_pods(bound: Obj | None, text: str) -> None:
    obj = {"metadata": {}, "spec": {"boundObjectRef": bound}}
    assert decide("serviceaccounts", "create", obj, name="a", subresource="token") == text


def test_node_changes_only_capacity_and_conditions_of_a_claim() -> None:
    old = {"metadata": {"name": "c", "resourceVersion": "1"}, "spec": {}, "status": {"phase": "Bound"}}
    grown = {**old, "metadata": {"name": "c"}, "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}}
    lost = {**old, "status": {"phase": "Lost"}}

    def decided(new: Obj, subresource: str = "status") -> str:
        return decide("persistentvolumeclaims", "update", new, name="c", subresource=subresource, old=old)

    assert decided(grown) == ""
    assert "fields other than status.capacity and status.conditions" in decided(lost)
    assert decided(grown, "") == "may only update PVC status"
