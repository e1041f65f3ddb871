"""Writes to roles and bindings by users who do not hold what they grant."""

from __future__ import annotations

import pytest

from sim.api.auth.rbac.source import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from sim.api.types import Obj, Reply, UserInfo
from tests.unit.sim.api.auth.rbac.builders import GROUP, binding, role, rule, user
from tests.unit.sim.api.auth.rbac.guarded_api import APPLY, GuardedApi

ALICE = UserInfo("alice", ("dev", "system:authenticated"))
GET_PODS, GET_SECRETS = rule("get list", "pods"), rule("get", "secrets")
NOT_HELD = (
    'user "alice" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions '
    "not currently held:\n"
)
SECRETS = NOT_HELD + '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'


@pytest.fixture
def api() -> GuardedApi:
    """A cluster in which alice may read pods in one namespace."""
    made = GuardedApi()
    made.put(ROLES, role("mine", GET_PODS, namespace="ns"))
    made.put(ROLE_BINDINGS, binding("mine", "mine", user("alice"), namespace="ns", kind="Role"))
    made.put(ROLES, role("strong", GET_SECRETS, namespace="ns"))
    return made


def grant(api: GuardedApi, *rules: Obj) -> None:
    """Gives alice rules besides."""
    api.put(ROLES, role("more", *rules, namespace="ns"))
    api.put(ROLE_BINDINGS, binding("more", "more", user("alice"), namespace="ns", kind="Role"))


def create(api: GuardedApi, resource: str, obj: Obj) -> Reply:
    return api.ask_as(ALICE, "POST", api.path(resource), obj)


def refusal(reply: Reply) -> str:
    assert reply.code == 403
    return reply.message.partition(" is forbidden: ")[2]


def test_role_with_held_rules_is_created(api: GuardedApi) -> None:
    assert create(api, ROLES, role("r", rule("get", "pods"))).code == 201
    assert create(api, ROLES, role("empty")).code == 201


def test_role_with_other_rules_is_forbidden(api: GuardedApi) -> None:
    reply = create(api, ROLES, role("r", rule("get", "pods secrets")))
    assert refusal(reply) == SECRETS
    assert reply.message.startswith(f'roles.{GROUP} "r" is forbidden')
    assert reply.body["details"] == {"name": "r", "group": GROUP, "kind": "roles"}


def test_rules_of_a_namespace_do_not_count_for_the_cluster(api: GuardedApi) -> None:
    assert "not currently held" in refusal(create(api, CLUSTER_ROLES, role("r", GET_PODS)))


def test_check_comes_before_validation_and_names(api: GuardedApi) -> None:
    assert create(api, ROLES, role("a/b", GET_SECRETS)).code == 403
    assert create(api, ROLES, role("a/b", GET_PODS)).code == 422
    generated = {"metadata": {"generateName": "r-"}, "rules": [GET_SECRETS]}
    reply = create(api, ROLES, generated)
    assert reply.message == f"roles.{GROUP} is forbidden: {SECRETS}"


def test_put_patch_and_apply_are_checked(api: GuardedApi) -> None:
    create(api, ROLES, role("r", GET_PODS))
    path, wanted = api.path(ROLES, "r"), role("r", GET_SECRETS)
    assert refusal(api.ask_as(ALICE, "PUT", path, wanted)) == SECRETS
    assert refusal(api.ask_as(ALICE, "PATCH", path, {"rules": [GET_SECRETS]})) == SECRETS
    applied = {"apiVersion": f"{GROUP}/v1", "kind": "Role", **wanted}
    assert refusal(api.ask_as(ALICE, "PATCH", f"{path}?force=true", applied, APPLY)) == SECRETS
    fresh = {**applied, "metadata": {"name": "fresh"}}
    assert refusal(api.ask_as(ALICE, "PATCH", api.path(ROLES, "fresh"), fresh, APPLY)) == SECRETS
    assert refusal(api.ask_as(ALICE, "PUT", api.path(ROLES, "new"), role("new", GET_SECRETS))) == SECRETS


def test_stronger_role_may_be_weakened_but_not_relabelled(api: GuardedApi) -> None:
    path = api.path(ROLES, "strong")
    assert refusal(api.ask_as(ALICE, "PATCH", path, {"metadata": {"labels": {"a": "b"}}})) == SECRETS
    assert api.ask_as(ALICE, "PATCH", path, {"rules": []}).code == 200


def test_change_of_collector_fields_alone_is_not_checked(api: GuardedApi) -> None:
    path, merge = api.path(ROLES, "strong"), "application/merge-patch+json"
    freed = {"metadata": {"finalizers": None}}
    api.ask("PATCH", path, {"metadata": {"finalizers": ["foregroundDeletion"]}}, merge)
    # Quirk: the finalizer has an owner, and its entry in managedFields changes as well.
    assert refusal(api.ask_as(ALICE, "PATCH", path, freed)) == SECRETS
    api.ask("PATCH", path, {"metadata": {"managedFields": [{}]}}, merge)
    assert api.ask_as(ALICE, "PATCH", path, freed).code == 200


def test_unchanged_object_is_not_checked(api: GuardedApi) -> None:
    assert api.ask_as(ALICE, "PATCH", api.path(ROLES, "strong"), {}).code == 200


