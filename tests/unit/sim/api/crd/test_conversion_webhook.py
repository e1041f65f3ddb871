"""What a conversion webhook is asked, and which of its answers are refused."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.crd.conversion_webhook import answered, question_of
from sim.api.crd.served import resources_of
from sim.api.refusals import Refusal
from sim.api.types import Obj
from tests.unit.sim.api.crd.test_served import definition, version

HOOK = {
    "clientConfig": {"service": {"namespace": "n", "name": "s", "port": 443}},
    "conversionReviewVersions": ["v2", "v1"],
}
CONVERSION = {"strategy": "Webhook", "webhook": HOOK}
(FIRST, SECOND) = resources_of(definition(version("v1", storage=True), version("v2"), conversion=CONVERSION))
OBJ: Obj = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "a", "namespace": "n", "uid": "1", "resourceVersion": "5", "labels": {"x": "y"}},
}
MADE: Obj = {**OBJ, "apiVersion": "example.com/v2"}
QUESTION = question_of(SECOND, OBJ, "v2")


def review(*objects: Any, **response: Any) -> Obj:
    """The answer to the question."""
    uid = QUESTION.body["request"]["uid"]
    given = {"uid": uid, "result": {"status": "Success"}, "convertedObjects": list(objects), **response}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": given}


def test_question_names_objects_version_and_address() -> None:
    assert QUESTION.name == "conversion_webhook_for_widgets.example.com"
    assert QUESTION.service == ("n", "s", "/", 443)
    assert QUESTION.body["request"]["desiredAPIVersion"] == "example.com/v2"
    assert QUESTION.body["request"]["objects"] == [OBJ]
    assert QUESTION.body["apiVersion"] == "apiextensions.k8s.io/v1"


def test_each_review_has_a_uid_of_its_own() -> None:
    assert question_of(SECOND, OBJ, "v2").body["request"]["uid"] != QUESTION.body["request"]["uid"]


def test_only_labels_and_annotations_of_the_metadata_are_taken() -> None:
    metadata = {"name": "a", "namespace": "n", "uid": "1", "labels": {"z": "1"}, "finalizers": ["f/f"]}
    made = answered(SECOND, QUESTION, review({**MADE, "metadata": metadata, "spec": {}}), "")
    assert made["metadata"] == {**OBJ["metadata"], "labels": {"z": "1"}}
    assert made["spec"] == {}


HEAD = "conversion webhook for example.com/v1, Kind=Widget "


@pytest.mark.parametrize(
    ("answer", "failure", "message"),
    [
        (None, "Post x: refused", "failed: Post x: refused"),
        ({"apiVersion": "v1", "kind": "Pod"}, "", 'failed: no kind "Pod" is registered for version "v1" in scheme'),
        ({"response": None, "kind": "ConversionReview"}, "", "failed: expected webhook response of "
         "apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=ConversionReview"),
        ({**review(), "response": {"uid": 5}}, "", "failed: json: cannot unmarshal number into Go struct field "
         "ConversionResponse.response.uid of type types.UID"),
        ({**review(), "response": None}, "", "failed: no response provided"),
        (review(MADE, uid="x"), "", "failed: expected response.uid="),
        (review(MADE, result={"status": "Failure", "message": "no"}), "", "failed: no"),
        (review(MADE, result={}), "", "failed: response.result.status was '', not 'Success'"),
        (review(), "", "returned 0 objects, expected 1"),
        (review(OBJ), "", "returned invalid object at index 0: invalid groupVersion "
         "(expected example.com/v2, received example.com/v1)"),
        (review({**MADE, "kind": "X"}), "", "returned invalid object at index 0: invalid kind "
         "(expected Widget, received X)"),
        (review({**MADE, "metadata": {"name": "b"}}), "", "returned invalid object: must have the same name: a != b"),
        (
            review({**MADE, "metadata": {"name": "a", "namespace": "n", "uid": "1", "labels": {"x": 1}}}),
            "",
            "returned invalid metadata: metadata.labels[x] must be a string, but is int64 in converted object",
        ),
        (
            review({**MADE, "metadata": {"name": "a", "namespace": "n", "uid": "1", "labels": {"-": "v"}}}),
            "",
            "returned invalid metadata: metadata.labels: Invalid value: \"-\": name part must consist of",
        ),
    ],
)  # fmt: skip
def test_bad_answers_are_refused_in_upstreams_words(answer: Any, failure: str, message: str) -> None:
    with pytest.raises(Refusal) as refused:
        answered(SECOND, QUESTION, answer, failure)
    assert refused.value.reply().message.startswith(HEAD + message)
