"""What rules allow, which rules cover which, and their texts."""

from __future__ import annotations

import pytest

from sim.api.auth.attributes import AccessAttributes
from sim.api.auth.rbac.rules import EVERYTHING, allows, review_rules, rules_of, texts_of, uncovered
from sim.api.types import Obj
from tests.unit.sim.api.auth.rbac.builders import role, rule


def allowed(given: Obj, attributes: AccessAttributes) -> bool:
    return allows(rules_of(role("r", given))[0], attributes)


@pytest.mark.parametrize(
    ("resources", "resource", "subresource", "expected"),
    [
        ("pods", "pods", "", True),
        ("pods", "pods", "log", False),
        ("pods/log", "pods", "log", True),
        ("pods/log", "pods", "", False),
        ("*", "pods", "log", True),
        ("*/log", "pods", "log", True),
        ("*/log", "pods", "", False),
        ("*/log", "pods", "xlog", False),
        ("pods/*", "pods", "log", False),
    ],
)
def test_resource_matches_exactly_or_by_star(
    resources: str, resource: str, subresource: str, expected: bool
) -> None:
    attributes = AccessAttributes("get", resource=resource, subresource=subresource)
    assert allowed(rule("get", resources), attributes) is expected


def test_rule_with_names_never_allows_an_empty_name() -> None:
    limited = rule("get list", "pods", names="a b")
    assert allowed(limited, AccessAttributes("get", resource="pods", name="b"))
    assert not allowed(limited, AccessAttributes("get", resource="pods", name="c"))
    assert not allowed(limited, AccessAttributes("list", resource="pods"))


def test_verbs_and_groups_match_exactly_or_by_star() -> None:
    assert allowed(rule("*", "pods", groups=["*"]), AccessAttributes("frob", group="x", resource="pods"))
    assert not allowed(rule("get", "pods"), AccessAttributes("list", resource="pods"))
    assert not allowed(rule("get", "pods"), AccessAttributes("get", group="apps", resource="pods"))


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/ping", False),
        ("/api/*", "/api/v1", True),
        ("/api/*", "/api", False),
        ("/api*", "/apis", True),
        ("*", "/x", True),
        ("/a*b", "/axb", False),
    ],
)
def test_path_matches_exactly_or_by_prefix(pattern: str, path: str, expected: bool) -> None:
    assert allowed(rule("get", urls=pattern), AccessAttributes("get", path=path)) is expected


def test_resource_rule_allows_no_path() -> None:
    assert not allowed(rule("*", "*", groups=["*"]), AccessAttributes("get", path="/x"))


def missing(owned: Obj, wanted: Obj) -> list[str]:
    return texts_of(uncovered(rules_of(role("o", owned)), rules_of(role("w", wanted))))


def test_uncovered_parts_are_merged_by_resource_and_sorted() -> None:
    assert missing(rule("get", "pods"), rule("get watch delete", "services pods")) == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["watch" "delete"]}',
        '{APIGroups:[""], Resources:["services"], Verbs:["get" "watch" "delete"]}',
    ]


def test_names_limit_what_a_rule_covers() -> None:
    assert missing(rule("get", "configmaps", names="a"), rule("get", "configmaps", names="a b")) == [
        '{APIGroups:[""], Resources:["configmaps"], ResourceNames:["b"], Verbs:["get"]}'
    ]
    assert missing(rule("get", "configmaps", names="a"), rule("get", "configmaps")) == [
        '{APIGroups:[""], Resources:["configmaps"], Verbs:["get"]}'
    ]
    assert missing(rule("get", "configmaps"), rule("get", "configmaps", names="a")) == []


def test_star_is_covered_by_star_only() -> None:
    assert missing(rule("get", "pods/log */status"), rule("get", "pods/status pods/log")) == []
    assert missing(rule("get", "pods services"), rule("get", "*")) == [
        '{APIGroups:[""], Resources:["*"], Verbs:["get"]}'
    ]
    assert missing(rule("get", urls="/api/*"), rule("get", urls="/api/v1 /api/* /x")) == [
        '{NonResourceURLs:["/x"], Verbs:["get"]}'
    ]


def test_everything_covers_every_rule() -> None:
    wanted = rules_of(role("w", rule("a b", "x y/z", ["", "g"], "n"), rule("get", urls="/x /y*")))
    assert uncovered(EVERYTHING, wanted) == []
    assert len(uncovered(EVERYTHING[:1], wanted)) == 2


def test_rule_without_groups_has_no_parts() -> None:
    assert uncovered((), rules_of({"rules": [{"verbs": ["get"]}]})) == []


def test_review_lists_resource_rules_and_path_rules() -> None:
    given = role("r", rule("get", "pods", names="a"), rule("get", urls="/x"))
    assert review_rules(rules_of(given)) == ([given["rules"][0]], [given["rules"][1]])
