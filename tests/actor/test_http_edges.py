"""Edges of the HTTP API: empty segments of paths, and forms of answers that follow from a request."""

from __future__ import annotations

from tests.actor.test_http import MAPS, config_map, served

NOWHERE = "/api/v1/namespaces//configmaps"


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
