"""How writes read, clean and refuse an object, in which order, over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.actor.test_http import JSON, MAPS, config_map, served
from tests.actor.test_http_custom import TABLE, definition, passed

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
POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
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
    async with served(pace=100) as (_, client):
        await client.post(f"/apis/{path}", json={"metadata": {"name": "a"}, **body})
        same = await client.patch(f"/apis/{path}/a", content=b"{}", headers=MERGE)
        assert same.json()["metadata"]["generation"] == 1
        counted = await client.patch(f"/apis/{path}/a", content=json.dumps(patch), headers=MERGE)
        assert counted.json()["metadata"]["generation"] == 2


async def test_a_null_body_of_a_delete_counts_as_options_without_fields() -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        path = f"{MAPS}/a?propagationPolicy=x&gracePeriodSeconds=y"
        gone = await client.request("DELETE", path, content=b"null", headers=JSON)
        assert (gone.status_code, gone.json()["status"]) == (OK, "Success")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (
            "/api/v1/namespaces/default/secrets",
            {"metadata": {"name": "a"}, "data": ""},
            "json: cannot unmarshal string into Go struct field Secret.data of type map[string][]uint8",
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            {"metadata": {"name": "a"}, "spec": {"completionMode": "", "template": POD}},
            'spec.completionMode: Unsupported value: "": supported values: "NonIndexed", "Indexed"',
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            {"metadata": {"name": "a", "generateName": ".."}},
            "metadata.generateName: Invalid value: \"..\": may not be '..'",
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [], "ports": [{"protocol": ""}]},
            'ports[0].protocol: Unsupported value: "": supported values: "SCTP", "TCP", "UDP"',
        ),
    ],
)
async def test_why_a_body_is_refused(path: str, body: dict[str, Any], message: str) -> None:
    async with served() as (_, client):
        refused = await client.post(path, json=body)
        assert refused.json()["message"].endswith(message)


async def test_a_body_that_is_no_protobuf_is_quoted_in_part() -> None:
    async with served() as (_, client):
        headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
        refused = await client.post(MAPS, content=b'{"x": 1}', headers=headers)
        assert refused.json()["message"].endswith('expected prefix [107 56 115 0] ({"x": 1})')


async def test_control_letters_and_whole_floats_of_a_patch_are_printed_as_go_does() -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        patch = b'{"metadata": {"labels": [1], "generation": 100.0, "finalizers": ["\\u0000"]}}'
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        refused = await client.patch(f"{MAPS}/a", content=patch, headers=headers)
        assert "map[metadata:map[finalizers:[\\x00] generation:100 labels:[1]]]" in refused.json()["message"]


async def test_a_definition_is_stored_below_its_group() -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with served() as (_, client):
        made = (await client.post(definitions, json=definition())).json()
        refused = await client.put(
            f"{definitions}/widgets.example.com",
            json={**made, "metadata": {**made["metadata"], "uid": "x"}},
        )
        assert "Key: /registry/apiextensions.k8s.io/customresourcedefinitions/" in refused.json()["message"]


@pytest.mark.parametrize(("plural", "rows"), [("limitranges", None), ("services", [])])
async def test_a_table_without_rows_has_no_list_where_there_is_no_printer(plural: str, rows: Any) -> None:
    async with served() as (_, client):
        table = await client.get(f"/api/v1/namespaces/none/{plural}", headers=TABLE)
        assert table.json()["rows"] == rows


async def test_a_runtime_class_that_selects_by_replaced_labels_is_warned_about() -> None:
    label, better = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
    body = {"metadata": {"name": "a"}, "handler": "h", "scheduling": {"nodeSelector": {label: "z"}}}
    async with served() as (_, client):
        made = await client.post("/apis/node.k8s.io/v1/runtimeclasses", json=body)
        assert made.headers["Warning"] == (
            f'299 - "scheduling.nodeSelector: deprecated since v1.17; use \\"{better}\\" instead"'
        )


async def test_the_first_wrong_value_is_that_of_the_patched_text() -> None:
    pod = {"metadata": {"name": "a"}, "template": POD}
    probe = {"httpGet": {"port": 1}, "failureThreshold": 1}
    pod["template"] = {"spec": {"containers": [{"name": "c", "image": "i", "livenessProbe": probe}]}}
    templates = "/api/v1/namespaces/default/podtemplates"
    at = "/template/spec/containers/0/livenessProbe"
    patch = [
        {"op": "add", "path": f"{at}/failureThreshold", "value": "x"},
        {"op": "add", "path": f"{at}/exec", "value": {"command": [[]]}},
    ]
    async with served() as (_, client):
        assert (await client.post(templates, json=pod)).status_code == MADE
        headers = {"Content-Type": "application/json-patch+json"}
        refused = await client.patch(f"{templates}/a", content=json.dumps(patch), headers=headers)
        assert refused.json()["message"].endswith(
            "cannot unmarshal array into Go struct field ExecAction.template.spec.containers.livenessProbe.exec.command"
            " of type string"
        )


async def test_a_time_of_a_wrong_type_ends_the_reading_of_a_body() -> None:
    body = {"metadata": {"name": "a", "creationTimestamp": 5}, "spec": {"renewTime": "x"}}
    async with served() as (_, client):
        refused = await client.post("/apis/coordination.k8s.io/v1/namespaces/default/leases", json=body)
        assert refused.json()["message"].endswith(
            "cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string"
        )


async def test_every_version_of_a_kind_reads_the_revision_of_a_get() -> None:
    scalers = "namespaces/default/horizontalpodautoscalers"
    spec = {"maxReplicas": 1, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}
    async with served() as (_, client):
        made = await client.post(
            f"/apis/autoscaling/v2/{scalers}", json={"metadata": {"name": "a"}, "spec": spec}
        )
        assert made.status_code == MADE
        for version in ("v1", "v2", "v2beta2"):
            refused = await client.get(f"/apis/autoscaling/{version}/{scalers}/a?resourceVersion=x")
            assert refused.status_code == BROKEN


async def test_a_flow_schema_with_a_condition_without_status_does_not_end_the_server() -> None:
    schemas = "/apis/flowcontrol.apiserver.k8s.io/v1beta2/flowschemas"
    spec = {"priorityLevelConfiguration": {"name": "none"}, "matchingPrecedence": 500}
    async with served() as (cluster, client):
        await passed(cluster)
        made = await client.post(schemas, json={"metadata": {"name": "a"}, "spec": spec})
        await passed(cluster)
        status = json.dumps({"status": {"conditions": [{"type": "Dangling"}]}})
        patched = await client.patch(f"{schemas}/a/status", content=status, headers=MERGE)
        assert (made.status_code, patched.status_code) == (MADE, OK)
        await passed(cluster)
        (condition,) = (await client.get(f"{schemas}/a")).json()["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Dangling", "True")


async def test_the_refusal_of_a_review_shows_the_owners_of_its_fields() -> None:
    body = {"metadata": {"labels": {"a": "b"}}, "spec": {"resourceAttributes": GET_PODS}}
    async with served() as (_, client):
        refused = await client.post(f"{REVIEWS}/selfsubjectaccessreviews", json=body)
        text = refused.json()["message"]
        assert 'ManagedFields:[]v1.ManagedFieldsEntry{v1.ManagedFieldsEntry{Manager:"python-httpx"' in text
        assert 'FieldsType:"FieldsV1", FieldsV1:(*v1.FieldsV1)(0xc000000000)' in text
        assert text.endswith("must be empty")


async def test_a_fixed_time_is_shown_with_the_fraction_that_was_sent() -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        patch = json.dumps({"metadata": {"deletionTimestamp": "2020-01-01T02:00:00.120Z"}})
        refused = await client.patch(f"{MAPS}/a", content=patch, headers=MERGE)
        assert "Invalid value: 2020-01-01 02:00:00.12 +0000 UTC: field is immutable" in refused.text


async def test_the_deletion_of_a_namespace_does_not_count_in_its_generation() -> None:
    async with served() as (_, client):
        await client.post("/api/v1/namespaces", json={"metadata": {"name": "a", "generation": 8}})
        gone = await client.delete("/api/v1/namespaces/a")
        assert gone.json()["metadata"]["generation"] == 8


@pytest.mark.parametrize(
    ("media", "checked", "unchecked"),
    [
        ("json-patch", "error decoding patch: unexpected end of JSON input", "unexpected end of JSON input"),
        ("merge-patch", "error decoding patch: unexpected end of JSON input", "Invalid JSON Patch"),
    ],
)
async def test_a_malformed_patch_is_refused_by_its_first_reader(
    media: str, checked: str, unchecked: str
) -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        headers = {"Content-Type": f"application/{media}+json"}
        for query, message in (("", checked), ("?fieldValidation=Ignore", unchecked)):
            refused = await client.patch(f"{MAPS}/a{query}", content=b"[", headers=headers)
            assert (refused.status_code, refused.json()["message"]) == (BAD, message)


async def test_a_time_of_a_wrong_type_in_an_apply_is_refused_by_the_converter() -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "creationTimestamp": [{}]}}
    async with served() as (_, client):
        headers = {"Content-Type": "application/apply-patch+yaml"}
        path = f"{MAPS}/a?fieldManager=m"
        refused = await client.patch(path, content=json.dumps(body), headers=headers)
        assert refused.json()["message"].endswith("json: cannot unmarshal array into Go value of type string")
