"""Policies of the mode ABAC: what a policy matches, and how a file is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sim.api.auth.abac import AbacAuthorizer, Policy, PolicyError, read_policies
from sim.api.auth.attributes import AccessAttributes, Decision
from sim.api.types import UserInfo
from sim.ident import NAMES

N = NAMES["kubernetes"]
ALICE = UserInfo("alice", ("dev", N.group_authenticated))
GET_POD = AccessAttributes("get", resource="pods", namespace="ns", name="a")
CREATE = AccessAttributes("create", group="apps", resource="deployments", namespace="ns")
HEALTH = AccessAttributes("get", "/healthz/ping")


def policy(**spec: Any) -> str:
    head = {"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy"}
    return json.dumps({**head, "spec": spec})


EVERYTHING = {"namespace": "*", "resource": "*", "apiGroup": "*", "nonResourcePath": "*"}


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        (policy(user="alice", **EVERYTHING), (True, True, True)),
        (policy(user="*", **EVERYTHING), (True, True, True)),
        (policy(group="*", **EVERYTHING), (True, True, True)),
        (policy(group="dev", **EVERYTHING), (True, True, True)),
        (policy(user="alice", group="dev", **EVERYTHING), (True, True, True)),
        (policy(user="alice", group="ops", **EVERYTHING), (False, False, False)),
        (policy(user="bob", group="dev", **EVERYTHING), (False, False, False)),
        (policy(**EVERYTHING), (False, False, False)),
        (policy(user="alice", readonly=True, **EVERYTHING), (True, False, True)),
        (policy(user="alice"), (False, False, False)),
        (policy(user="alice", namespace="ns", resource="pods"), (True, False, False)),
        (policy(user="alice", namespace="other", resource="pods"), (False, False, False)),
        (policy(user="alice", namespace="ns", resource="*"), (True, False, False)),
        (policy(user="alice", namespace="ns", resource="*", apiGroup="apps"), (False, True, False)),
        (policy(user="alice", nonResourcePath="/healthz*"), (False, False, True)),
        (policy(user="alice", nonResourcePath="/healthz"), (False, False, False)),
        ('{"user": "alice"}', (True, True, True)),
        ("{}", (True, True, True)),
        ('{"user": "alice", "resource": "pods"}', (True, False, False)),
        ('{"user": "alice", "namespace": "ns", "readonly": true}', (True, False, False)),
        ('{"group": "ops"}', (False, False, False)),
    ],
)
def test_policy_allows_what_it_matches(line: str, allowed: tuple[bool, ...]) -> None:
    judge = AbacAuthorizer(read_policies(N, line))
    opinions = [judge.authorize(ALICE, asked) for asked in (GET_POD, CREATE, HEALTH)]
    assert tuple(each.decision is Decision.ALLOW for each in opinions) == allowed
    assert {each.reason for each in opinions if each.decision is not Decision.ALLOW} <= {"No policy matched."}


def test_star_as_subject_excludes_anonymous_users() -> None:
    anonymous = UserInfo(N.user_anonymous, (N.group_unauthenticated,))
    for line in ("{}", policy(user="*", **EVERYTHING), policy(group="*", **EVERYTHING)):
        judge = AbacAuthorizer(read_policies(N, line))
        assert judge.authorize(anonymous, GET_POD).decision is Decision.NO_OPINION


def test_rules_are_listed_for_the_namespace() -> None:
    lines = [
        policy(user="alice", namespace="ns", resource="pods", readonly=True),
        policy(user="alice", namespace="other", resource="secrets"),
        policy(user="bob", **EVERYTHING),
        policy(group="dev", namespace="*", nonResourcePath="/metrics"),
    ]
    rules = AbacAuthorizer(read_policies(N, "\n".join(lines))).user_rules(ALICE, "ns")
    verbs = ["get", "list", "watch"]
    assert rules.resource == ({"verbs": verbs, "apiGroups": [""], "resources": ["pods"]},)
    assert rules.paths == ({"verbs": ["*"], "nonResourceURLs": ["/metrics"]},)
    assert not rules.incomplete


def test_comments_and_empty_lines_are_skipped() -> None:
    assert read_policies(N, '# a\n\n  \n  # b\n{"user": "u"}\n') == [
        Policy(user="u", api_group="*", namespace="*", resource="*", path="*")
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "Expecting property name"),
        ("[]", "a policy is an object"),
        ('{"user": 3}', "user must be a text"),
        (policy(user="u", readonly="yes"), "readonly must be true or false"),
        ('{"apiVersion": "v1", "kind": "Policy"}', 'no kind "Policy" is registered for version "v1"'),
        (policy().replace('"spec": {}', '"spec": 1'), "spec must be an object"),
    ],
)
def test_malformed_line_is_an_error_with_its_number(line: str, why: str) -> None:
    with pytest.raises(PolicyError) as raised:
        read_policies(N, f"\n# comment\n{line}\n")
    assert raised.value.line == 3
    assert why in str(raised.value)
