"""Custom resources over HTTP: discovery, paths, forms, tables, patches and documents, as kubectl
asks for them.
"""

from __future__ import annotations

import json
from typing import Any

import httpx

from sim.app.cluster import Cluster
from tests.actor.test_http import JSON, served

GROUP = "example.com"
BASE = f"/apis/{GROUP}/v1/namespaces/default/widgets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def definition(**more: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer", "minimum": 1}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
        **more,
    }
    names = {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"], "categories": ["all"]}
    whole = {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**kind, "metadata": {"name": f"widgets.{GROUP}"}, "spec": whole}


def widget(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


async def passed(cluster: Cluster, time: str = "1s") -> None:
    """Let time pass, which is paused otherwise."""
    cluster.kernel.set_rate(float("inf"))
    await cluster.run_for(time)
    cluster.kernel.set_rate(0)


async def defined(cluster: Cluster, client: httpx.AsyncClient, **more: Any) -> httpx.Response:
    await passed(cluster)
    made = await client.post(DEFINITIONS, json=definition(**more))
    assert made.status_code == 201, made.text
    await passed(cluster)
    return made


async def test_discovery_and_paths_follow_the_definitions() -> None:
    async with served() as (cluster, client):
        missing = await client.get(BASE)
        assert (missing.status_code, missing.text) == (404, "404 page not found\n")
        await defined(cluster, client)
        groups = [group["name"] for group in (await client.get("/apis")).json()["groups"]]
        assert groups[-1] == GROUP and f"/apis/{GROUP}/v1" in (await client.get("/")).json()["paths"]
        (row,) = (await client.get(f"/apis/{GROUP}/v1")).json()["resources"]
        assert (
            row["shortNames"] == ["wd"] and row["categories"] == ["all"] and row["singularName"] == "widget"
        )
        for path in (f"/apis/{GROUP}/v2/widgets", f"/apis/{GROUP}/v1/gadgets", f"/apis/{GROUP}/v1/widgets/a"):
            found = await client.get(path)
            assert (found.status_code, found.text) == (404, "404 page not found\n")
        assert (await client.get(f"{BASE}/a/status")).json()["message"] == 'widgets.example.com "a" not found'
        assert (await client.delete(f"{DEFINITIONS}/widgets.{GROUP}")).status_code == 200
        await passed(cluster, "10s")
        assert (await client.get(f"/apis/{GROUP}/v1")).text == "404 page not found\n"


async def test_objects_are_made_listed_and_printed() -> None:
    async with served() as (cluster, client):
        await defined(cluster, client)
        made = await client.post(
            f"{BASE}/a", json=widget("a", a="x", n=3, z=1)
        )  # a name in the path does not matter
        assert made.status_code == 201 and made.headers["warning"] == '299 - "unknown field \\"spec.z\\""'
        strict = await client.post(f"{BASE}?fieldValidation=Strict", json=widget("b", z=1))
        assert strict.status_code == 400 and "strict decoding error" in strict.json()["message"]
        wrong = await client.post(BASE, json=widget("b", n=0))
        assert wrong.status_code == 422 and "should be greater than or equal to 1" in wrong.json()["message"]
        other = await client.post(BASE, json={**widget("b"), "kind": "Gadget"})
        assert other.json()["message"].endswith('kind: Invalid value: "Gadget": must be Widget')
        listed = (await client.get(BASE)).json()
        assert listed["metadata"]["continue"] == "" and listed["items"][0]["kind"] == "Widget"
        table = (await client.get(BASE, headers=TABLE)).json()
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "N"]
        assert table["rows"][0]["cells"] == ["a", 3]
        patched = await client.patch(
            f"{BASE}/a", content=b'{"spec":{"n":4}}', headers={"Content-Type": "application/merge-patch+json"}
        )
        assert patched.json()["metadata"]["generation"] == 2
        strategic = {"Content-Type": "application/strategic-merge-patch+json"}
        assert (await client.patch(f"{BASE}/a", content=b"{}", headers=strategic)).status_code == 415
        apply = {"Content-Type": "application/apply-patch+yaml"}
        body = json.dumps(widget("a", a="y")).encode()
        conflict = await client.patch(f"{BASE}/a?fieldManager=m", content=body, headers=apply)
        assert conflict.status_code == 409 and ".spec.a" in conflict.json()["message"]
        forced = await client.patch(f"{BASE}/a?fieldManager=m&force=true", content=body, headers=apply)
        assert forced.json()["spec"] == {"a": "y", "n": 4}


async def test_forms_that_there_are_not_are_refused() -> None:
    async with served() as (cluster, client):
        await defined(cluster, client)
        protobuf = "application/vnd.kubernetes.protobuf"
        assert (await client.get(BASE, headers={"Accept": protobuf})).status_code == 406
        assert (await client.get(BASE, headers={"Accept": f"{protobuf},application/json"})).status_code == 200
        partial = f"{protobuf};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        listed = await client.get(BASE, headers={"Accept": partial})
        assert listed.headers["content-type"] == protobuf and listed.content.startswith(b"k8s\x00")
        sent = await client.post(BASE, content=b"k8s\x00", headers={"Content-Type": protobuf})
        assert sent.status_code == 400
        for bad in (b"", b"[]", b"null", b'"x"', b"{", b'{"kind":1}', b'{"kind":"Widget","metadata":[]}'):
            assert (await client.post(BASE, content=bad, headers=JSON)).status_code == 400


async def test_openapi_contains_the_schema_of_a_definition() -> None:
    async with served() as (cluster, client):
        await defined(cluster, client)
        index = (await client.get("/openapi/v3")).json()["paths"]
        url = index[f"apis/{GROUP}/v1"]["serverRelativeURL"]
        newer = (await client.get(url)).json()["components"]["schemas"]["com.example.v1.Widget"]
        assert newer["properties"]["spec"]["properties"]["n"] == {"type": "integer", "minimum": 1}
        older = (await client.get("/openapi/v2")).json()
        assert older["definitions"]["com.example.v1.Widget"]["properties"]["spec"]["properties"]["a"] == {
            "type": "string"
        }
        assert f"{BASE.replace('default', '{namespace}')}/{{name}}" in older["paths"]


async def test_rules_refuse_objects_and_deprecated_version_warns() -> None:
    async with served() as (cluster, client):
        rules = [{"rule": "self.metadata.name != 'bad'", "message": "not this name"}]
        schema = {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "x-kubernetes-validations": rules,
        }
        await defined(cluster, client, deprecated=True, schema={"openAPIV3Schema": schema})
        refused = await client.post(BASE, content=json.dumps(widget("bad")).encode(), headers=JSON)
        assert refused.status_code == 422
        assert refused.json()["details"]["causes"] == [
            {
                "reason": "FieldValueInvalid",
                "message": 'Invalid value: "object": not this name',
                "field": "<nil>",
            }
        ]
        listed = await client.get(BASE)
        assert listed.headers["warning"] == f'299 - "{GROUP}/v1 Widget is deprecated"'


async def test_dry_run_drops_the_given_status_and_fills_in_its_defaults() -> None:
    async with served() as (cluster, client):
        phase = {"type": "string", "default": "new"}
        status = {"type": "object", "default": {}, "properties": {"phase": phase}}
        spec = {"type": "object", "properties": {"n": {"type": "number"}}}
        schema = {"type": "object", "properties": {"spec": spec, "status": status}}
        await defined(cluster, client, schema={"openAPIV3Schema": schema}, subresources={"status": {}})
        body = json.dumps({**widget("a", n=5.0), "status": {"phase": "old"}}).encode()
        for query in ("?dryRun=All", ""):
            made = await client.post(BASE + query, content=body, headers=JSON)
            assert made.json()["status"] == {"phase": "new"}
            assert '"n":5}' in made.text
