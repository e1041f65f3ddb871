"""Access reviews: errors in a review."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.verbs.review import errors_of

GET_PODS = {"resource": "pods", "verb": "get", "namespace": "d"}


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
