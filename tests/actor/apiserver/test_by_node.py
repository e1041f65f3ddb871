"""Lists of one node's pods: they equal a filter over all pods at each instant, and cost less.

The tests fail if the lists are kept after a change of a pod, after a loss of history, or for a
replica that shows or showed an older state.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from sim.api.store import Range
from tests.actor.apiserver.cluster import Plane, plane

S = 1_000_000
NODES = ("n1", "n2", "n3")


async def bound(p: Plane, name: str, node: str) -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i"}],
        **({"nodeName": node} if node else {}),
    }
    made = await p.ask("create", "pods", body={"metadata": {"name": name}, "spec": spec})
    assert made.code == 201, made


async def listed(p: Plane, at: int, **options: str) -> list[tuple[str, str]]:
    """(name, node) as one replica's cache shows them."""
    reply = await p.ask("list", "pods", "", options={"resourceVersion": "0", **options}, at=at)
    assert reply.items is not None, reply
    return [(item.obj["metadata"]["name"], item.obj["spec"].get("nodeName", "")) for item in reply.items]


@pytest.mark.parametrize("seed", range(3))
async def test_a_nodes_list_is_the_part_of_the_whole_that_is_on_it(seed: int) -> None:
    draw = Random(seed)
    async with plane(replicas=2) as p:
        await p.ask("create", "serviceaccounts", body={"metadata": {"name": "default"}})
        p.servers[1].trail.lag(2 * S)
        there: list[str] = []
        for number in range(60):
            step = draw.randrange(10)
            if step < 5 or not there:
                there.append(f"p{number}")
                await bound(p, there[-1], draw.choice(("", *NODES)))
            elif step < 7:
                name = there.pop(draw.randrange(len(there)))
                body = {"gracePeriodSeconds": 0}
                assert (await p.ask("delete", "pods", name=name, body=body)).ok
            elif step == 7:
                p.storage.store.compact(p.storage.store.revision)
            elif step == 8:
                await p.run(3 * S)
            for at in draw.choice(((0,), (1,), (0, 1), ())):
                for node in NODES:
                    mine = await listed(p, at, fieldSelector=f"spec.nodeName={node}")
                    whole = await listed(p, at)
                    if (
                        await listed(p, at, fieldSelector=f"spec.nodeName={node}") == mine
                    ):  # no lag ended in between
                        assert mine == [pod for pod in whole if pod[1] == node]


async def test_list_after_compaction_is_not_reused_once_the_cache_has_caught_up() -> None:
    async with plane() as p:
        await p.ask("create", "serviceaccounts", body={"metadata": {"name": "default"}})
        for name in ("gone", "left"):
            await bound(p, name, "n1")
        await p.run(S)
        p.server.trail.freeze(True)
        assert (await p.ask("delete", "pods", name="gone", body={"gracePeriodSeconds": 0})).ok
        p.storage.store.compact(p.storage.store.revision)
        assert len(await listed(p, 0, fieldSelector="spec.nodeName=n1")) == 2
        p.server.trail.freeze(False)
        assert await listed(p, 0, fieldSelector="spec.nodeName=n1") == [("left", "n1")]


async def test_agents_that_list_in_turn_have_all_pods_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with plane() as p:
        await p.ask("create", "serviceaccounts", body={"metadata": {"name": "default"}})
        for number in range(9):
            await bound(p, f"p{number}", NODES[number % 3])
        store = p.storage.store
        looks: list[str] = []
        walk = store.range

        def watched(op: Range) -> Any:
            looks.append(op.prefix)
            return walk(op)

        monkeypatch.setattr(store, "range", watched)
        for node in NODES:
            assert len(await listed(p, 0, fieldSelector=f"spec.nodeName={node}")) == 3
        assert len(looks) == 1
