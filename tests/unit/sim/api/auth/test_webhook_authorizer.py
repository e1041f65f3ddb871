"""The mode Webhook: the reviews that are asked for, and what the answers mean."""

from typing import Any

import pytest

from sim.api.auth.attributes import AccessAttributes, Decision, Opinion
from sim.api.auth.webhook_authorizer import (
    CONTROLLED_MAX,
    Undecided,
    WebhookAuthorizer,
    WebhookSettings,
    is_remembered,
    spec_of,
)
from sim.api.types import UserInfo
from sim.ident import NAMES

ANN = UserInfo("ann", ("dev",), "7", {"scope": ("a",)})
GET = AccessAttributes("get", group="apps", version="v1", resource="deployments", namespace="a", name="x")
PATH = AccessAttributes("get", "/metrics")


class World:
    """An authorizer with a clock."""

    def __init__(self) -> None:
        self.now_us = 0
        settings = WebhookSettings("file", "v1", 300, 30)
        self.authorizer = WebhookAuthorizer(NAMES["kubernetes"], settings, lambda: self.now_us)

    def asked(self) -> Undecided:
        with pytest.raises(Undecided) as caught:
            self.authorizer.authorize(ANN, GET)
        return caught.value

    def told(self, status: Any, failure: str = "") -> Opinion:
        self.asked().take({"status": status}, failure, 0)
        return self.authorizer.authorize(ANN, GET)


def test_review_holds_user_and_attributes_without_empty_fields() -> None:
    assert spec_of(ANN, PATH, "v1") == {
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        "user": "ann",
        "groups": ["dev"],
        "extra": {"scope": ["a"]},
        "uid": "7",
    }
    spec = spec_of(UserInfo("ann", ("dev",)), GET, "v1beta1")
    assert spec["group"] == ["dev"]
    assert "subresource" not in spec["resourceAttributes"]
    body = World().asked().question.body
    assert (body["apiVersion"], body["kind"]) == ("authorization.k8s.io/v1", "SubjectAccessReview")


def test_answer_is_remembered_for_its_time() -> None:
    world = World()
    assert world.told({"allowed": True, "reason": "ok"}) == Opinion(Decision.ALLOW, "ok")
    world.now_us = 300
    assert world.authorizer.authorize(ANN, GET).decision is Decision.ALLOW
    world.now_us = 301
    assert world.told({"allowed": False}).decision is Decision.NO_OPINION
    world.now_us = 332
    assert world.told({"denied": True, "reason": "no"}) == Opinion(Decision.DENY, "no")


def test_failure_is_no_opinion_and_is_asked_again_later() -> None:
    world = World()
    assert world.told(None, "Post: EOF") == Opinion(Decision.NO_OPINION, "", "Post: EOF")
    world.now_us = 1
    world.asked()


def test_answer_that_both_allows_and_denies_is_an_error() -> None:
    opinion = World().told({"allowed": True, "denied": True})
    assert opinion.decision is Decision.DENY
    assert opinion.error == "webhook subject access review returned both allow and deny response"


def test_large_attributes_are_not_remembered() -> None:
    assert is_remembered(GET)
    assert not is_remembered(AccessAttributes("get", "/" + "x" * CONTROLLED_MAX))
