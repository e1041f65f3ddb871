"""Audit policies: their fields, what is refused, and what is recorded of a request."""

from typing import Any

import pytest

from sim.api.audit.policy import Level, Policy, PolicyError, Scope, parse_policy
from sim.api.auth.attributes import AccessAttributes
from sim.api.types import UserInfo
from sim.ident import NAMES

N = NAMES["kubernetes"]
ANN = UserInfo("ann", ("dev", "system:authenticated"))


def policy(*rules: dict[str, Any], **fields: Any) -> Policy:
    return parse_policy(
        {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **fields}, N
    )


def level(rule: dict[str, Any], asked: AccessAttributes, user: UserInfo | None = ANN) -> Level:
    return policy({"level": "Request", **rule}).scope(user, asked).level


POD = AccessAttributes("get", "", "", "v1", "pods", "", "default", "a")
LOGS = AccessAttributes("get", "", "", "v1", "pods", "log", "default", "a")
NODE = AccessAttributes("get", "", "", "v1", "nodes", "", "", "n")
PATH = AccessAttributes("get", "/healthz/ping")


@pytest.mark.parametrize(
    ("rule", "asked", "matches"),
    [
        ({}, POD, True),
        ({}, PATH, True),
        ({"users": ["ann"]}, POD, True),
        ({"users": ["bob"]}, POD, False),
        ({"userGroups": ["ops", "dev"]}, POD, True),
        ({"userGroups": ["ops"]}, POD, False),
        ({"users": ["ann"], "userGroups": ["ops"]}, POD, False),
        ({"verbs": ["get"]}, POD, True),
        ({"verbs": ["list"]}, POD, False),
        ({"namespaces": ["default"]}, POD, True),
        ({"namespaces": ["other"]}, POD, False),
        ({"namespaces": [""]}, NODE, True),
        ({"namespaces": [""]}, PATH, False),
        ({"resources": [{"group": ""}]}, LOGS, True),
        ({"resources": [{"group": "apps"}]}, POD, False),
        ({"resources": [{"resources": ["pods"]}]}, POD, True),
        ({"resources": [{"resources": ["pods"]}]}, LOGS, False),
        ({"resources": [{"resources": ["pods/log"]}]}, LOGS, True),
        ({"resources": [{"resources": ["pods/*"]}]}, LOGS, True),
        ({"resources": [{"resources": ["pods/*"]}]}, POD, True),
        ({"resources": [{"resources": ["*/log"]}]}, LOGS, True),
        ({"resources": [{"resources": ["*/log"]}]}, POD, False),
        ({"resources": [{"resources": ["*"]}]}, LOGS, True),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["a"]}]}, POD, True),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["b"]}]}, POD, False),
        ({"resources": [{"group": "apps"}, {"resources": ["pods"]}]}, POD, True),
        ({"resources": [{"group": ""}], "namespaces": ["other"]}, POD, False),
        ({"nonResourceURLs": ["/healthz*"]}, PATH, True),
        ({"nonResourceURLs": ["/healthz/ping"]}, PATH, True),
        ({"nonResourceURLs": ["/healthz"]}, PATH, False),
        ({"nonResourceURLs": ["*"]}, PATH, True),
        ({"nonResourceURLs": ["*"]}, POD, False),
    ],
)
def test_rule_matches_by_all_of_its_conditions(
    rule: dict[str, Any], asked: AccessAttributes, matches: bool
) -> None:
    assert level(rule, asked) is (Level.REQUEST if matches else Level.NONE)


def test_rules_about_users_do_not_match_without_a_user() -> None:
    assert level({"users": ["ann"]}, POD, None) is Level.NONE
    assert level({"userGroups": ["dev"]}, POD, None) is Level.NONE
    assert level({"verbs": ["get"]}, POD, None) is Level.REQUEST


def test_first_matching_rule_decides() -> None:
    found = policy({"level": "None", "verbs": ["get"]}, {"level": "Metadata"})
    assert found.scope(ANN, POD).level is Level.NONE
    assert found.scope(ANN, AccessAttributes("list", "", "", "v1", "pods")).level is Level.METADATA


