"""The budget loop against the real API server, with the loops that make the pods it counts."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.types import Obj
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


def condition(stored: Obj) -> tuple[str, str, str]:
    (found,) = stored["status"]["conditions"]
    return found["status"], found["reason"], found["message"]


async def owned(w: World, name: str, kind: str, version: str) -> None:
    """A ready pod whose controller is nobody known."""
    ref = {"apiVersion": version, "kind": kind, "name": "who", "uid": "u", "controller": True}
    meta = {"name": name, "labels": {"app": "web"}, "ownerReferences": [ref]}
    spec = {**POD_SPEC, "nodeName": "n"}
    await w.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await w.make_ready(name)


async def test_a_budget_without_pods_allows_nothing_and_says_so() -> None:
    async with world(LOOPS) as w:
        await w.create("poddisruptionbudgets", budget(minAvailable=0))
        await w.settle()
        assert {*await w.events("b")} == {("NoPods", "No matching pods found")}
        assert await counts(w) == (0, 0, 0, 0)
        stored = await w.get("poddisruptionbudgets", "b")
        assert condition(stored) == ("False", "InsufficientPods", "")


@pytest.mark.parametrize(
    ("kind", "version", "why"),
    [
        ("Odd", "x.io/v1", 'no matches for kind "Odd" in version "x.io/v1"'),
        ("DaemonSet", "apps/v1", "daemonsets.apps does not implement the scale subresource"),
        ("ReplicaSet", "apps/v1", 'found no controllers for pod "p"'),
        ("Job", "batch/v1", "jobs.batch does not implement the scale subresource"),
    ],
)
async def test_where_the_scale_is_not_known_nothing_is_allowed(kind: str, version: str, why: str) -> None:
    async with world(("disruption",)) as w:
        await owned(w, "p", kind, version)
        await w.create("poddisruptionbudgets", budget(maxUnavailable=1))
        await w.settle()
        text = f"Failed to calculate the number of expected pods: {why}"
        assert {*await w.events("b")} == {("CalculateExpectedPodCountFailed", text)}
        stored = await w.get("poddisruptionbudgets", "b")
        assert condition(stored) == ("False", "SyncFailed", why)
        assert stored["status"]["disruptionsAllowed"] == 0


async def test_of_two_budgets_of_a_pod_one_is_told_of_it() -> None:
    async with world(LOOPS) as w:
        await w.create("poddisruptionbudgets", budget(minAvailable=1))
        second = budget(minAvailable=1)
        second["metadata"]["name"] = "c"
        await w.create("poddisruptionbudgets", second)
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=1))
        await w.settle()
        (name,) = await w.names("pods")
        await w.make_ready(name)
        await w.settle()
        text = f'Pod "default"/"{name}" matches multiple PodDisruptionBudgets.  Chose "b" arbitrarily.'
        assert {*await w.events(name)} == {("MultiplePodDisruptionBudgets", text)}
        healthy = [(await w.get("poddisruptionbudgets", n))["status"]["currentHealthy"] for n in "bc"]
        assert healthy == [1, 0]
