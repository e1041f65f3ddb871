"""The bootstrap policy: every object, its rules as the facts list them, and common properties."""

from __future__ import annotations

import json

import pytest

from sim.api.auth.bootstrap_policy.policy import bootstrap_policy
from sim.api.types import Obj
from sim.ident import NAMES

NAMINGS = sorted(NAMES)
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]


def _named(objects: tuple[Obj, ...]) -> dict[str, Obj]:
    return {obj["metadata"]["name"]: obj for obj in objects}


def _rules(name: str, naming: str = "kubernetes") -> list[Obj]:
    rules: list[Obj] = _named(bootstrap_policy(naming).cluster_roles)[name]["rules"]
    return rules


def test_policy_has_as_many_objects_as_a_real_cluster():
    policy = bootstrap_policy("kubernetes")
    counts = [len(part) for part in policy]
    assert counts == [62, 43, 7, 7]


@pytest.mark.parametrize("naming", NAMINGS)
def test_policy_names_are_unique(naming: str):
    keys = [
        (resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        for resource, obj in bootstrap_policy(naming).objects()
    ]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("naming", NAMINGS)
def test_policy_objects_carry_the_label_and_the_annotation(naming: str):
    names = NAMES[naming]
    for _, obj in bootstrap_policy(naming).objects():
        assert obj["metadata"]["labels"][names.label_bootstrapping] == "rbac-defaults"
        assert obj["metadata"]["annotations"] == {names.annotation_rbac_autoupdate: "true"}
        assert obj["apiVersion"] == names.api_version("rbac", "v1")


@pytest.mark.parametrize("naming", NAMINGS)
def test_policy_bindings_refer_to_roles_of_the_policy(naming: str):
    policy = bootstrap_policy(naming)
    cluster_roles = _named(policy.cluster_roles)
    roles = {(role["metadata"]["namespace"], role["metadata"]["name"]) for role in policy.roles}
    for binding in policy.cluster_role_bindings:
        assert binding["roleRef"]["name"] in cluster_roles
    for binding in policy.role_bindings:
        assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) in roles


@pytest.mark.parametrize("naming", NAMINGS)
def test_policy_rules_are_sorted_and_name_what_they_cover(naming: str):
    for _, obj in bootstrap_policy(naming).objects():
        for rule in obj.get("rules") or ():
            assert rule["verbs"]
            assert bool(rule.get("resources")) != bool(rule.get("nonResourceURLs"))
            assert ("apiGroups" in rule) == ("resources" in rule)
            for values in rule.values():
                assert values == sorted(set(values))


@pytest.mark.parametrize("naming", NAMINGS)
def test_controller_role_is_bound_to_its_service_account(naming: str):
    policy, system = bootstrap_policy(naming), NAMES[naming].system_namespace
    controllers = [name for name in _named(policy.cluster_roles) if name.startswith("system:controller:")]
    bindings = _named(policy.cluster_role_bindings)
    assert len(controllers) == 31
    for name in controllers:
        account = name.removeprefix("system:controller:")
        subject = {"kind": "ServiceAccount", "name": account, "namespace": system}
        assert bindings[name]["subjects"] == [subject]


def test_policy_of_the_other_naming_set_has_no_upstream_identifier():
    text = json.dumps([obj for _, obj in bootstrap_policy("orch").objects()])
    assert not any(word in text for word in ("kube-", "kubelet", "k8s.io", "kubernetes"))


def test_policy_is_computed_once():
    assert bootstrap_policy("orch") is bootstrap_policy("orch")


def test_only_four_controller_roles_may_not_record_events():
    events = {
        "verbs": ["create", "patch", "update"],
        "apiGroups": ["", "events.k8s.io"],
        "resources": ["events"],
    }
    without = [
        name.removeprefix("system:controller:")
        for name, role in _named(bootstrap_policy("kubernetes").cluster_roles).items()
        if name.startswith("system:controller:") and events not in role["rules"]
    ]
    assert without == ["clusterrole-aggregation-controller", "namespace-controller", "pod-garbage-collector"]


@pytest.mark.parametrize(
    ("role", "aggregates", "taken_over_by"),
    [("admin", "admin", ""), ("edit", "edit", "admin"), ("view", "view", "edit")],
)
def test_namespace_roles_consist_of_an_aggregation(role: str, aggregates: str, taken_over_by: str):
    made = _named(bootstrap_policy("kubernetes").cluster_roles)[role]
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    assert made["rules"] is None
    assert made["aggregationRule"] == {
        "clusterRoleSelectors": [{"matchLabels": {f"{prefix}{aggregates}": "true"}}]
    }
    assert (f"{prefix}{taken_over_by}" in made["metadata"]["labels"]) == bool(taken_over_by)


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("cluster-admin", {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
        ("cluster-admin", {"verbs": ["*"], "nonResourceURLs": ["*"]}),
        (
            "system:aggregate-to-edit",
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"]},
        ),
        (
            "system:aggregate-to-edit",
            {"verbs": WRITE, "apiGroups": ["policy"], "resources": ["poddisruptionbudgets"]},
        ),
        (
            "system:basic-user",
            {
                "verbs": ["create"],
                "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            },
        ),
        (
            "system:public-info-viewer",
            {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]},
        ),
        (
            "system:kube-controller-manager",
            {
                "verbs": ["get", "update"],
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": ["kube-controller-manager"],
            },
        ),
        (
            "system:kube-scheduler",
            {"verbs": ["create"], "apiGroups": [""], "resources": ["bindings", "pods/binding"]},
        ),
        ("system:node", {"verbs": READ, "apiGroups": ["node.k8s.io"], "resources": ["runtimeclasses"]}),
        (
            "system:controller:clusterrole-aggregation-controller",
            {
                "verbs": ["escalate", "get", "list", "patch", "update", "watch"],
                "apiGroups": ["rbac.authorization.k8s.io"],
                "resources": ["clusterroles"],
            },
        ),
        (
            "system:controller:generic-garbage-collector",
            {
                "verbs": ["delete", "get", "list", "patch", "update", "watch"],
                "apiGroups": ["*"],
                "resources": ["*"],
            },
        ),
    ],
)
def test_cluster_role_has_the_rule_of_a_real_cluster(role: str, expected: Obj):
    assert expected in _rules(role)


def test_viewers_may_not_read_secrets():
    assert not [rule for rule in _rules("system:aggregate-to-view") if "secrets" in rule["resources"]]


def test_node_role_is_bound_to_no_subject():
    binding = _named(bootstrap_policy("kubernetes").cluster_role_bindings)["system:node"]
    assert "subjects" not in binding


def test_component_names_follow_the_naming_set():
    assert _rules("system:orchlet-api-admin", "orch")
    approval = _rules("system:certificates.orch.io:orch-apiserver-client-orchlet-approver", "orch")
    assert approval[0]["resourceNames"] == ["orch.io/orch-apiserver-client-orchlet"]


def test_leader_locking_is_granted_to_the_user_and_the_service_account():
    bindings = {
        (obj["metadata"]["namespace"], obj["metadata"]["name"]): obj
        for obj in bootstrap_policy("kubernetes").role_bindings
    }
    subjects = bindings["kube-system", "system::leader-locking-kube-scheduler"]["subjects"]
    assert [(subject["kind"], subject["name"]) for subject in subjects] == [
        ("User", "system:kube-scheduler"),
        ("ServiceAccount", "kube-scheduler"),
    ]
