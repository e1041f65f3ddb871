"""What the route, and what the handler of a custom resource says of a request, over HTTP."""

from __future__ import annotations

from typing import Any

from sim.wire.http.routing import attributes
from tests.actor.test_http import MAPS, config_map, served
from tests.actor.test_http_custom import BASE, GROUP, defined, widget

CAPACITIES = "/apis/storage.k8s.io/v1beta1/namespaces/default/csistoragecapacities"
HTML = {"Accept": "text/html"}
LIST = "PartialObjectMetadataList"
OK, SUPPORTED, ACCEPTED, BROKEN = 200, 415, 406, 500
EMBEDDED: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}


def as_(kind: str) -> dict[str, str]:
    return {"Accept": f"application/json;as={kind};v=v1;g=meta.k8s.io"}


async def test_what_the_route_refuses_carries_no_warning_of_its_version() -> None:
    async with served() as (_, client):
        assert "is deprecated" in (await client.get(CAPACITIES)).headers["Warning"]
        refused = await client.get(CAPACITIES, headers=HTML)
        assert (refused.status_code, refused.headers.get("Warning")) == (ACCEPTED, None)
        refused = await client.patch(f"{CAPACITIES}/a", json={})
        assert (refused.status_code, refused.headers.get("Warning")) == (SUPPORTED, None)


async def test_the_route_judges_the_type_of_a_patch_before_the_accept_header() -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        refused = await client.patch(f"{MAPS}/a", json={}, headers=HTML)
        assert (refused.status_code, refused.json()["message"]) == (SUPPORTED, "415: Unsupported Media Type")
        merge = {"Content-Type": "application/merge-patch+json; x=y", **HTML}
        assert (await client.patch(f"{MAPS}/a", content=b"{}", headers=merge)).status_code == ACCEPTED


async def test_a_deprecated_custom_version_warns_where_it_has_no_subresource() -> None:
    warning = f'299 - "{GROUP}/v1 Widget is deprecated"'
    async with served() as (cluster, client):
        await defined(cluster, client, deprecated=True)
        for method, path in (("GET", f"{BASE}/a/status"), ("POST", f"{BASE}/a/scale")):
            assert (await client.request(method, path)).headers["Warning"] == warning


async def test_go_takes_one_custom_object_for_a_list() -> None:
    async with served() as (cluster, client):
        await defined(cluster, client)
        await client.post(BASE, json=widget("a"))
        refused = await client.get(f"{BASE}/a", headers=as_(LIST))
        assert (refused.status_code, refused.json()["message"]) == (BROKEN, "content is not a list")
        refused = await client.get(BASE, headers=as_("PartialObjectMetadata"))
        assert refused.json()["message"].endswith("is a list (*unstructured.UnstructuredList)")


async def test_embedded_objects_are_checked_in_an_object_of_another_kind_too() -> None:
    spec = {"type": "object", "properties": {"n": {"type": "integer"}, "e": EMBEDDED}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    async with served() as (cluster, client):
        await defined(cluster, client, schema=schema)
        refused = await client.post(BASE, json={**widget("a", e={}, n="x"), "kind": "Gadget"})
        causes = [cause["field"] for cause in refused.json()["details"]["causes"]]
        assert causes == ["kind", "spec.e.apiVersion", "spec.e.kind"]


async def test_a_scale_has_the_forms_of_an_object() -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    async with served() as (_, client):
        await client.post(deployments, json={"metadata": {"name": "d"}, "spec": spec})
        table = (await client.get(f"{deployments}/d/scale", headers=as_("Table"))).json()
        assert [column["name"] for column in table["columnDefinitions"]] == [
            "Name",
            "Desired",
            "Available",
            "Age",
        ]
        assert table["rows"][0]["cells"] == ["d", 3, 0, "0s"]
        short = await client.get(f"{deployments}/d/scale", headers=as_("PartialObjectMetadata"))
        assert sorted(short.json()) == ["apiVersion", "kind", "metadata"]
        refused = await client.get(f"{deployments}/d/scale", headers=as_(LIST))
        assert refused.json()["message"].endswith("is not a list (*autoscaling.Scale)")


async def test_a_review_has_the_forms_of_metadata() -> None:
    reviews, spec = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"namespace": "default"}
    async with served() as (_, client):
        short = await client.post(reviews, json={"spec": spec}, headers=as_("PartialObjectMetadata"))
        assert (short.status_code, short.json()["kind"]) == (201, "PartialObjectMetadata")
        assert sorted(short.json()) == ["apiVersion", "kind", "metadata"]
        refused = await client.post(reviews, json={"spec": spec}, headers=as_(LIST))
        why = "but the requested object is not a list (*authorization.SelfSubjectRulesReview)"
        assert (refused.status_code, refused.json()["message"]) == (406, f"you requested {LIST}, {why}")


async def test_a_log_is_produced_as_text_by_its_route_and_not_by_its_handler() -> None:
    path = "/api/v1/namespaces/default/pods/x/log"
    async with served() as (_, client):
        refused = await client.get(path, headers={"Accept": "text/html"})
        assert "Available representations: text/plain, application/json, " in refused.json()["message"]
        unread = await client.get(path, headers={"Accept": "text/plain"})
        assert unread.json()["message"].startswith("only the following media types are accepted: ")


def test_proxy_below_a_version_is_a_verb() -> None:
    asked = attributes("GET", "/api/v1/proxy/namespaces/n/services/s/x/y", {})
    assert (asked.verb, asked.resource, asked.subresource) == ("proxy", "services", "")
    assert (asked.namespace, asked.name) == ("n", "s")


async def test_amounts_of_a_runtime_class_are_not_rounded() -> None:
    body = {"metadata": {"name": "a"}, "handler": "h", "overhead": {"podFixed": {"cpu": "1n"}}}
    async with served() as (_, client):
        made = await client.post("/apis/node.k8s.io/v1/runtimeclasses", json=body)
        assert made.json()["overhead"] == {"podFixed": {"cpu": "1n"}}


async def test_a_write_warns_of_its_fields_although_its_form_is_refused() -> None:
    async with served() as (_, client):
        made = await client.post(MAPS, json={**config_map("a"), "z": 1}, headers=as_(LIST))
        assert (made.status_code, made.headers["Warning"]) == (ACCEPTED, '299 - "unknown field \\"z\\""')
        assert (await client.get(f"{MAPS}/a")).status_code == OK
