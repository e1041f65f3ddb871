"""Status bodies, against recorded answers of upstream."""

from dataclasses import dataclass

from sim.api import status
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])
PODS = SCHEME.resource("pods")
DEPLOYMENTS = SCHEME.resource("deployments")


@dataclass
class Cause:
    field: str
    reason: str
    message: str


def test_what_is_missing_is_named_with_its_group():
    assert status.not_found(DEPLOYMENTS, "nope") == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'deployments.apps "nope" not found',
        "reason": "NotFound",
        "details": {"name": "nope", "group": "apps", "kind": "deployments"},
        "code": 404,
    }
    scale = status.not_found(DEPLOYMENTS, "none", "scale")
    assert scale["message"] == 'deployments/scale.apps "none" not found'
    assert scale["details"]["kind"] == "deployments/scale"


def test_equal_errors_are_merged_in_the_message_and_kept_in_the_causes():
    twice = Cause("spec.x", "FieldValueRequired", "Required value")
    one = status.invalid_object(DEPLOYMENTS, "w", [twice, twice])
    assert one["message"] == 'Deployment.apps "w" is invalid: spec.x: Required value'
    assert len(one["details"]["causes"]) == 2
    path = Cause("spec", "FieldValueInvalid", "Invalid value: field.Path{parent:(*field.Path)(0xc0)}: no")
    twice_with_a_path = status.invalid_object(PODS, "p", [path, path])
    assert twice_with_a_path["message"].count(path.message) == 2  # paths have their own addresses
    other = Cause("", "FieldValueInvalid", "Invalid value: 1: no")
    two = status.invalid_object(PODS, "p", [twice, other])
    assert two["message"] == 'Pod "p" is invalid: [spec.x: Required value, <nil>: Invalid value: 1: no]'
    assert two["details"] == {
        "name": "p",
        "kind": "Pod",
        "causes": [
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.x"},
            {"reason": "FieldValueInvalid", "message": "Invalid value: 1: no", "field": "<nil>"},
        ],
    }


def test_a_future_revision_says_how_far_the_replica_is():
    body = status.revision_too_large(9, 5)
    assert (body["code"], body["message"]) == (504, "Timeout: Too large resource version: 9, current: 5")
    assert body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert body["details"]["retryAfterSeconds"] == 1
    assert "retryAfterSeconds" not in status.revision_too_large(9, 5, 0)["details"]


def test_an_expired_token_comes_with_one_to_go_on():
    assert status.continue_expired("abc")["metadata"] == {"continue": "abc"}
    assert status.too_old(3, 7)["message"] == "too old resource version: 3 (7)"
    assert status.too_old(3, 7)["reason"] == "Expired"


def test_an_error_unknown_to_the_api_has_no_reason():
    assert "reason" not in status.plain_error("x")
    assert "details" not in status.bad_request("x")
    assert status.unknown_resource()["details"] == {}
