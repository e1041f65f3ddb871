"""What a starting server adds to roles and bindings that exist already."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from sim.api.auth.bootstrap_policy.policy import bootstrap_policy
from sim.api.auth.bootstrap_policy.reconcile import reconcile
from sim.api.types import Obj
from sim.ident import NAMES

NAMES_UPSTREAM = NAMES["kubernetes"]
ANNOTATION = "rbac.authorization.kubernetes.io/autoupdate"
LABEL = "kubernetes.io/bootstrapping"
PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
NODES = {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}
ALICE = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}
BOT = {"kind": "ServiceAccount", "name": "bot", "namespace": "kube-system"}
SELECTOR = {"matchLabels": {"a": "b"}}


def _metadata(**annotations: str) -> Obj:
    return {
        "name": "x",
        "labels": {LABEL: "rbac-defaults"},
        "annotations": {ANNOTATION: "true", **annotations},
    }


def _role(*rules: Obj, **more: Any) -> Obj:
    return {"kind": "ClusterRole", "metadata": _metadata(), "rules": list(rules), **more}


def _binding(*subjects: Obj, role: str = "x") -> Obj:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(),
        "subjects": list(subjects),
        "roleRef": reference,
    }


def _written(stored: Obj, expected: Obj) -> Obj:
    before = deepcopy((stored, expected))
    result = reconcile(stored, expected, NAMES_UPSTREAM)
    assert (stored, expected) == before
    assert result is not None
    assert not result.anew
    return result.obj


def test_missing_object_is_created_as_expected():
    role = _role(PODS)
    result = reconcile(None, role, NAMES_UPSTREAM)
    assert result is not None
    assert result.obj is role


@pytest.mark.parametrize("naming", sorted(NAMES))
def test_policy_agrees_with_itself(naming: str):
    for _, obj in bootstrap_policy(naming).objects():
        assert reconcile(obj, obj, NAMES[naming]) is None


def test_missing_rules_are_added_one_verb_at_a_time():
    made = _written(_role(NODES), _role(PODS, NODES))
    assert made["rules"] == [
        NODES,
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]},
    ]


def test_missing_rule_keeps_its_names_and_paths():
    named = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}
    paths = {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}
    assert _written(_role(), _role(named, paths))["rules"] == [named, paths]


def test_rules_that_are_covered_in_another_form_are_not_added():
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert reconcile(_role(everything), _role(PODS, NODES), NAMES_UPSTREAM) is None


def test_extra_rules_are_kept():
    assert reconcile(_role(PODS, NODES), _role(PODS), NAMES_UPSTREAM) is None


def test_role_without_any_rules_gets_the_expected_ones():
    assert _written({**_role(), "rules": None}, _role(NODES))["rules"] == [NODES]


def test_rules_collected_by_an_aggregation_are_kept():
    expected = {**_role(), "rules": None, "aggregationRule": {"clusterRoleSelectors": [SELECTOR]}}
    assert reconcile({**expected, "rules": [PODS]}, expected, NAMES_UPSTREAM) is None


def test_missing_aggregation_selectors_are_added():
    other = {"matchLabels": {"c": "d"}}
    expected = _role(aggregationRule={"clusterRoleSelectors": [SELECTOR]})
    stored = _role(aggregationRule={"clusterRoleSelectors": [other]})
    assert _written(stored, expected)["aggregationRule"] == {"clusterRoleSelectors": [other, SELECTOR]}
    assert _written(_role(), expected)["aggregationRule"] == {"clusterRoleSelectors": [SELECTOR]}


def test_aggregation_rule_that_is_not_expected_is_removed():
    stored = _role(PODS, aggregationRule={"clusterRoleSelectors": [SELECTOR]})
    assert "aggregationRule" not in _written(stored, _role(PODS))


def test_removed_label_and_annotation_are_restored_and_changed_ones_kept():
    stored = _role(PODS)
    stored["metadata"] = {"name": "x", "uid": "u", "labels": {LABEL: "mine", "a": "b"}}
    metadata = _written(stored, _role(PODS))["metadata"]
    assert metadata == {
        "name": "x",
        "uid": "u",
        "labels": {LABEL: "mine", "a": "b"},
        "annotations": {ANNOTATION: "true"},
    }


@pytest.mark.parametrize(
    ("stored", "expected"), [(_role(), _role(PODS)), (_binding(role="y"), _binding(BOT))]
)
def test_object_that_opts_out_is_not_changed(stored: Obj, expected: Obj):
    protected = {**stored, "metadata": _metadata(**{ANNOTATION: "false"})}
    assert reconcile(protected, expected, NAMES_UPSTREAM) is None


def test_missing_subjects_are_added_and_extra_ones_kept():
    assert _written(_binding(ALICE), _binding(BOT))["subjects"] == [ALICE, BOT]


def test_subject_is_compared_without_its_empty_fields():
    written_out = {**BOT, "apiGroup": ""}
    assert reconcile(_binding(written_out), _binding(BOT), NAMES_UPSTREAM) is None


def test_binding_to_another_role_is_created_again():
    expected = _binding(BOT)
    result = reconcile(_binding(ALICE, role="y"), expected, NAMES_UPSTREAM)
    assert result is not None
    assert result.anew
    assert result.obj is expected
