"""The budget loop against the real API server, with the loops that make the pods it counts."""

from __future__ import annotations

from typing import Any

import pytest

from sim.machinery.api import Obj
from sim.units import SECOND, format_time
from tests.actor.controllers.workload import POD_SPEC, World, workload, world

LOOPS = ("deployment", "replicaset", "disruption")


def budget(**spec: Any) -> Obj:
    chosen = {"selector": {"matchLabels": {"app": "web"}}}
    meta = {"name": "b"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta,
        "spec": {**chosen, **spec},
    }


async def counts(w: World) -> tuple[int, int, int, int]:
    """Expected pods, those that must be healthy, those that are, and how many may be disrupted."""
    status = (await w.get("poddisruptionbudgets", "b"))["status"]
    names = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    expected, desired, healthy, allowed = (status[name] for name in names)
    return expected, desired, healthy, allowed


async def test_shares_of_pods_are_rounded_up_whichever_side_they_are_of() -> None:
    cases: list[tuple[Obj, tuple[int, int, int, int]]] = [
        ({"maxUnavailable": "30%"}, (7, 4, 5, 1)),
        ({"minAvailable": "34%"}, (7, 3, 5, 2)),
        ({"minAvailable": "100%"}, (7, 7, 5, 0)),
        ({"maxUnavailable": "0%"}, (7, 7, 5, 0)),
        ({"maxUnavailable": 9}, (7, 0, 5, 5)),
        ({"minAvailable": 9}, (7, 9, 5, 0)),
    ]
    async with world(LOOPS) as w:
        await w.create("deployments", workload("Deployment", "web", replicas=7))
        await w.settle()
        for name in (await w.names("pods"))[:5]:
            await w.make_ready(name)
        for spec, wanted in cases:
            await w.create("poddisruptionbudgets", budget(**spec))
            await w.settle(SECOND)
            assert await counts(w) == wanted
            await w.delete("poddisruptionbudgets", "b")


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [({"minAvailable": 1}, (3, 1, 3, 2)), ({"minAvailable": "50%"}, (0, 0, 3, 0)), ({"maxUnavailable": 1}, (0, 0, 3, 0))],
)  # fmt: skip
async def test_pods_that_nobody_controls_count_for_a_number_only(spec: Obj, wanted: tuple[int, ...]) -> None:
    async with world(("disruption",)) as w:
        for n in range(3):
            meta = {"name": f"p{n}", "labels": {"app": "web"}}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**POD_SPEC, "nodeName": "n"}}
            await w.create("pods", pod)
            await w.make_ready(f"p{n}")
        await w.create("poddisruptionbudgets", budget(**spec))
        await w.settle(SECOND)
        assert await counts(w) == wanted


async def test_a_budget_learns_of_another_scale_with_the_next_event_of_a_pod() -> None:
    async with world(LOOPS, pods_max=3) as w:
        await w.create("deployments", workload("Deployment", "web", replicas=3))
        await w.settle()
        await w.make_all_ready()
        await w.create("poddisruptionbudgets", budget(maxUnavailable=1))
        await w.settle(SECOND)
        await w.patch("deployments", "web", {"spec": {"replicas": 5}})  # whose pods are refused
        await w.settle(SECOND)
        assert await counts(w) == (3, 2, 3, 1)
        await w.make_ready((await w.names("pods"))[0], False)
        await w.settle(SECOND)
        assert await counts(w) == (5, 4, 2, 0)


async def test_a_pod_whose_eviction_comes_to_nothing_counts_again_after_two_minutes() -> None:
    async with world(LOOPS) as w:
        await w.create("deployments", workload("Deployment", "web", replicas=3))
        await w.settle()
        await w.make_all_ready()
        await w.create("poddisruptionbudgets", budget(maxUnavailable=1))
        await w.settle(SECOND)
        name = (await w.names("pods"))[0]
        granted_us = w.kernel.epoch_us + w.kernel.now_us
        # as an API server leaves it that is killed between its word to the budget and the pod's deletion
        status = {"disruptedPods": {name: format_time(granted_us)}, "disruptionsAllowed": 0}
        await w.patch("poddisruptionbudgets", "b", {"status": status}, "status")
        await w.settle(118 * SECOND)
        assert await counts(w) == (3, 2, 2, 0)
        await w.settle(2 * SECOND)
        assert await counts(w) == (3, 2, 3, 1)
        assert "disruptedPods" not in (await w.get("poddisruptionbudgets", "b"))["status"]
        text = "Pod was expected by PDB default/default to be deleted but it wasn't"
        assert ("NotDeleted", text) in await w.events(name)
