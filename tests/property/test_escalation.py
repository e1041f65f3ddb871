"""No sequence of writes to roles and bindings gives any user a right that neither the user nor the
writer held.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.controllers.clusterrole_aggregation import gathered_rules
from sim.api.auth.attributes import AccessAttributes, Decision
from sim.api.auth.rbac.authorizer import RbacAuthorizer
from sim.api.auth.rbac.source import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, RESOURCES, ROLE_BINDINGS, ROLES
from sim.api.types import Obj, UserInfo
from tests.unit.sim.api.auth.rbac.builders import binding, group, role, rule, user
from tests.unit.sim.api.auth.rbac.guarded_api import GuardedApi, StoredRules

MALLORY, BOB = UserInfo("mallory", ("dev",)), UserInfo("bob", ("ops",))
SUBJECTS = (user("mallory"), user("bob"), group("dev"), group("ops"))
ROLE_NAMES = ("a", "b", "c")
GATHERS: Obj = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}


def some(values: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True).map(" ".join)


RULE = st.one_of(
    st.builds(rule, some(("get", "list", "*")), some(("pods", "pods/log", "*/log", "nodes", "*"))),
    st.builds(rule, some(("get", "*")), some(("pods", "nodes")), names=some(("x", "y"))),
)
CLUSTER_RULE = st.one_of(RULE, st.builds(lambda urls: rule("get", urls=urls), some(("/a", "/a/*", "*"))))
NAME = st.sampled_from(ROLE_NAMES)
HELD = st.lists(st.sampled_from(SUBJECTS), max_size=2, unique_by=lambda subject: str(subject["name"]))
OBJECTS: dict[str, st.SearchStrategy[Obj]] = {
    ROLES: st.builds(lambda name, rules: role(name, *rules), NAME, st.lists(RULE, max_size=2)),
    CLUSTER_ROLES: st.builds(
        lambda name, rules, aggregates: {
            "metadata": {"name": name, "labels": {} if aggregates else {"a": "b"}},
            "rules": rules,
            **(GATHERS if aggregates else {}),
        },
        NAME,
        st.lists(CLUSTER_RULE, max_size=2),
        st.booleans(),
    ),
    ROLE_BINDINGS: st.builds(
        lambda name, referenced, kind, subjects: binding(name, referenced, *subjects, kind=kind),
        NAME,
        NAME,
        st.sampled_from(("Role", "ClusterRole")),
        HELD,
    ),
    CLUSTER_ROLE_BINDINGS: st.builds(
        lambda name, referenced, subjects: binding(name, referenced, *subjects), NAME, NAME, HELD
    ),
}
WRITE = st.sampled_from(RESOURCES).flatmap(lambda resource: st.tuples(st.just(resource), OBJECTS[resource]))
ATTEMPT = st.tuples(WRITE, st.sampled_from(("PUT", "POST", "PATCH")))
REQUESTS = [
    AccessAttributes(verb, resource=resource, subresource=subresource, namespace=namespace, name=name)
    for verb in ("get", "list", "delete")
    for resource in ("pods", "nodes", "secrets")
    for subresource in ("", "log")
    for namespace in ("", "ns")
    for name in ("", "x", "z")
] + [AccessAttributes("get", path=path) for path in ("/a", "/a/b", "/c")]


def rights(api: GuardedApi, subject: UserInfo) -> set[AccessAttributes]:
    """All requests that a user may send."""
    judge = RbacAuthorizer(api.scheme.names, StoredRules(api.store, api.scheme))
    return {each for each in REQUESTS if judge.authorize(subject, each).decision is Decision.ALLOW}


def gather(api: GuardedApi) -> None:
    """What the aggregation controller does until there is nothing left to gather."""
    roles = [item.obj for item in api.items(CLUSTER_ROLES)]
    for aggregated in roles:
        rules = gathered_rules(aggregated, roles)
        if rules:
            api.put(CLUSTER_ROLES, {**aggregated, "rules": rules})


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(WRITE, max_size=5), st.lists(ATTEMPT, min_size=1, max_size=6))
def test_escalation_attempts_never_succeed(
    given_objects: list[tuple[str, Obj]], attempts: list[tuple[tuple[str, Obj], str]]
) -> None:
    api = GuardedApi()
    for resource, obj in given_objects:
        stored = api.store.get(api.scheme.key(resource, "ns", obj["metadata"]["name"]))
        if stored is None:  # the reference of a binding cannot change
            api.put(resource, obj)
    gather(api)
    mallory, bob = rights(api, MALLORY), rights(api, BOB)
    for (resource, obj), method in attempts:
        name = "" if method == "POST" else obj["metadata"]["name"]
        body: Any = {key: value for key, value in obj.items() if method != "PATCH" or key != "metadata"}
        reply = api.ask_as(MALLORY, method, api.path(resource, name), body)
        assert reply.code in (200, 201, 403, 404, 409, 422), reply.message
        if reply.code == 201:
            assert "aggregationRule" not in obj
        gather(api)
        assert rights(api, MALLORY) <= mallory, reply
        assert rights(api, BOB) <= bob | mallory, reply
