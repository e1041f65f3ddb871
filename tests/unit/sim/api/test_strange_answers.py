"""JSON answers of strangers: none of them is an error of the program, and none lets a user in."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import msgspec
import pytest

from sim.api.aggregation.delegation import Delegated, answered_headers
from sim.api.aggregation.requests import reply_of, served
from sim.api.auth.authenticator import Accepted, Pending, Rejected
from sim.api.auth.authenticators.token_webhook import SOURCE, WebhookTokens
from sim.api.openapi.aggregated import usable
from sim.api.types import Request, UserInfo
from sim.api.webhooks.reviews import BadReview, decoded_status

USER = {"username": "carl", "uid": "1", "groups": ["a"], "extra": {"b": ["c"]}}
REVIEW = {"kind": "TokenReview", "status": {"authenticated": True, "user": USER, "audiences": ["api"]}}
LIST = {
    "kind": "FlunderList",
    "metadata": {"resourceVersion": "7", "continue": "x"},
    "items": [{"kind": "Flunder", "metadata": {"name": "a", "namespace": "b", "resourceVersion": "5"}}],
}
STATUS = {
    "kind": "Status",
    "message": "m",
    "reason": "r",
    "code": 404,
    "details": {"name": "x", "causes": []},
}
RESOURCES = {"resources": [{"name": "flunders", "kind": "Flunder", "verbs": ["get"], "namespaced": True}]}
REFERENCE = {"$ref": "#/definitions/a"}
DOCUMENT = {
    "info": {"title": "t"},
    "paths": {
        "/apis/x": {
            "get": {"operationId": "o", "responses": {"200": {"schema": REFERENCE}}, "parameters": [{"name": "p", "in": "query", "type": "string"}]},
        }
    },
    "definitions": {"a": {"properties": {"b": REFERENCE}, "required": ["b"], "x-kubernetes-group-version-kind": [{"kind": "A"}]}},
    "securityDefinitions": {"k": {"type": "apiKey"}},
}  # fmt: skip
WRONG: list[Any] = [None, True, 5, -1.5, "x", [], [5], [[]], {}, {"a": []}]


def spoiled(random: Random, value: Any) -> Any:
    """A value with one part of another type."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        return {**value, key: spoiled(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.8:
        return [spoiled(random, value[0])]
    return deepcopy(random.choice(WRONG))


def outcome_of(review: Any) -> Any:
    tokens = WebhookTokens(("api",), 10_000_000, lambda: 0)
    asked = Pending(SOURCE, "t", ("api",))
    tokens.answer(asked, review)
    return tokens.authenticate("t", ("api",))


@pytest.mark.parametrize(
    ("user", "type_"),
    [
        ({**USER, "groups": 5}, "number into Go struct field UserInfo.status.user.groups of type []string"),
        ({**USER, "groups": ["a", 5]}, "number into Go struct field UserInfo.status.user.groups of type string"),
        ({**USER, "username": []}, "array into Go struct field UserInfo.status.user.username of type string"),
        ({**USER, "extra": {"a": "b"}}, "string into Go struct field UserInfo.status.user.extra of type v1.ExtraValue"),
        ([], "array into Go struct field TokenReviewStatus.status.user of type v1.UserInfo"),
    ],
)  # fmt: skip
def test_token_review_with_a_value_of_a_wrong_type_lets_no_user_in(user: Any, type_: str) -> None:
    found = outcome_of({**REVIEW, "status": {"authenticated": True, "user": user}})
    assert found == Rejected((f"json: cannot unmarshal {type_}",))


def test_access_review_with_a_value_of_a_wrong_type_is_a_failure() -> None:
    for kind in ("SubjectAccessReview", "ImageReview"):
        said = f"json: cannot unmarshal string into Go struct field {kind}Status.status.allowed of type bool"
        with pytest.raises(BadReview, match=said):
            decoded_status({"status": {"allowed": "yes"}}, kind)
        assert decoded_status({"status": {"allowed": True}}, kind)["allowed"] is True
        assert decoded_status(None, kind) == {}


@pytest.mark.slow
def test_answers_of_random_types_are_read_or_refused() -> None:
    random = Random(1)
    each = Delegated("g", "v1", {"spec": {}})
    kinds = [REVIEW, LIST, STATUS, RESOURCES, DOCUMENT]
    accepted = 0
    for _ in range(300):
        for value in (spoiled(random, kind) for kind in kinds):
            found = outcome_of(value)
            if isinstance(found, Accepted):
                accepted += 1
                user = found.user
                assert all(isinstance(text, str) for text in (user.name, user.uid, *user.groups, *user.extra))
            body = msgspec.json.encode(value)
            for code in (200, 500):
                for verb in ("list", "get"):
                    request = Request(
                        verb=verb, resource="flunders", group="g", version="v1", user=UserInfo("u", ())
                    )
                    reply = reply_of(request, code, (), body)
                    assert (reply.code, reply.reason, reply.message)[0] in (code, 500)
            if isinstance(value, dict):
                assert all(isinstance(each.plural, str) for each in served(each, value))
            usable(value)
    assert accepted > 0


def test_document_that_nests_too_deep_is_not_published() -> None:
    schema: Any = {}
    for _ in range(5000):
        schema = {"properties": {"a": schema}}
    assert usable({"paths": {}, "definitions": {"a": {}}}) is not None
    assert usable({"paths": {}, "definitions": {"a": schema}}) is None


def test_header_that_cannot_be_passed_on_is_dropped_or_cleaned() -> None:
    given = [("a b", "c"), ("", "c"), ("X-\xe4", "c"), ("X-Own", " a\x00b\r\n\x7f"), ("Connection", "x")]
    assert answered_headers(given) == [("X-Own", "a b")]
