"""The form of the reviews that webhooks answer with: each line was answered by upstream v1.25."""

from typing import Any

import pytest

from sim.api.types import Obj
from sim.api.webhooks.reviews import BadReview, decoded_review

ASKED: Obj = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
FIELD = "into Go struct field AdmissionResponse.response"


def test_answer_without_kind_or_version_counts_as_the_review() -> None:
    assert decoded_review({"response": {"allowed": True}}, ASKED)["response"] == {"allowed": True}
    assert decoded_review(None, ASKED).get("response") is None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ([], "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct"),
        ({"apiVersion": 5}, "json: cannot unmarshal number into Go struct field .apiVersion of type string"),
        ({"apiVersion": "a/b/c"}, "unexpected GroupVersion string: a/b/c"),
        ({"apiVersion": "v1"}, 'no kind "AdmissionReview" is registered for version "v1"'),
        ({"kind": "Foo"}, 'no kind "Foo" is registered for version "admission.k8s.io/v1"'),
        ({"kind": "Status"}, "converting (v1.Status) to (v1.AdmissionReview): unknown conversion"),
        (
            {"apiVersion": "admission.k8s.io/v1beta1"},
            "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
        ),
        ({"response": []}, "cannot unmarshal array into Go struct field AdmissionReview.response of type v1.AdmissionResponse"),
        ({"response": {"allowed": "yes"}}, f"json: cannot unmarshal string {FIELD}.allowed of type bool"),
        ({"response": {"uid": 5}}, f"json: cannot unmarshal number {FIELD}.uid of type types.UID"),
        ({"response": {"warnings": [1]}}, f"json: cannot unmarshal number {FIELD}.warnings of type string"),
        ({"response": {"patch": 5}}, f"json: cannot unmarshal number {FIELD}.patch of type []uint8"),
        ({"response": {"patch": "!!!"}}, "illegal base64 data at input byte 0"),
        ({"response": {"patchType": 5}}, f"json: cannot unmarshal number {FIELD}.patchType of type v1.PatchType"),
        ({"response": {"status": {"code": "x"}}}, "Go struct field Status.response.status.code of type int32"),
    ],
)  # fmt: skip
def test_answer_that_go_cannot_decode_is_refused_in_its_words(answer: Any, error: str) -> None:
    with pytest.raises(BadReview) as refused:
        decoded_review(answer, ASKED)
    assert error in str(refused.value)
