"""What rules allow, which rules cover which, and their texts."""

from __future__ import annotations

import pytest

from sim.api.auth.attributes import AccessAttributes
from sim.api.auth.rbac.rules import (
    EVERYTHING,
    Rule,
    allows,
    allows_any_name,
    broken_down,
    compacted,
    review_rules,
    rule_text,
    rules_of,
    texts_of,
    uncovered,
)
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


def test_a_role_may_have_no_rules_and_a_rule_no_fields() -> None:
    assert rules_of({}) == rules_of({"rules": None}) == ()
    assert rules_of({"rules": [{"verbs": ["get"], "resources": None}]}) == (Rule(("get",)),)


def test_a_rule_for_names_allows_the_request_for_some_name() -> None:
    (named,) = rules_of(role("r", rule("get", "pods", names="a")))
    asked = AccessAttributes("get", resource="pods", name="b")
    assert allows_any_name(named, asked)
    assert not allows(named, asked)
    assert allows(named, AccessAttributes("get", resource="pods", name="a"))
    (urls,) = rules_of(role("r", {**rule("get", urls="/x"), "resourceNames": ["a"]}))
    assert allows(urls, AccessAttributes("get", path="/x"))


@pytest.mark.parametrize(
    ("owned", "wanted", "is_covered"),
    [
        (rule("get", "pods/log"), rule("get", "pods/log"), True),
        (rule("get", "*/log"), rule("get", "pods/log"), True),
        (rule("get", "*/log"), rule("get", "pods"), False),
        (rule("get", "*/"), rule("get", "pods"), False),
        (rule("*", "*"), rule("get", "pods/log"), True),
        (rule("get", "pods"), rule("*", "pods"), False),
        (rule("get", "pods", groups=["*"]), rule("get", "pods", groups=["apps"]), True),
        (rule("get", "pods", groups=["apps"]), rule("get", "pods"), False),
        (rule("get", urls="/x"), rule("get", urls="/x"), True),
        (rule("get", urls="/x"), rule("get", urls="/y"), False),
        (rule("get", "pods"), rule("get", urls="/y"), False),
        (rule("get", "pods", names="a b"), rule("get", "pods", names="a"), True),
        (rule("get", "pods", names="a"), rule("get", "pods", names="b"), False),
        (rule("get", "pods", names="a"), rule("get", "pods"), False),
        (rule("get", "pods"), rule("get", "pods", names="a"), True),
    ],
)
def test_a_part_is_covered_by_verb_group_resource_name_and_path(
    owned: Obj, wanted: Obj, is_covered: bool
) -> None:
    assert (missing(owned, wanted) == []) is is_covered


def test_a_rule_is_broken_down_into_its_parts() -> None:
    parts = list(broken_down(Rule(("get", "list"), ("", "g"), ("pods",), ("a",))))
    assert parts == [
        Rule((verb,), (group,), ("pods",), ("a",)) for group in ("", "g") for verb in ("get", "list")
    ]
    assert list(broken_down(Rule(("get",), ("",), ("pods",)))) == [Rule(("get",), ("",), ("pods",))]
    assert list(broken_down(Rule(("get", "put"), urls=("/x",)))) == [
        Rule(("get",), urls=("/x",)), Rule(("put",), urls=("/x",)),
    ]  # fmt: skip


def test_rules_for_one_resource_without_names_are_merged() -> None:
    get, see = Rule(("get",), ("",), ("pods",)), Rule(("list",), ("",), ("pods",))
    assert compacted([get, see]) == [Rule(("get", "list"), ("",), ("pods",))]
    alone = [
        Rule(("get",), ("",), ("pods",), ("a",)),
        Rule(("get",), ("", "g"), ("pods",)),
        Rule(("get",), ("",), ("pods", "services")),
        Rule(("get",), urls=("/x",)),
        Rule(("get",), ("",)),
        Rule(("get",)),
    ]
    assert compacted([*alone, get, *alone]) == [*alone, *alone, get]
    assert rule_text(Rule(("get",), urls=("/x",))) == '{NonResourceURLs:["/x"], Verbs:["get"]}'


def test_a_review_leaves_out_what_a_rule_does_not_have() -> None:
    rules = (
        Rule(("get",), ("",), ("pods",)),
        Rule(("get",), (), ("pods",), ("a",)),
        Rule(("get",), urls=("/x",)),
    )
    resources, paths = review_rules(rules)
    assert resources == [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["get"], "resources": ["pods"], "resourceNames": ["a"]},
    ]
    assert paths == [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]
