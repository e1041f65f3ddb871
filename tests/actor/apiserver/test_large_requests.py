"""Requests of a size that a client may send take time in proportion to it: nobody stops a server for long."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import process_time
from typing import Any

import msgspec
import pytest

from sim.app.cluster import Cluster

# Parts of a small request, and how many times as many a large one has.
SMALL, TIMES = 800, 8
STRATEGIC, JSON_PATCH = "application/strategic-merge-patch+json", "application/json-patch+json"
# verb, resource, name, body, and what else there is to it
Step = tuple[str, str, str, Any, dict[str, Any]]


def step(verb: str, resource: str, name: str, body: Any, content: str = "", **more: Any) -> Step:
    return verb, resource, name, body, {"content_type": content or "application/json", **more}


def created(resource: str, body: dict[str, Any]) -> list[Step]:
    metadata = {"generateName": "x-", **body.get("metadata", {})}
    return [step("create", resource, "", {**body, "metadata": metadata})]


def pod(**spec: Any) -> list[Step]:
    return created("pods", {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}})


def container(**parts: Any) -> list[Step]:
    return pod(containers=[{"name": "c", "image": "i", **parts}])


def service(count: int, kind: str) -> list[Step]:
    ports = [{"name": f"p{i}", "port": i + 1} for i in range(count)]
    return created("services", {"spec": {"type": kind, "ports": ports}})


def patched(content: str, *patches: Any, **more: Any) -> list[Step]:
    """Patches of one pod, made anew."""
    gone = step("delete", "pods", "x", None, options={"gracePeriodSeconds": "0"})
    spec = {"containers": [{"name": "c", "image": "i"}]}
    made = step("create", "pods", "", {"metadata": {"name": "x"}, "spec": spec})
    return [gone, made, *(step("patch", "pods", "x", patch, content, **more) for patch in patches)]


def conditions(count: int, **more: str) -> Any:
    return {"status": {"conditions": [{"type": f"t{i}", **more} for i in range(count)]}}


def finalizers(count: int, key: str = "finalizers") -> Any:
    return {"metadata": {key: [f"a.b/c{i}" for i in range(count)]}}


def annotated(count: int) -> list[Step]:
    had = step(
        "update", "namespaces", "default", {"metadata": {"name": "default", "annotations": texts(5 * count)}}
    )
    operations = [
        {"op": "replace", "path": f"/metadata/annotations/k{i}", "value": "b"} for i in range(count)
    ]
    return [had, step("patch", "namespaces", "default", operations, JSON_PATCH)]


def texts(count: int) -> dict[str, str]:
    return {f"k{i}": "a" for i in range(count)}


def owners(count: int) -> Any:
    each = {"apiVersion": "v1", "kind": "Pod"}
    return {"metadata": {"ownerReferences": [{**each, "name": "p", "uid": f"u{i}"} for i in range(count)]}}


CASES: dict[str, Callable[[int], list[Step]]] = {
    "owners": lambda n: created("configmaps", owners(n)),
    "taints": lambda n: created(
        "nodes", {"spec": {"taints": [{"key": f"k{i}", "effect": "NoSchedule"} for i in range(n)]}}
    ),
    "addresses": lambda n: created(
        "nodes", {"status": {"addresses": [{"type": f"t{i}", "address": "a"} for i in range(n)]}}
    ),
    "ports": lambda n: service(n, "ClusterIP"),
    "node ports": lambda n: service(n * 3 // 8, "NodePort"),
    "containers": lambda n: pod(containers=[{"name": f"c{i}", "image": "i"} for i in range(n)]),
    "host ports": lambda n: container(ports=[{"containerPort": i + 1, "hostPort": i + 1} for i in range(n)]),
    "mounts": lambda n: container(volumeMounts=[{"name": "v", "mountPath": f"/{i}"} for i in range(n)]),
    "spreads": lambda n: pod(
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": f"k{i}", "whenUnsatisfiable": "DoNotSchedule"} for i in range(n)
        ]
    ),
    "sysctls": lambda n: pod(securityContext={"sysctls": [{"name": f"s{i}", "value": ""} for i in range(n)]}),
    "merged": lambda n: patched(
        STRATEGIC, conditions(n, status="True"), conditions(n, status="False"), subresource="status"
    ),
    "taken out": lambda n: patched(
        STRATEGIC, conditions(n, status="True"), conditions(n, **{"$patch": "delete"}), subresource="status"
    ),
    "taken out of texts": lambda n: patched(
        STRATEGIC, finalizers(n), finalizers(n, "$deleteFromPrimitiveList/finalizers")
    ),
    "operations": annotated,
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_request_of_many_parts_takes_time_in_proportion(case: Callable[[int], list[Step]]) -> None:
    async with Cluster(naming="kubernetes") as cluster:
        await cluster.run_for("5s")

        def took_s(count: int) -> float:
            """Of the last step."""
            for verb, resource, name, body, more in case(count):
                text = None if body is None else msgspec.json.encode(body)
                place = "" if resource in ("nodes", "namespaces") else "default"
                began_s = process_time()
                reply = cluster.request(verb, resource, place, name, body=text, **more)
                took_s = process_time() - began_s
            assert reply.code in (200, 201, 422, 500), reply
            return took_s

        gc.disable()  # which now and then takes its time
        try:
            small_s, large_s = (min(took_s(count) for _ in range(3)) for count in (SMALL, SMALL * TIMES))
        finally:
            gc.enable()
        # What grows with the square takes 64 times as long.
        assert large_s < 2 * TIMES * small_s, (small_s, large_s)
