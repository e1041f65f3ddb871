"""Edges of the HTTP API: empty segments of paths, and forms of answers that follow from a request."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.actor.test_http import MAPS, config_map, served

NOWHERE = "/api/v1/namespaces//configmaps"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
SET: dict[str, Any] = {
    "metadata": {"name": "s"},
    "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    },
}
TEMPLATE: dict[str, Any] = {"metadata": {"creationTimestamp": None}, "spec": {"containers": None}}


async def test_collection_of_the_empty_namespace_is_all_namespaces() -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        answer = await client.get(NOWHERE)
        assert "a" in [item["metadata"]["name"] for item in answer.json()["items"]]


async def test_nothing_is_created_or_deleted_in_the_empty_namespace() -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        made = await client.post(NOWHERE, json=config_map("b"))
        assert made.status_code == 422
        assert made.json()["message"].endswith("is invalid: metadata.namespace: Required value")
        elsewhere = {"metadata": {"name": "b", "namespace": "default"}}
        assert (await client.post(NOWHERE, json=elsewhere)).status_code == 422
        gone = await client.delete(NOWHERE)
        assert (gone.status_code, gone.json()["message"]) == (400, "Namespace parameter required.")
        assert (await client.delete("/api/v1/namespaces//pods")).json()["items"] == []
        assert (await client.get(f"{MAPS}/a")).status_code == 200


async def first_bookmark(client: httpx.AsyncClient, path: str, accept: str) -> bytes:
    query = "watch=1&resourceVersion=0&allowWatchBookmarks=1&timeoutSeconds=3"
    async with client.stream("GET", f"{path}?{query}", headers={"Accept": accept}) as answer:
        lines = [line async for line in answer.aiter_lines()]
    return next(line.encode() for line in lines if '"BOOKMARK"' in line)


async def test_bookmark_has_the_zero_value_of_its_type() -> None:
    async with served(pace=20) as (_, client):
        await client.post(SETS, json=SET)
        event = json.loads(await first_bookmark(client, SETS, "application/json"))
        revision = event["object"]["metadata"].pop("resourceVersion")
        assert revision.isdigit()
        assert event == {
            "type": "BOOKMARK",
            "object": {
                "kind": "ReplicaSet",
                "apiVersion": "apps/v1",
                "metadata": {"creationTimestamp": None},
                "spec": {"replicas": 0, "selector": None, "template": TEMPLATE},
                "status": {"replicas": 0},
            },
        }


async def test_bookmark_of_a_table_watch_is_a_row() -> None:
    async with served(pace=20) as (_, client):
        await client.post(SETS, json=SET)
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        event = json.loads(await first_bookmark(client, SETS, table))
        assert event["type"] == "BOOKMARK"
        assert [row["cells"][:5] for row in event["object"]["rows"]] == [["", 0, 0, 0, "<unknown>"]]


async def test_first_delete_of_a_namespace_without_finalizers_makes_it_terminate() -> None:
    async with served() as (_, client):
        path = "/api/v1/namespaces/n"
        made = (await client.post("/api/v1/namespaces", json={"metadata": {"name": "n"}})).json()
        await client.put(f"{path}/finalize", json={**made, "spec": {"finalizers": []}})
        first = await client.delete(path)
        assert (first.status_code, first.json()["status"]) == (200, {"phase": "Terminating"})
        assert "deletionGracePeriodSeconds" not in first.json()["metadata"]
        assert (await client.get(path)).json()["metadata"]["deletionTimestamp"]
        assert (await client.delete(path)).json()["status"] == "Success"
        assert (await client.get(path)).status_code == 404


async def test_second_delete_of_a_namespace_changes_nothing() -> None:
    async with served() as (_, client):
        path = "/api/v1/namespaces/n"
        await client.post("/api/v1/namespaces", json={"metadata": {"name": "n"}})
        first = (await client.delete(path)).json()
        again = (await client.delete(path, params={"propagationPolicy": "Orphan"})).json()
        assert again == first


SCALER: dict[str, Any] = {
    "metadata": {"name": "a"},
    "spec": {
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"},
    },
}


@pytest.mark.parametrize("version", ["v2", "v2beta2"])
async def test_empty_scaling_policies_are_refused_and_absent_ones_default(version: str) -> None:
    async with served() as (_, client):
        path = f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers"

        def scaler(rules: dict[str, Any]) -> dict[str, Any]:
            return {**SCALER, "spec": {**SCALER["spec"], "behavior": {"scaleUp": rules}}}

        refused = await client.post(path, json=scaler({"policies": []}))
        assert refused.status_code == 422
        assert "behavior.scaleUp.policies: Required value: must specify" in refused.json()["message"]
        made = await client.post(path, json=scaler({"policies": None}))
        assert len(made.json()["spec"]["behavior"]["scaleUp"]["policies"]) == 2


async def test_rows_of_flow_schemas_are_in_the_order_of_their_precedence() -> None:
    async with served() as (_, client):
        table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        path = "/apis/flowcontrol.apiserver.k8s.io/v1beta2/flowschemas"
        rows = [row["cells"] for row in (await client.get(path, headers=table)).json()["rows"]]
        assert [row[0] for row in rows][:2] == ["exempt", "probes"]
        assert rows == sorted(rows, key=lambda row: (row[2], row[0]))


async def test_new_job_has_no_successful_pods() -> None:
    async with served() as (_, client):
        jobs = "/apis/batch/v1/namespaces/default/jobs"
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        await client.post(jobs, json={"metadata": {"name": "j"}, "spec": {"template": template}})
        found = await client.get(jobs, params={"fieldSelector": "status.successful=0"})
        assert [item["metadata"]["name"] for item in found.json()["items"]] == ["j"]


async def test_discovery_and_errors_are_indented_for_curl() -> None:
    async with served() as (_, client):
        curl = {"User-Agent": "curl/8.0"}
        for path in ("/apis/apps/v1", "/api", f"{MAPS}/none", "/apis/apps/v1/none"):
            assert (await client.get(path, headers=curl)).text.startswith('{\n  "')
            assert not (await client.get(f"{path}?pretty=0", headers=curl)).text.startswith("{\n")
            assert (await client.get(f"{path}?pretty=t")).text.startswith('{\n  "')


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_body_that_is_no_object_names_the_struct_with_tags(method: str) -> None:
    async with served() as (_, client):
        path = MAPS if method == "POST" else f"{MAPS}/a"
        answer = await client.request(method, path, json=[])
        wanted = r'type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string '
        assert wanted in answer.json()["message"]
