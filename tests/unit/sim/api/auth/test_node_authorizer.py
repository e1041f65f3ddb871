"""The node authorizer and its graph: what a node agent may read, write and create tokens for."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Decision, Opinion
from sim.api.auth.node_authorizer import NodeAuthorizer
from sim.api.auth.node_graph import NodeGraph
from sim.api.auth.rbac.rules import Rule
from sim.api.types import Obj, UserInfo
from sim.ident import NAMES

N = NAMES["kubernetes"]
NODE = UserInfo("system:node:n1", (N.group_nodes, N.group_authenticated))
OTHER = UserInfo("system:node:n2", (N.group_nodes, N.group_authenticated))
RULES = (Rule(("get", "list"), ("",), ("pods",)),)
ALLOW = Opinion(Decision.ALLOW)
UNRELATED = "no relationship found between node 'n1' and this object"


def pod(name: str = "p", node: str = "n1", annotations: Obj | None = None, **spec: Any) -> Obj:
    metadata = {"name": name, "namespace": "ns", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"nodeName": node, **spec}}


def authorizer(*pods: Obj) -> tuple[NodeAuthorizer, NodeGraph]:
    graph = NodeGraph(N)
    for each in pods:
        graph.put_pod(each)
    return NodeAuthorizer(N, lambda: graph, RULES), graph


def get(resource: str, name: str, verb: str = "get", **more: str) -> AccessAttributes:
    return AccessAttributes(verb, resource=resource, name=name, **{"namespace": "ns", **more})


def reason(attributes: AccessAttributes, user: UserInfo = NODE) -> str:
    opinion = authorizer(pod(serviceAccountName="sa"))[0].authorize(user, attributes)
    assert opinion.decision is Decision.NO_OPINION
    return opinion.reason


REFERENCES: dict[str, tuple[str, Obj]] = {
    "pull_secret": ("secrets", {"imagePullSecrets": [{"name": "x"}]}),
    "secret_volume": ("secrets", {"volumes": [{"name": "v", "secret": {"secretName": "x"}}]}),
    "azure_volume": ("secrets", {"volumes": [{"name": "v", "azureFile": {"secretName": "x"}}]}),
    "iscsi_volume": ("secrets", {"volumes": [{"name": "v", "iscsi": {"secretRef": {"name": "x"}}}]}),
    "csi_volume": ("secrets", {"volumes": [{"name": "v", "csi": {"nodePublishSecretRef": {"name": "x"}}}]}),
    "projected_secret": (
        "secrets",
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "x"}}]}}]},
    ),
    "env_secret": ("secrets", {"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "x"}}}]}]}),
    "init_env_from": ("secrets", {"initContainers": [{"envFrom": [{"secretRef": {"name": "x"}}]}]}),
    "ephemeral": ("secrets", {"ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "x"}}]}]}),
    "map_volume": ("configmaps", {"volumes": [{"name": "v", "configMap": {"name": "x"}}]}),
    "projected_map": (
        "configmaps",
        {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "x"}}]}}]},
    ),
    "env_map": ("configmaps", {"containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "x"}}}]}]}),
    "env_from_map": ("configmaps", {"containers": [{"envFrom": [{"configMapRef": {"name": "x"}}]}]}),
    "claim": (
        "persistentvolumeclaims",
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]},
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_node_reads_what_its_pods_refer_to(name: str) -> None:
    resource, spec = REFERENCES[name]
    judge, graph = authorizer(pod(**spec))
    assert judge.authorize(NODE, get(resource, "x")) == ALLOW
    assert judge.authorize(OTHER, get(resource, "x")).decision is Decision.NO_OPINION
    assert judge.authorize(NODE, get(resource, "x", namespace="other")).reason == UNRELATED
    graph.remove(("pods", "ns", "p"))
    assert judge.authorize(NODE, get(resource, "x")).reason == UNRELATED


def test_claim_of_an_ephemeral_volume_is_named_after_pod_and_volume() -> None:
    judge, _ = authorizer(pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]))
    assert judge.authorize(NODE, get("persistentvolumeclaims", "p-v")) == ALLOW
    assert judge.authorize(NODE, get("persistentvolumeclaims", "p-v", "patch", subresource="status")) == ALLOW


def test_two_pods_refer_to_one_object_until_both_are_gone() -> None:
    spec = {"imagePullSecrets": [{"name": "x"}]}
    judge, graph = authorizer(pod("a", **spec), pod("b", **spec))
    graph.remove(("pods", "ns", "a"))
    assert judge.authorize(NODE, get("secrets", "x")) == ALLOW
    graph.remove(("pods", "ns", "b"))
    assert judge.authorize(NODE, get("secrets", "x")).reason == UNRELATED


def test_mirror_pod_and_unbound_pod_give_no_right() -> None:
    spec = {"imagePullSecrets": [{"name": "x"}]}
    judge, _ = authorizer(pod("a", "", **spec), pod("b", annotations={N.annotation_mirror_pod: "h"}, **spec))
    assert judge.authorize(NODE, get("secrets", "x")).reason == UNRELATED


def test_volume_and_its_secret_lead_to_the_node_of_the_claim() -> None:
    judge, graph = authorizer(pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
    source = {
        "csi": {
            "nodeStageSecretRef": {"name": "s", "namespace": "ns"},
            "controllerPublishSecretRef": {"name": "t"},
        }
    }
    volume = {"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "ns", "name": "c"}, **source}}
    graph.put_volume(volume)
    assert judge.authorize(NODE, get("persistentvolumes", "pv", namespace="")) == ALLOW
    assert judge.authorize(NODE, get("secrets", "s")) == ALLOW
    assert judge.authorize(NODE, get("secrets", "t")).reason == UNRELATED
    assert judge.authorize(OTHER, get("secrets", "s")).decision is Decision.NO_OPINION
    graph.put_volume({"metadata": {"name": "pv"}, "spec": {}})
    assert judge.authorize(NODE, get("persistentvolumes", "pv", namespace="")).reason == UNRELATED


def test_attachment_belongs_to_its_node() -> None:
    judge, graph = authorizer()
    graph.put_attachment({"metadata": {"name": "va"}, "spec": {"nodeName": "n1"}})
    asked = get("volumeattachments", "va", namespace="", group=N.group("storage"))
    assert judge.authorize(NODE, asked) == ALLOW
    assert judge.authorize(OTHER, asked).decision is Decision.NO_OPINION


def test_node_creates_tokens_for_accounts_of_its_pods() -> None:
    judge, _ = authorizer(pod(serviceAccountName="sa"))
    asked = get("serviceaccounts", "sa", "create", subresource="token")
    assert judge.authorize(NODE, asked) == ALLOW
    assert judge.authorize(OTHER, asked).decision is Decision.NO_OPINION


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        (get("secrets", "s"), UNRELATED),
        (get("secrets", ""), "No Object name found"),
        (get("secrets", "s", "update"), "can only read resources of this type"),
        (get("configmaps", "s", subresource="x"), "cannot read subresource"),
        (get("secrets", "s", namespace=""), "can only read namespaced object of this type"),
        (get("persistentvolumeclaims", "c", "list"), "can only get individual resources of this type"),
        (get("persistentvolumeclaims", "c", subresource="x"), "cannot get subresource"),
        (get("persistentvolumeclaims", "c", subresource="status"), "can only get/update/patch this type"),
        (get("serviceaccounts", "sa"), "can only create tokens for individual service accounts"),
        (
            get("serviceaccounts", "", "create", subresource="token"),
            "can only create tokens for individual service accounts",
        ),
        (
            get("serviceaccounts", "sa", "get", subresource="token"),
            "can only create tokens for individual service accounts",
        ),
        (
            get("persistentvolumeclaims", "c", "delete", subresource="status"),
            "can only get/update/patch this type",
        ),
        (get("persistentvolumeclaims", "c", "update", subresource="status"), UNRELATED),
        (get("secrets", "s", "list"), UNRELATED),
        (get("secrets", "s", "watch"), UNRELATED),
        (
            get("leases", "n1", "watch", group=N.group("coordination"), namespace="kube-node-lease"),
            "can only get, create, update, patch, or delete a node lease",
        ),
        (get("serviceaccounts", "sa", "create"), "can only create token subresource of serviceaccount"),
        (
            get("leases", "n1", "list", group=N.group("coordination"), namespace="kube-node-lease"),
            "can only get, create, update, patch, or delete a node lease",
        ),
        (
            get("leases", "n1", group=N.group("coordination")),
            'can only access leases in the "kube-node-lease" system namespace',
        ),
        (
            get("leases", "n2", group=N.group("coordination"), namespace="kube-node-lease"),
            "can only access node lease with the same name as the requesting node",
        ),
        (
            get("csinodes", "n1", "list", group=N.group("storage")),
            "can only get, create, update, patch, or delete a CSINode",
        ),
        (
            get("csinodes", "n1", group=N.group("storage"), subresource="x"),
            "cannot authorize CSINode subresources",
        ),
        (
            get("csinodes", "n2", group=N.group("storage")),
            "can only access CSINode with the same name as the requesting node",
        ),
        (get("pods", "p", "delete"), ""),
    ],
)
def test_refusal_gives_the_reason(attributes: AccessAttributes, text: str) -> None:
    assert reason(attributes) == text


def test_node_uses_its_own_lease_and_csi_node() -> None:
    judge, _ = authorizer()
    where = {"group": N.group("coordination"), "namespace": N.lease_namespace}
    for verb, name in (("get", "n1"), ("update", "n1"), ("delete", "n1"), ("create", "")):
        assert judge.authorize(NODE, get("leases", name, verb, **where)) == ALLOW
        assert judge.authorize(NODE, get("csinodes", name, verb, group=N.group("storage"))) == ALLOW


def test_other_resources_follow_the_rules_of_all_nodes() -> None:
    judge, _ = authorizer()
    assert judge.authorize(NODE, get("pods", "p")) == ALLOW
    assert judge.authorize(NODE, AccessAttributes("get", "/metrics")) == NO_OPINION


def test_user_is_a_node_by_name_and_group() -> None:
    judge, _ = authorizer()
    asked = get("pods", "p")
    assert judge.authorize(UserInfo("system:node:n1"), asked) == NO_OPINION
    assert judge.authorize(UserInfo("n1", (N.group_nodes,)), asked) == NO_OPINION
    nameless = UserInfo("system:node:", (N.group_nodes,))
    assert judge.authorize(nameless, asked).reason == 'unknown node for user "system:node:"'
    assert judge.user_rules(NODE, "ns").errors == ("node authorizer does not support user rule resolution",)
    assert judge.user_rules(NODE, "ns").incomplete
    assert not judge.user_rules(UserInfo("a"), "ns").incomplete


def test_standing_says_if_a_user_is_a_node_with_a_name() -> None:
    judge, _ = authorizer()
    users = (NODE, OTHER, UserInfo("system:node:", (N.group_nodes,)), UserInfo("a"))
    assert [judge.standing(user, "ns") for user in users] == [True, True, "", None]


def test_one_of_the_rules_of_all_nodes_is_enough() -> None:
    graph = NodeGraph(N)
    judge = NodeAuthorizer(N, lambda: graph, (*RULES, Rule(("get",), ("",), ("services",))))
    for resource in ("pods", "services"):
        assert judge.authorize(NODE, get(resource, "x")) == ALLOW
    assert judge.authorize(NODE, get("endpoints", "x")) == NO_OPINION