def test_verb_escalate_lifts_the_check_of_roles(api: GuardedApi) -> None:
    grant(api, rule("escalate", "roles", [GROUP]))
    assert create(api, ROLES, role("r", GET_SECRETS)).code == 201
    assert create(api, CLUSTER_ROLES, role("r", GET_SECRETS)).code == 403
    bound = binding("b", "strong", user("bob"), kind="Role")
    assert refusal(create(api, ROLE_BINDINGS, bound)) == SECRETS


def test_members_of_masters_are_not_checked(api: GuardedApi) -> None:
    masters = UserInfo("root", ("system:masters",))
    reply = api.ask_as(masters, "POST", api.path(ROLES), role("r", GET_SECRETS))
    assert reply.code == 201


def test_binding_to_held_rules_is_created(api: GuardedApi) -> None:
    assert create(api, ROLE_BINDINGS, binding("b", "mine", user("bob"), kind="Role")).code == 201


def test_binding_to_other_rules_is_forbidden(api: GuardedApi) -> None:
    assert refusal(create(api, ROLE_BINDINGS, binding("b", "strong", user("bob"), kind="Role"))) == SECRETS
    api.put(CLUSTER_ROLES, role("all", rule("*", "*", ["*"]), rule("*", urls="*")))
    everything = NOT_HELD + (
        '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
    )
    for resource in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
        assert refusal(create(api, resource, binding("b", "all", user("alice")))) == everything


def test_verb_bind_lifts_the_check_of_bindings_to_named_roles(api: GuardedApi) -> None:
    grant(api, rule("bind", "roles", [GROUP], names="strong"))
    assert create(api, ROLE_BINDINGS, binding("b", "strong", user("bob"), kind="Role")).code == 201
    api.put(ROLES, role("other", GET_SECRETS, namespace="ns"))
    assert create(api, ROLE_BINDINGS, binding("c", "other", user("bob"), kind="Role")).code == 403
    assert create(api, ROLES, role("r", GET_SECRETS)).code == 403


@pytest.mark.parametrize(
    ("resource", "kind", "name", "code", "message"),
    [
        (ROLE_BINDINGS, "Role", "gone", 404, f'roles.{GROUP} "gone" not found'),
        (ROLE_BINDINGS, "ClusterRole", "gone", 404, f'clusterroles.{GROUP} "gone" not found'),
        (ROLE_BINDINGS, "Role", "", 400, "Name parameter required."),
        (ROLE_BINDINGS, "Role", "a/b", 400, "Name parameter invalid: \"a/b\": may not contain '/'"),
        (CLUSTER_ROLE_BINDINGS, "Role", "gone", 400, "Namespace parameter required."),
        (ROLE_BINDINGS, "Other", "gone", 500, 'unsupported role reference kind: "Other"'),
    ],
)
def test_binding_to_no_role_is_refused(
    api: GuardedApi, resource: str, kind: str, name: str, code: int, message: str
) -> None:
    reply = create(api, resource, binding("b", name, user("bob"), kind=kind))
    assert (reply.code, reply.message) == (code, message)


def test_subjects_of_a_binding_to_other_rules_cannot_change(api: GuardedApi) -> None:
    api.put(ROLE_BINDINGS, binding("s", "strong", user("bob"), namespace="ns", kind="Role"))
    change = {"subjects": [user("alice")]}
    assert refusal(api.ask_as(ALICE, "PATCH", api.path(ROLE_BINDINGS, "s"), change)) == SECRETS


def test_aggregation_rule_needs_all_rights(api: GuardedApi) -> None:
    grant(api)
    api.put(CLUSTER_ROLES, role("cluster", GET_PODS))
    api.put(CLUSTER_ROLE_BINDINGS, binding("cluster", "cluster", user("alice")))
    gathers = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    text = "must have cluster-admin privileges to use the aggregationRule"
    assert refusal(create(api, CLUSTER_ROLES, {**role("r"), **gathers})) == text
    api.put(CLUSTER_ROLES, {**role("r", GET_PODS), **gathers})
    assert refusal(api.ask_as(ALICE, "PUT", api.path(CLUSTER_ROLES, "r"), role("r", GET_PODS))) == text
    api.put(CLUSTER_ROLES, role("cluster", rule("*", "*", ["*"]), rule("*", urls="*")))
    assert create(api, CLUSTER_ROLES, {**role("r2"), **gathers}).code == 201


def test_absent_roles_of_the_user_are_named(api: GuardedApi) -> None:
    api.put(ROLE_BINDINGS, binding("x", "gone", user("alice"), namespace="ns", kind="Role"))
    missing = f'roles.{GROUP} "gone" not found'
    reply = create(api, ROLES, role("r", GET_SECRETS))
    assert refusal(reply) == f"{SECRETS}; resolution errors: [{missing}]"
    api.put(ROLE_BINDINGS, binding("y", "gone", user("alice"), namespace="ns", kind="Role"))
    reply = create(api, ROLES, role("r", GET_SECRETS))
    assert refusal(reply) == f"{SECRETS}; resolution errors: [[{missing}, {missing}]]"
