"""Writes of much content: they are done aside, beside reads of other clients, and a replay agrees."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio

from actors.apiserver.lifecycle.sizes import LARGE
from actors.apiserver.lifecycle.stepwise import Straight
from sim import pauses
from sim.kernel import Operation
from tests.actor.test_http import MAPS, config_map, served

PATIENCE_S = 20.0


def large(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"k": "v" * (LARGE + 1)}}


async def test_get_is_answered_while_a_large_create_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, answered = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()
    advance = Straight.advance

    def held(self: Straight, answer: Any) -> Any:
        token.run_sync_soon(begun.set)
        assert answered.wait(PATIENCE_S)
        return advance(self, answer)

    monkeypatch.setattr(Straight, "advance", held)
    async with served(pace=1) as (cluster, client):
        cluster.kernel.aside.threads = trio.CapacityLimiter(1)
        codes = []

        async def create() -> None:
            codes.append((await client.post(MAPS, json=large("a"))).status_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(create)
            await begun.wait()
            assert (await client.get(f"{MAPS}/a")).status_code == 404
            assert codes == []
            answered.set()
        assert codes == [201]
        assert (await client.get(f"{MAPS}/a")).status_code == 200


async def test_small_patch_of_a_large_object_is_done_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    advance = Straight.advance

    def seen(self: Straight, answer: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return advance(self, answer)

    monkeypatch.setattr(Straight, "advance", seen)
    label = {"metadata": {"labels": {"a": "b"}}}
    merge = {"Content-Type": "application/merge-patch+json"}
    async with served() as (cluster, client):
        cluster.kernel.aside.threads = trio.CapacityLimiter(1)
        for obj, aside in ((config_map("small"), False), (large("large"), True)):
            assert (await client.post(MAPS, json=obj)).status_code == 201
            threads.clear()
            at = f"{MAPS}/{obj['metadata']['name']}"
            assert (await client.patch(at, json=label, headers=merge)).status_code == 200
            assert bool(threads) is aside
            assert True not in threads
        await client.delete(f"{MAPS}/large")
        await client.post(MAPS, json=config_map("large"))
        threads.clear()
        assert (await client.patch(f"{MAPS}/large", json=label, headers=merge)).status_code == 200
        assert threads == []


async def test_write_of_another_client_is_done_between_the_parts_of_a_large_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, going = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()
    advance = Straight.advance

    def held(self: Straight, answer: Any) -> Any:
        token.run_sync_soon(begun.set)
        assert going.wait(PATIENCE_S)
        return advance(self, answer)

    monkeypatch.setattr(Straight, "advance", held)
    async with served() as (cluster, client):
        cluster.kernel.aside.threads = trio.CapacityLimiter(1)

        async def create(obj: dict[str, Any]) -> None:
            assert (await client.post(MAPS, json=obj)).status_code == 201

        async with trio.open_nursery() as nursery:
            nursery.start_soon(create, large("large"))
            await begun.wait()
            nursery.start_soon(create, config_map("small"))
            while not cluster.kernel.gate.waiting:
                await trio.lowlevel.checkpoint()
            going.set()
        listed = (await client.get(MAPS)).json()["items"]
        revisions = {each["metadata"]["name"]: int(each["metadata"]["resourceVersion"]) for each in listed}
        assert revisions["small"] < revisions["large"]


async def test_journal_with_large_requests_replays_to_the_same_trace() -> None:
    async def record(replay: list[Operation] | None) -> tuple[str, list[Operation]]:
        async with served(replay=replay) as (cluster, client):
            kernel = cluster.kernel
            if replay is None:
                kernel.aside.threads = trio.CapacityLimiter(1)
                async with trio.open_nursery() as nursery:
                    for n in range(6):
                        obj = large(f"a{n}") if n % 2 else config_map(f"a{n}")
                        nursery.start_soon(lambda obj: client.post(MAPS, json=obj), obj)
                        nursery.start_soon(client.get, f"{MAPS}/a{n}")
                await client.put(f"{MAPS}/a1", json=large("a1") | {"immutable": True})
            kernel.set_rate(float("inf"))
            await kernel.run_until(1_000_000)
            return kernel.trace.sha256(), list(kernel.gate.journal)

    recorded, journal = await record(None)
    replayed, _ = await record(journal)
    assert replayed == recorded


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RULED = "/apis/a.io/v1/namespaces/default/ruleds"
NUMBERS = 3_000


def definition_with_rules() -> dict[str, Any]:
    rules = [{"rule": f"self.a.all(x, x >= {-n})"} for n in range(10)]
    numbers = {"type": "array", "items": {"type": "integer"}, "maxItems": NUMBERS}
    spec = {"type": "object", "properties": {"a": numbers}, "x-kubernetes-validations": rules}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "ruleds", "kind": "Ruled"}
    return {
        "metadata": {"name": "ruleds.a.io"},
        "spec": {"group": "a.io", "names": names, "scope": "Namespaced", "versions": [version]},
    }


def with_rules(name: str) -> dict[str, Any]:
    head = {"apiVersion": "a.io/v1", "kind": "Ruled", "metadata": {"name": name}}
    return {**head, "spec": {"a": [*range(NUMBERS)]}}


async def test_parts_of_one_step_let_others_write_and_replay_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules are one step; other writes come between its parts, at the same places in a replay."""
    applied = {"Content-Type": "application/apply-patch+yaml"}

    async def record(replay: list[Operation] | None) -> tuple[str, int, list[Operation], list[str]]:
        order: list[str] = []
        async with served(replay=replay) as (cluster, client):
            kernel = cluster.kernel
            if replay is None:
                kernel.aside.threads = trio.CapacityLimiter(1)
                assert (await client.post(DEFINITIONS, json=definition_with_rules())).status_code == 201
                kernel.set_rate(float("inf"))
                await kernel.run_until(5_000_000)
                kernel.set_rate(0)

                async def create(path: str, obj: dict[str, Any]) -> None:
                    assert (await client.post(path, json=obj)).status_code == 201
                    order.append(obj["metadata"]["name"])

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(create, RULED, with_rules("large"))
                    while not kernel.aside.jobs:
                        await trio.lowlevel.checkpoint()
                    for n in range(8):
                        nursery.start_soon(create, MAPS, config_map(f"small{n}"))
                        nursery.start_soon(client.get, f"{RULED}/large")
                at = f"{RULED}/large?fieldManager=m"
                response = await client.patch(at, json=with_rules("large"), headers=applied)
                assert response.status_code == 200, response.text
            kernel.set_rate(float("inf"))
            await kernel.run_until(10_000_000)
            return kernel.trace.sha256(), kernel.steps, list(kernel.gate.journal), order

    rests, rest = [0], pauses.Parts.rest

    def counted(self: pauses.Parts) -> None:
        rests[0] += 1
        rest(self)

    monkeypatch.setattr(pauses.Parts, "rest", counted)
    monkeypatch.setattr(pauses, "PART_US", 2_000)
    recorded, steps, journal, order = await record(None)
    assert order[-1] == "large"
    assert rests[0] > 20  # within the rules, among others
    replayed, again, _, _ = await record(journal)
    assert (replayed, again) == (recorded, steps)
