"""Roles and ClusterRoles: rules, aggregation rules, what a write owns."""

from __future__ import annotations

import pytest

from sim.api.kinds.tables import columns, row
from sim.api.types import Obj
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api, whole

GROUP = "/apis/rbac.authorization.k8s.io/v1"
ROLES, CLUSTER_ROLES = f"{GROUP}/namespaces/golden-ns/roles", f"{GROUP}/clusterroles"
GET_PODS: Obj = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
NO_GROUP = "apiGroups: Required value: resource rules must supply at least one api group"
NO_RESOURCE = "resources: Required value: resource rules must supply at least one resource"


@pytest.fixture
def api() -> Api:
    return Api()


def role(*rules: Obj, name: str = "r") -> Obj:
    return {"metadata": {"name": name}, "rules": list(rules)}


def refused(api: Api, path: str, body: Obj) -> str:
    reply = api.ask("POST", path, body)
    assert reply.code == 422
    return reply.message.partition(" is invalid: ")[2]


def test_rule_needs_verbs_groups_and_resources(api: Api) -> None:
    assert refused(api, ROLES, role({})) == (
        "[rules[0].verbs: Required value: verbs must contain at least one value, "
        f"rules[0].{NO_GROUP}, rules[0].{NO_RESOURCE}]"
    )


def test_paths_are_for_cluster_roles_only(api: Api) -> None:
    paths = {"verbs": ["get"], "nonResourceURLs": ["/x"]}
    assert refused(api, ROLES, role(paths)) == (
        'rules[0].nonResourceURLs: Invalid value: []string{"/x"}: '
        "namespaced rules cannot apply to non-resource URLs"
    )
    assert api.ask("POST", CLUSTER_ROLES, role(paths)).code == 201


def test_paths_and_resources_exclude_each_other(api: Api) -> None:
    mixed = {**GET_PODS, "nonResourceURLs": ["/x"]}
    assert refused(api, CLUSTER_ROLES, role(mixed)) == (
        'rules[0].nonResourceURLs: Invalid value: []string{"/x"}: '
        "rules cannot apply to both regular resources and non-resource URLs"
    )


def test_name_is_any_path_segment(api: Api) -> None:
    assert api.ask("POST", ROLES, role(GET_PODS, name="system:A b")).code == 201
    assert refused(api, ROLES, role(name="a/b")) == (
        "metadata.name: Invalid value: \"a/b\": may not contain '/'"
    )


@pytest.mark.parametrize("given", [{}, {"clusterRoleSelectors": []}])
def test_aggregation_rule_needs_a_selector(api: Api, given: Obj) -> None:
    assert refused(api, CLUSTER_ROLES, {"metadata": {"name": "r"}, "aggregationRule": given}) == (
        "aggregationRule.clusterRoleSelectors: Required value: "
        "at least one clusterRoleSelector required if aggregationRule is non-nil"
    )


def test_selector_that_cannot_be_compiled_is_reported_twice(api: Api) -> None:
    wrong = {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Foo"}]}]}
    at = "aggregationRule.clusterRoleSelectors[0]"
    assert refused(api, CLUSTER_ROLES, {"metadata": {"name": "r"}, "aggregationRule": wrong}) == (
        f'[{at}.matchExpressions[0].operator: Invalid value: "Foo": not a valid selector operator, '
        f'{at}: Invalid value: "null": invalid label selector.]'
    )


def test_update_lists_each_error_twice(api: Api) -> None:
    api.ask("POST", ROLES, role(GET_PODS))
    reply = api.ask("PUT", f"{ROLES}/r", role({"verbs": ["get"], "apiGroups": [""]}))
    assert [cause["field"] for cause in reply.body["details"]["causes"]] == ["rules[0].resources"] * 2


def test_absent_rules_are_null_and_without_owner(api: Api) -> None:
    made = whole(api.ask("POST", ROLES, {"metadata": {"name": "r"}}))
    assert made["rules"] is None
    assert made["metadata"]["managedFields"] == []


def test_empty_list_of_rules_is_null_and_has_an_owner(api: Api) -> None:
    made = whole(api.ask("POST", ROLES, role()))
    assert made["rules"] is None
    (entry,) = made["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:rules": {}}


def test_put_creates_an_absent_role(api: Api) -> None:
    assert api.ask("PUT", f"{ROLES}/r", role(GET_PODS)).code == 201


def test_row_shows_name_and_creation_time(api: Api) -> None:
    resource = api.scheme.resource("clusterroles")
    made = api.ask("POST", CLUSTER_ROLES, role(GET_PODS)).obj
    assert [column["name"] for column in columns(resource)] == ["Name", "Created At"]
    cells = row(resource, made, 0, NAMES["kubernetes"])["cells"]
    assert cells == ["r", made["metadata"]["creationTimestamp"]]
