"""How much there may be of something: bytes of an object, managers of its fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.apiserver.options import ApiServerOptions
from sim.api.ownership import managed
from sim.units import SECOND
from tests.actor.apiserver.cluster import Plane, plane

OPTIONS = ApiServerOptions(disabled_admission=("ServiceAccount",))
MERGE = "application/merge-patch+json"
LIMIT = 3 * 512 * 1024  # etcd, DefaultMaxRequestBytes


async def test_the_storage_takes_no_object_of_more_than_a_mebibyte_and_a_half() -> None:
    """Neither when it is made nor when it grows, by however little; a dry run does not come to the
    storage.
    """
    async with plane(1, OPTIONS) as p:

        def pod(length: int) -> bytes:
            spec = {
                "containers": [{"name": "c", "image": "i", "env": [{"name": "E", "value": "x" * length}]}]
            }
            return json.dumps({"metadata": {"name": "p"}, "spec": spec}).encode()

        refused = await p.ask("create", "pods", body=pod(LIMIT))
        assert (refused.code, refused.message, refused.reason) == (
            500,
            "etcdserver: request is too large",
            "",
        )
        assert (await p.ask("create", "pods", body=pod(LIMIT), options={"dryRun": "All"})).code == 201
        assert (await p.ask("create", "pods", body=pod(LIMIT - 10_000))).code == 201
        grown = {"metadata": {"annotations": {"a": "y" * 10_000}}}
        patch = await p.ask("patch", "pods", name="p", body=json.dumps(grown).encode(), content_type=MERGE)
        assert (patch.code, patch.message) == (500, "etcdserver: request is too large")
        small = {"metadata": {"annotations": {"a": "y"}}}
        patch = await p.ask("patch", "pods", name="p", body=json.dumps(small).encode(), content_type=MERGE)
        assert patch.code == 200


async def managers_of(p: Plane) -> list[tuple[str, list[str]]]:
    item = (await p.ask("get", "configmaps", name="c")).item
    assert item is not None
    entries: list[dict[str, Any]] = managed.render(item.managed, item.obj)
    found = [
        (e["manager"], sorted(key[2:] for key in e["fieldsV1"].get("f:data", {}) if key != "."))
        for e in entries
    ]
    return sorted(found)


@pytest.mark.parametrize("count", [10, 11, 14])
async def test_of_more_than_ten_managers_that_update_the_oldest_become_one(count: int) -> None:
    """capmanagers.go: as many of the oldest as necessary are merged into `ancient-changes`;
    appliers do not count.
    """
    async with plane(1, OPTIONS) as p:
        await p.ask(
            "create", "configmaps", body={"metadata": {"name": "c"}, "data": {"k00": "1"}}, manager="m00"
        )
        apply = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"own": "1"}}
        kind = "application/apply-patch+yaml"
        options = {"fieldManager": "applier"}
        assert (
            await p.ask("patch", "configmaps", name="c", body=apply, content_type=kind, options=options)
        ).ok
        for number in range(1, count):
            await p.run(SECOND)
            body = {"data": {f"k{number:02}": "1"}}
            reply = await p.ask(
                "patch", "configmaps", name="c", body=body, content_type=MERGE, manager=f"m{number:02}"
            )
            assert reply.ok
        merged = count - 9 if count > 10 else 0
        single = [(f"m{n:02}", [f"k{n:02}"]) for n in range(merged, count)]
        ancient = [("ancient-changes", [f"k{n:02}" for n in range(merged)])] if merged else []
        assert await managers_of(p) == [*ancient, ("applier", ["own"]), *single]
