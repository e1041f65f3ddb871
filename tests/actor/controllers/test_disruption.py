"""The disruption controller against the real API server, with the controllers of its pods."""

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
    """(expected pods, desired healthy, current healthy, allowed disruptions) of the budget."""
    status = (await w.get("poddisruptionbudgets", "b"))["status"]
    names = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    expected, desired, healthy, allowed = (status[name] for name in names)
    return expected, desired, healthy, allowed


async def test_budget_percentages_of_both_fields_round_up() -> None:
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
async def test_pods_without_controller_count_only_for_absolute_numbers(
    spec: Obj, wanted: tuple[int, ...]
) -> None:
    async with world(("disruption",)) as w:
        for n in range(3):
            meta = {"name": f"p{n}", "labels": {"app": "web"}}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**POD_SPEC, "nodeName": "n"}}
            await w.create("pods", pod)
            await w.make_ready(f"p{n}")
        await w.create("poddisruptionbudgets", budget(**spec))
        await w.settle(SECOND)
        assert await counts(w) == wanted


async def test_budget_uses_a_changed_scale_at_the_next_pod_event() -> None:
    async with world(LOOPS, pods_max=3) as w:
        await w.create("deployments", workload("Deployment", "web", replicas=3))
        await w.settle()
        await w.make_all_ready()
        await w.create("poddisruptionbudgets", budget(maxUnavailable=1))
        await w.settle(SECOND)
        await w.patch("deployments", "web", {"spec": {"replicas": 5}})  # more pods are rejected
        await w.settle(SECOND)
        assert await counts(w) == (3, 2, 3, 1)
        await w.make_ready((await w.names("pods"))[0], False)
        await w.settle(SECOND)
        assert await counts(w) == (5, 4, 2, 0)


async def test_pod_with_failed_eviction_counts_again_after_two_minutes() -> None:
    async with world(LOOPS) as w:
        await w.create("deployments", workload("Deployment", "web", replicas=3))
        await w.settle()
        await w.make_all_ready()
        await w.create("poddisruptionbudgets", budget(maxUnavailable=1))
        await w.settle(SECOND)
        name = (await w.names("pods"))[0]
        granted_us = w.kernel.epoch_us + w.kernel.now_us
        # The state that an API server leaves if it is killed between the budget and the pod.
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
    """Create a ready pod with a controller of an unknown kind."""
    ref = {"apiVersion": version, "kind": kind, "name": "who", "uid": "u", "controller": True}
    meta = {"name": name, "labels": {"app": "web"}, "ownerReferences": [ref]}
    spec = {**POD_SPEC, "nodeName": "n"}
    await w.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await w.make_ready(name)


async def test_budget_without_pods_allows_no_eviction_and_reports_it() -> None:
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
async def test_unknown_scale_allows_no_eviction(kind: str, version: str, why: str) -> None:
    async with world(("disruption",)) as w:
        await owned(w, "p", kind, version)
        await w.create("poddisruptionbudgets", budget(maxUnavailable=1))
        await w.settle()
        text = f"Failed to calculate the number of expected pods: {why}"
        assert {*await w.events("b")} == {("CalculateExpectedPodCountFailed", text)}
        stored = await w.get("poddisruptionbudgets", "b")
        assert condition(stored) == ("False", "SyncFailed", why)
        assert stored["status"]["disruptionsAllowed"] == 0


async def test_pod_with_two_budgets_queues_one_of_them() -> None:
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
