"""The TTL controller, which annotates nodes by the size of the cluster."""

from __future__ import annotations

from tests.actor.apiserver.cluster import SCHEME
from tests.actor.controllers.workload import World, world

ANNOTATION = SCHEME.names.annotation_node_ttl


async def values(w: World) -> list[str]:
    reply = await w.plane.ask("list", "nodes")
    return [item.obj["metadata"]["annotations"][ANNOTATION] for item in reply.items or ()]


async def test_nodes_get_the_ttl_annotation_at_their_next_event() -> None:
    async with world(("ttl",)) as w:
        for index in range(100):
            await w.plane.ask("create", "nodes", body={"metadata": {"name": f"n{index:03}"}})
        await w.settle()
        assert await values(w) == ["0"] * 100
        await w.plane.ask("create", "nodes", body={"metadata": {"name": "n100"}})
        await w.settle()
        assert await values(w) == [*["0"] * 100, "15"]
        patch = {"metadata": {"labels": {"a": "b"}}}
        kind = SCHEME.names.media_merge_patch
        await w.plane.ask("patch", "nodes", "", "n007", body=patch, content_type=kind)
        await w.settle()
        assert (await values(w))[7] == "15" and (await values(w)).count("15") == 2


async def test_node_with_the_right_value_is_not_written_at_its_next_event() -> None:
    async with world(("ttl",)) as w:
        patches = w.quota.watch("patch", "nodes")
        await w.create("nodes", {"metadata": {"name": "n"}}, "")
        await w.settle()
        body, kind = {"metadata": {"labels": {"a": "b"}}}, SCHEME.names.media_merge_patch
        assert (await w.plane.ask("patch", "nodes", "", "n", body=body, content_type=kind)).ok
        await w.settle()
        assert len(patches) == 1 and await values(w) == ["0"]
