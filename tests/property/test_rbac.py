"""The RBAC authorizer against a naive model, over random roles, bindings and requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.api.auth.attributes import AccessAttributes, Decision
from sim.api.auth.rbac.authorizer import RbacAuthorizer
from sim.api.auth.rbac.rules import rules_of, uncovered
from sim.api.auth.rbac.source import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, RoleBook
from sim.api.types import Obj, UserInfo
from sim.ident import NAMES

NAMESPACES = ("", "ns", "other")
ROLE_NAMES = ("a", "b", "c")
VERBS, GROUPS = ("get", "list", "*"), ("", "apps", "*")
RESOURCES = ("pods", "pods/log", "nodes", "nodes/log", "*/log", "*", "pods/*")
URLS = ("/a", "/a/b", "/a/*", "/a*", "*")


def some(values: tuple[str, ...], least: int = 1) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=2, unique=True)


RULE = st.one_of(
    st.fixed_dictionaries(
        {"verbs": some(VERBS), "apiGroups": some(GROUPS), "resources": some(RESOURCES)},
        optional={"resourceNames": some(("x", "y"), 0)},
    ),
    st.fixed_dictionaries({"verbs": some(VERBS), "nonResourceURLs": some(URLS)}),
)
RULES = st.lists(RULE, max_size=3)
SUBJECT = st.one_of(
    st.builds(lambda name: {"kind": "User", "name": name}, st.sampled_from(("alice", "bob"))),
    st.builds(lambda name: {"kind": "Group", "name": name}, st.sampled_from(("dev", "ops"))),
    st.builds(
        lambda namespace: {"kind": "ServiceAccount", "name": "bot", "namespace": namespace},
        st.sampled_from(NAMESPACES),
    ),
)
BINDING = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from(NAMESPACES),
        "role": st.tuples(st.sampled_from(("Role", "ClusterRole")), st.sampled_from((*ROLE_NAMES, "gone"))),
        "subjects": st.lists(SUBJECT, max_size=3),
    }
)
ROLES_MADE = st.dictionaries(st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(ROLE_NAMES)), RULES)
USERS = st.builds(
    UserInfo,
    st.sampled_from(("alice", "bob", "system:serviceaccount:ns:bot", "system:serviceaccount::bot")),
    st.lists(st.sampled_from(("dev", "ops")), max_size=2, unique=True).map(tuple),
)
ATTRIBUTES = st.one_of(
    st.builds(
        AccessAttributes,
        verb=st.sampled_from(("get", "list", "watch")),
        group=st.sampled_from(("", "apps")),
        resource=st.sampled_from(("pods", "nodes")),
        subresource=st.sampled_from(("", "log", "*")),
        namespace=st.sampled_from(NAMESPACES),
        name=st.sampled_from(("", "x", "z")),
    ),
    st.builds(
        AccessAttributes, verb=st.sampled_from(("get", "list")), path=st.sampled_from(("/a", "/a/b", "/b"))
    ),
)


def filled(roles: dict[tuple[str, str], list[Obj]], bindings: list[dict[str, Any]]) -> RoleBook:
    book = RoleBook()
    for (namespace, name), rules in roles.items():
        metadata = {"name": name, "namespace": namespace}
        book.put(ROLES if namespace else CLUSTER_ROLES, {"metadata": metadata, "rules": rules})
    for number, made in enumerate(bindings):
        namespace, (kind, name) = made["namespace"], made["role"]
        obj = {
            "metadata": {"name": f"b{number}", "namespace": namespace},
            "roleRef": {"kind": kind if namespace else "ClusterRole", "name": name},
            "subjects": made["subjects"],
        }
        book.put(ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, obj)
    return book


# --- the model ------------------------------------------------------------------------------------


def model_allows(
    roles: dict[tuple[str, str], list[Obj]],
    bindings: list[dict[str, Any]],
    user: UserInfo,
    wanted: AccessAttributes,
) -> bool:
    for made in bindings:
        if made["namespace"] not in ("", wanted.namespace):
            continue
        kind, name = made["role"]
        home = made["namespace"] if kind == "Role" else ""
        holds = any(model_matches(subject, user, made["namespace"]) for subject in made["subjects"])
        if holds and any(model_rule(rule, wanted) for rule in roles.get((home, name), ())):
            return True
    return False


def model_matches(subject: Obj, user: UserInfo, namespace: str) -> bool:
    if subject["kind"] == "User":
        return bool(subject["name"] == user.name)
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    home = subject["namespace"] or namespace
    return bool(home) and user.name == f"system:serviceaccount:{home}:{subject['name']}"


def model_rule(rule: Obj, wanted: AccessAttributes) -> bool:
    if not {"*", wanted.verb} & set(rule["verbs"]):
        return False
    if wanted.path:
        return any(
            url == wanted.path or (url[-1] == "*" and wanted.path.startswith(url[:-1]))
            for url in rule.get("nonResourceURLs", ())
        )
    named = wanted.resource + ("/" + wanted.subresource if wanted.subresource else "")
    fitting = {"*", named} | ({"*/" + wanted.subresource} if wanted.subresource else set())
    return (
        bool({"*", wanted.group} & set(rule.get("apiGroups", ())))
        and bool(fitting & set(rule.get("resources", ())))
        and wanted.name in (rule.get("resourceNames") or [wanted.name])
    )


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    ROLES_MADE, st.lists(BINDING, max_size=4), st.lists(st.tuples(USERS, ATTRIBUTES), min_size=1, max_size=6)
)
def test_decisions_equal_those_of_the_model(
    roles: dict[tuple[str, str], list[Obj]],
    bindings: list[dict[str, Any]],
    requests: list[tuple[UserInfo, AccessAttributes]],
) -> None:
    judge = RbacAuthorizer(NAMES["kubernetes"], filled(roles, bindings))
    for user, attributes in requests:
        allowed = judge.authorize(user, attributes).decision is Decision.ALLOW
        assert allowed == model_allows(roles, bindings, user, attributes), (user, attributes)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(RULES, RULES, ATTRIBUTES)
def test_covered_rules_allow_nothing_more(
    owned: list[Obj], wanted: list[Obj], attributes: AccessAttributes
) -> None:
    if uncovered(rules_of({"rules": owned}), rules_of({"rules": wanted})):
        return
    if any(model_rule(rule, attributes) for rule in wanted):
        assert any(model_rule(rule, attributes) for rule in owned)
