"""In which order a POST reads, cleans and refuses an object, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actor.test_http import MAPS, served

OF_SYSTEM = {
    "uid": "u",
    "creationTimestamp": "2001-01-01T00:00:00Z",
    "deletionTimestamp": "2001-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 5,
    "selfLink": "/x",
    "namespace": "other",
}
REVIEWS = "/apis/authorization.k8s.io/v1"
GET_PODS = {"resource": "pods", "verb": "get", "namespace": "default"}
OK, BAD, INVALID, BROKEN, MADE = 200, 400, 422, 500, 201


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        (f"{REVIEWS}/subjectaccessreviews", {"user": "u", "resourceAttributes": GET_PODS}),
        (f"{REVIEWS}/selfsubjectaccessreviews", {"resourceAttributes": GET_PODS}),
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"token": "t"}),
    ],
)
async def test_a_review_loses_what_only_the_server_may_set(path: str, spec: dict[str, Any]) -> None:
    async with served() as (_, client):
        made = await client.post(path, json={"metadata": OF_SYSTEM, "spec": spec})
        assert made.status_code == MADE
        metadata = made.json()["metadata"]
        assert {field: metadata.get(field) for field in OF_SYSTEM} == dict.fromkeys(OF_SYSTEM)


async def test_a_created_object_is_validated_before_its_revision_is_refused() -> None:
    async with served() as (_, client):
        nameless = {"metadata": {"resourceVersion": "5"}}
        assert (await client.post(MAPS, json=nameless)).status_code == INVALID
        named = {"metadata": {"resourceVersion": "5", "name": "a"}}
        refused = await client.post(MAPS, json=named)
        assert refused.status_code == BROKEN
        assert refused.json()["message"] == "resourceVersion should not be set on objects to be created"


async def test_a_revision_that_is_no_number_does_not_prevent_a_create() -> None:
    async with served() as (_, client):
        made = await client.post(MAPS, json={"metadata": {"resourceVersion": "x", "name": "a"}})
        assert made.status_code == MADE


async def test_a_body_of_another_version_is_read_as_that_version_first() -> None:
    scalers = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
    body: dict[str, Any] = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {}}
    unknown = {**body, "spec": {"targetCPUUtilizationPercentage": 2}}
    mistyped = {**body, "spec": {"minReplicas": "x"}}
    async with served() as (_, client):
        refused = await client.post(scalers, json=unknown)
        assert refused.json()["message"] == (
            "the API version in the data (autoscaling/v2) does not match the expected API version (autoscaling/v1)"
        )
        assert refused.headers["Warning"] == '299 - "unknown field \\"spec.targetCPUUtilizationPercentage\\""'
        refused = await client.post(f"{scalers}?fieldValidation=Strict", json=unknown)
        assert 'strict decoding error: unknown field "spec.targetCPU' in refused.json()["message"]
        refused = await client.post(scalers, json=mistyped)
        assert "cannot unmarshal string into Go struct field" in refused.json()["message"]


async def test_a_body_of_another_kind_is_refused_for_its_kind_not_its_fields() -> None:
    body = {"metadata": {"name": "a"}, "apiVersion": "v1", "kind": "Secret", "z": 1}
    async with served() as (_, client):
        refused = await client.post(f"{MAPS}?fieldValidation=Strict", json=body)
        assert refused.status_code == BAD
        assert refused.json()["message"].endswith(
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion"
        )


async def test_a_binding_without_name_is_judged_by_its_target_first() -> None:
    bindings = "/api/v1/namespaces/default/bindings"
    async with served() as (_, client):
        refused = await client.post(bindings, json={"metadata": {}})
        assert refused.json()["message"] == "target.name: Required value"
        refused = await client.post(bindings, json={"target": {"name": "n"}})
        assert refused.json()["message"] == "Name parameter required."
