"""Custom objects among the controllers, and in scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sim.app.cluster import Cluster
from sim.client import Client, Informers
from sim.client.cache.informer import Informer
from sim.errors import InputError
from sim.scenario.compile import compile_plan
from sim.scenario.read.source import parse_documents
from tests.cluster.scenario import run

GROUP = "example.com"
WIDGETS = f"widgets.{GROUP}"


def definition(domain: str = "k8s.io") -> dict[str, Any]:
    spec = {"type": "object", "properties": {"a": {"type": "string", "default": "d"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"kind": "Widget", "plural": "widgets"}
    return {
        "apiVersion": f"apiextensions.{domain}/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": WIDGETS},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def widget(name: str, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}}
    if owner is not None:
        meta = owner["metadata"]
        ref = {key: owner[key] for key in ("apiVersion", "kind")} | {"name": meta["name"], "uid": meta["uid"]}
        made["metadata"]["ownerReferences"] = [{**ref, "blockOwnerDeletion": True}]
    return made


def made(cluster: Cluster, resource: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = cluster.request("create", resource, "n", body=body)
    assert reply.code == 201, reply.body
    return reply.obj


def names(cluster: Cluster, resource: str = WIDGETS) -> list[str]:
    return [obj["metadata"]["name"] for obj in cluster.list(resource, "n")]


async def begun(cluster: Cluster) -> None:
    await cluster.run_for("2s")
    assert cluster.request("create", "customresourcedefinitions", body=definition()).code == 201
    assert cluster.request("create", "namespaces", body={"metadata": {"name": "n"}}).code == 201
    await cluster.run_for("1s")


async def test_watch_of_an_object_shows_new_defaults_of_its_definition() -> None:
    async with Cluster(naming="kubernetes") as cluster:
        await begun(cluster)
        made(cluster, WIDGETS, {**widget("a"), "spec": {}})
        known: list[Informer] = []

        async def operator(client: Client) -> None:
            kind = client.scheme.by_kind(f"{GROUP}/v1", "Widget")
            assert kind is not None
            known.append(Informers(client.ctx, client).custom(kind))
            known[0].start()
            await client.ctx.sleep_us(1 << 40)

        cluster.add_program("operator", operator)
        await cluster.run_for("5s")
        (seen,) = known
        assert seen.objects["n/a"]["spec"] == {"a": "d"}
        (version,) = definition()["spec"]["versions"]
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"]["b"] = {"type": "string", "default": "e"}
        patch = {"spec": {"versions": [version]}}
        kind = "application/merge-patch+json"
        changed = cluster.request(
            "patch", "customresourcedefinitions", "", WIDGETS, body=patch, content_type=kind
        )
        assert changed.code == 200
        await cluster.run_for("5s")
        assert seen.objects["n/a"]["spec"] == {"a": "d", "b": "e"}


async def test_owners_and_dependents_may_be_custom() -> None:
    async with Cluster(naming="kubernetes") as cluster:
        await begun(cluster)
        top = made(cluster, WIDGETS, widget("top"))
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": widget("map", top)["metadata"]}
        middle = made(cluster, "configmaps", config)
        made(cluster, WIDGETS, widget("bottom", middle))
        await cluster.run_for("40s")  # the collector has met the kind, and nothing is missed
        assert names(cluster) == ["bottom", "top"] and "map" in names(cluster, "configmaps")
        cluster.request("delete", WIDGETS, "n", "top", options={"propagationPolicy": "Foreground"})
        await cluster.run_for("10s")
        assert names(cluster) == [] and "map" not in names(cluster, "configmaps")


async def test_orphan_of_a_custom_owner_loses_its_owner_reference() -> None:
    async with Cluster(naming="kubernetes") as cluster:
        await begun(cluster)
        top = made(cluster, WIDGETS, widget("top"))
        made(cluster, WIDGETS, widget("left", top))
        await cluster.run_for("40s")
        cluster.request("delete", WIDGETS, "n", "top", options={"propagationPolicy": "Orphan"})
        await cluster.run_for("10s")
        (left,) = cluster.list(WIDGETS, "n")
        assert left["metadata"]["name"] == "left" and "ownerReferences" not in left["metadata"]


async def test_custom_owner_deleted_without_collector_takes_its_dependents_along() -> None:
    async with Cluster(naming="kubernetes") as cluster:
        await begun(cluster)
        top = made(cluster, WIDGETS, widget("top"))
        for name, owner in (("goes", top), ("stays", made(cluster, WIDGETS, widget("other")))):
            meta = widget(name, owner)["metadata"]
            made(cluster, "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        await cluster.run_for("40s")
        manager = cluster.supervisor["controller-manager-0"]
        manager.crash("killed")
        assert cluster.request("delete", WIDGETS, "n", "top").ok
        await cluster.run_for("1s")
        manager.start()
        await cluster.run_for("40s")  # a lease of 15 s has to run out first
        assert {"goes", "stays"} & {*names(cluster, "configmaps")} == {"stays"}


async def test_owner_of_an_unknown_kind_is_looked_up_until_the_kind_exists() -> None:
    async with Cluster(naming="kubernetes") as cluster:
        await cluster.run_for("2s")
        assert cluster.request("create", "namespaces", body={"metadata": {"name": "n"}}).code == 201
        await cluster.run_for("30s")
        owner = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "never", "uid": "u-1"}}
        meta = widget("map", owner)["metadata"]
        made(cluster, "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        await cluster.run_for("5s")
        assert cluster.request("create", "customresourcedefinitions", body=definition()).code == 201
        await cluster.run_for("5s")
        assert "map" in names(cluster, "configmaps")
        # the kind is met within 30 s; 5 ms doubling: tried 20.5, 41 and 82 s after the first time
        await cluster.run_for("75s")
        assert "map" not in names(cluster, "configmaps")


async def test_a_namespace_takes_custom_objects_along_and_kinds_that_go_are_left() -> None:
    async with Cluster(naming="kubernetes") as cluster:
        await begun(cluster)
        made(cluster, WIDGETS, widget("a"))
        cluster.request("delete", "namespaces", "", "n")
        await cluster.run_for("30s")
        assert cluster.get("namespaces", "n") is None and cluster.list(WIDGETS) == []
        cluster.request("delete", "customresourcedefinitions", "", WIDGETS)
        await cluster.run_for("2m")
        assert cluster.get("customresourcedefinitions", WIDGETS) is None
        with pytest.raises(InputError, match="there is no resource"):
            cluster.list(WIDGETS)


async def test_a_scenario_makes_kinds_and_objects_of_them_the_same_each_time(tmp_path: Path) -> None:
    whole = widget("w") | {"spec": {}}
    expect = [{"name": "up", "when": "all nodes have Ready=True", "within": ["0s", "1m"]}]
    results = [
        await run(tmp_path, [], expect, objects=[definition("orch.io"), whole], duration="2m")
        for _ in range(2)
    ]
    assert results[0].trace_sha256 == results[1].trace_sha256

    assert not results[0].refused


async def test_request_for_objects_of_a_deleted_kind_gets_not_found(tmp_path: Path) -> None:
    plural = WIDGETS.partition(".")[0]
    gone = {"after": "gone", "delay": "5s"}
    steps = [
        {"at": "40s", "name": "gone", "delete": {"resource": "customresourcedefinitions", "name": WIDGETS}},
        {**gone, "delete": {"resource": plural, "name": "w"}},
        {**gone, "delete": {"resource": plural, "selector": "a=b"}},
        {**gone, "patch": {"resource": plural, "name": "w", "merge": {"spec": {"a": 2}}}},
        {**gone, "for": "10s", "load": {"rate": "1/s", "list": plural}},
        {**gone, "for": "10s", "load": {"rate": "1/s", "create": widget("x") | {"spec": {}}}},
    ]
    objects = [definition("orch.io"), widget("w") | {"spec": {}}]
    result = await run(tmp_path, steps, [], objects=objects, duration="90s")
    unknown = f'the server doesn\'t have a resource type "{plural}"'
    told = [text for text in result.refused if unknown in text]
    assert [text.partition(" at ")[0] for text in told] == [
        f"delete {plural}/w",
        f"delete {plural}",
        f"patch {plural}/w",
    ]


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ([widget("w"), definition("orch.io")], "there is no kind Widget"),
        ([definition("orch.io"), widget("w") | {"spec": {"b": 1}}], 'unknown field "spec.b"'),
        (
            [definition("orch.io"), widget("w") | {"metadata": {"name": "w", "labels": 5}}],
            "cannot unmarshal number",
        ),
    ],
)
def test_scenario_reports_errors_of_custom_objects(objects: list[Any], why: str, tmp_path: Path) -> None:
    import yaml

    spec = {"duration": "1m", "cluster": {"nodes": [{"count": 1}]}, "objects": objects, "expect": []}
    body = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "t"}, "spec": spec}
    (document,) = parse_documents(yaml.safe_dump(body), "t.yaml")
    with pytest.raises(InputError, match=why):
        compile_plan(document, tmp_path)
