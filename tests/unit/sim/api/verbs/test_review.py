"""Access reviews: what users may do, and errors in a review."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.auth.authorizer import may, rules_of
from sim.api.types import UserInfo
from sim.api.verbs.review import errors_of
from sim.ident import NAMES

NAMESET = NAMES["orch"]
ANONYMOUS = UserInfo(NAMESET.user_anonymous, (NAMESET.group_unauthenticated,))
SOMEBODY = UserInfo("somebody", (NAMESET.group_authenticated,))
ADMIN = UserInfo("admin", (NAMESET.group_masters, NAMESET.group_authenticated))
GET_PODS = {"resource": "pods", "verb": "get", "namespace": "d"}


@pytest.mark.parametrize(
    ("user", "verb", "path", "allowed"),
    [
        (ADMIN, "impersonate", None, True),
        (SOMEBODY, "impersonate", None, False),
        (SOMEBODY, "create", None, True),
        (SOMEBODY, "get", "/metrics", True),
        (ANONYMOUS, "get", None, False),
        (ANONYMOUS, "get", "/healthz", True),
        (ANONYMOUS, "post", "/healthz", False),
        (ANONYMOUS, "get", "/metrics", False),
    ],
)
def test_user_may_use_a_verb_as_its_groups_permit(
    user: UserInfo, verb: str, path: str | None, allowed: bool
) -> None:
    assert may(NAMESET, user, verb, path) is allowed


def test_the_rules_say_the_same() -> None:
    assert rules_of(NAMESET, SOMEBODY)["resourceRules"][0]["verbs"] == ["*"]
    assert rules_of(NAMESET, ANONYMOUS)["resourceRules"] == []


@pytest.mark.parametrize(
    ("plural", "spec", "metadata", "fields"),
    [
        ("selfsubjectaccessreviews", {"resourceAttributes": GET_PODS}, {}, []),
        ("selfsubjectaccessreviews", {}, {}, ["spec.resourceAttributes"]),
        ("subjectaccessreviews", {}, {}, ["spec.resourceAttributes", "spec.user"]),
        (
            "subjectaccessreviews",
            {"user": "u", "resourceAttributes": GET_PODS, "nonResourceAttributes": {"path": "/"}},
            {},
            ["spec.nonResourceAttributes"],
        ),
        (
            "subjectaccessreviews",
            {"groups": ["g"], "resourceAttributes": GET_PODS},
            {"labels": {"a": "b"}},
            ["metadata"],
        ),
        ("localsubjectaccessreviews", {"user": "u", "resourceAttributes": GET_PODS}, {"namespace": "d"}, []),
        (
            "localsubjectaccessreviews",
            {"user": "u", "resourceAttributes": GET_PODS},
            {"namespace": "other"},
            ["spec.resourceAttributes.namespace"],
        ),
        (
            "localsubjectaccessreviews",
            {"user": "u", "nonResourceAttributes": {"path": "/"}},
            {"namespace": "d"},
            ["spec.nonResourceAttributes"],
        ),
    ],
)
def test_what_is_wrong_with_a_review(
    plural: str, spec: dict[str, Any], metadata: dict[str, Any], fields: list[str]
) -> None:
    assert [error.field for error in errors_of(plural, {"metadata": metadata, "spec": spec})] == fields