def test_omitted_stages_add_up_and_managed_fields_follow_the_rule() -> None:
    found = policy(
        {"level": "Request", "verbs": ["get"], "omitStages": ["Panic"], "omitManagedFields": False},
        {"level": "Request", "verbs": ["list"]},
        omitStages=["RequestReceived"],
        omitManagedFields=True,
    )
    assert found.scope(ANN, POD) == Scope(Level.REQUEST, ("RequestReceived", "Panic"), False)
    listed = AccessAttributes("list", "", "", "v1", "pods")
    assert found.scope(ANN, listed) == Scope(Level.REQUEST, ("RequestReceived",), True)
    assert found.scope(ANN, PATH) == Scope(Level.REQUEST, ("RequestReceived", "Panic"), False)
    other = AccessAttributes("post", "/x")
    assert found.scope(ANN, other) == Scope(Level.NONE, ("RequestReceived",), True)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({}, "rules[0].level: Required value"),
        (
            {"level": "All"},
            'rules[0].level: Unsupported value: "All": supported values: "None", "Metadata", "Request", "RequestResponse"',
        ),
        (
            {"level": "None", "nonResourceURLs": ["x"]},
            "rules[0].nonResourceURLs[0]: Invalid value: \"x\": non-resource URL rules must begin with a '/' character",
        ),
        (
            {"level": "None", "nonResourceURLs": ["/a*b"]},
            "rules[0].nonResourceURLs[0]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final "
            "character of the rule",
        ),
        (
            {"level": "None", "nonResourceURLs": ["/a"], "namespaces": ["x"]},
            'rules[0].nonResourceURLs: Invalid value: []string{"/a"}: rules cannot apply to both regular resources and '
            "non-resource URLs",
        ),
        (
            {"level": "None", "resources": [{"resourceNames": ["x"]}]},
            'rules[0].resources.resourceNames: Invalid value: []string{"x"}: using resourceNames requires at least one '
            "resource",
        ),
        (
            {"level": "None", "omitStages": ["Done"]},
            'rules[0].omitStages[0]: Invalid value: "Done": allowed stages are RequestReceived,ResponseStarted,'
            "ResponseComplete,Panic",
        ),
        ({"level": "None", "user": ["x"]}, "rules[0]: object contains unknown field `user`"),
        ({"level": 3}, "rules[0].level: expected `str`, got `int`"),
    ],
)
def test_wrong_rule_is_refused_with_its_field(rule: dict[str, Any], says: str) -> None:
    with pytest.raises(PolicyError) as error:
        policy(rule)
    assert str(error.value) == says


def test_group_of_a_rule_is_a_group_and_no_version() -> None:
    with pytest.raises(PolicyError, match="a lowercase RFC 1123 subdomain must consist of"):
        policy({"level": "None", "resources": [{"group": "apps/v1"}]})


def test_all_problems_of_all_rules_are_found() -> None:
    with pytest.raises(PolicyError) as error:
        policy({"level": "x"}, {"omitStages": ["y", "Panic", "z"]})
    found = [problem.field for problem in error.value.problems]
    assert found == ["rules[0].level", "rules[1].level", "rules[1].omitStages[0]", "rules[1].omitStages[2]"]


def test_policy_has_rules_and_the_version_of_its_naming_set() -> None:
    with pytest.raises(PolicyError, match="loaded illegal policy with 0 rules"):
        policy()
    with pytest.raises(PolicyError, match="apiVersion: Unsupported value"):
        policy({"level": "None"}, apiVersion="audit.k8s.io/v1beta1")
    with pytest.raises(PolicyError, match="kind: Unsupported value"):
        policy({"level": "None"}, kind="Role")
    own = {"apiVersion": "audit.orch.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    assert parse_policy(own, NAMES["orch"]).scope(None, PATH).level is Level.METADATA
