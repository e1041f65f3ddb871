"""Requests of a size that a client may send: seconds of a small one, of a large one, and how they
grow.

python -m tests.bench.large_requests [CASE ...]

What grows with the size grows eightfold, what grows with its square 64-fold.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import process_time
from typing import Any

import msgspec
import trio

from sim.app.cluster import Cluster
from sim.app.process.garbage import no_collection
from sim.wire.http.forms.yaml_json import load_yaml
from tests.bench.timing import best_of, machine

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
    """Patches of one pod, created again for each."""
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


async def seconds(cluster: Cluster, case: Callable[[int], list[Step]], count: int) -> float:
    """Of the last step."""
    for verb, resource, name, body, more in case(count):
        text = None if body is None else msgspec.json.encode(body)
        place = "" if resource in ("nodes", "namespaces") else "default"
        began_s = process_time()
        reply = cluster.request(verb, resource, place, name, body=text, **more)
        took_s = process_time() - began_s
    assert reply.code in (200, 201, 422, 500), reply
    return took_s


async def measure(names: list[str]) -> None:
    with no_collection():
        async with Cluster(naming="kubernetes") as cluster:
            await cluster.run_for("5s")
            for name in names:
                tries = [
                    [await seconds(cluster, CASES[name], count) for _ in range(3)]
                    for count in (SMALL, SMALL * TIMES)
                ]
                small_s, large_s = map(min, tries)
                print(f"{name:20} {small_s:8.4f} s {large_s:8.4f} s  {large_s / small_s:5.1f}", flush=True)


def main() -> None:
    print(machine())
    trio.run(measure, sys.argv[1:] or list(CASES))
    text = json.dumps(texts(SMALL * TIMES)).encode()
    by_json_s, by_yaml_s = (best_of(lambda start=start: load_yaml(start + text)) for start in (b"", b"---\n"))
    print(f"JSON where YAML may be: {by_json_s:.3f} s read as JSON, {by_yaml_s:.3f} s as YAML")


if __name__ == "__main__":
    main()
