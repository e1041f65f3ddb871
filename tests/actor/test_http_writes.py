"""How writes read, clean and refuse an object, in which order, over HTTP."""

from __future__ import annotations

import json
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
MERGE = {"Content-Type": "application/merge-patch+json"}
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


@pytest.mark.parametrize(
    ("plural", "body", "patch", "field"),
    [
        ("storage.k8s.io/v1/storageclasses", {"provisioner": "a.b/c"}, {"parameters": {}}, "parameters"),
        ("v1/namespaces/default/configmaps", {"immutable": True}, {"binaryData": {}}, "binaryData"),
    ],
)
async def test_an_empty_map_that_is_sent_changes_an_immutable_one(
    plural: str, body: dict[str, Any], patch: dict[str, Any], field: str
) -> None:
    path = f"/{'api' if plural.startswith('v1') else 'apis'}/{plural}"
    async with served() as (_, client):
        assert (await client.post(path, json={"metadata": {"name": "a"}, **body})).status_code == MADE
        unchanged = await client.patch(f"{path}/a", content=b"{}", headers=MERGE)
        assert unchanged.status_code == OK
        refused = await client.patch(f"{path}/a", content=json.dumps(patch), headers=MERGE)
        assert [cause["field"] for cause in refused.json()["details"]["causes"]] == [field]


@pytest.mark.parametrize(
    ("path", "body", "patch"),
    [
        (
            "networking.k8s.io/v1/namespaces/default/networkpolicies",
            {"spec": {"podSelector": {}}},
            {"spec": {"ingress": []}},
        ),
        ("admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", {}, {"webhooks": []}),
    ],
)
async def test_an_empty_list_that_is_sent_counts_where_reflection_compares(
    path: str, body: dict[str, Any], patch: dict[str, Any]
) -> None:
    async with served() as (_, client):
        await client.post(f"/apis/{path}", json={"metadata": {"name": "a"}, **body})
        same = await client.patch(f"/apis/{path}/a", content=b"{}", headers=MERGE)
        assert same.json()["metadata"]["generation"] == 1
        counted = await client.patch(f"/apis/{path}/a", content=json.dumps(patch), headers=MERGE)
        assert counted.json()["metadata"]["generation"] == 2
