"""Requests on a slow storage: the number of operations of each, and the outcome of conflicts.

An operation takes 400 ms here, and one or two more as any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.apiserver.options import ApiServerOptions
from sim.api.store import Delete, Item, Put
from sim.api.types import Reply
from sim.units import MS, SECOND
from tests.actor.apiserver.cluster import SCHEME, Plane, lease, plane, request
from tests.actor.apiserver.test_verbs import POD, bound_pod, budget, evict

SLOW_US = 400 * MS
OPTIONS = ApiServerOptions(disabled_admission=("ServiceAccount",))
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


def config(name: str = "c", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class Sent:
    """Requests sent at one instant, and when each was answered, in operations."""

    def __init__(self, p: Plane) -> None:
        self._plane = p
        self._began_us = p.kernel.now_us
        self.replies: list[tuple[float, Reply]] = []

    def send(self, verb: str, resource: str, name: str = "", **more: Any) -> None:
        def told(reply: Reply) -> None:
            took_us = self._plane.kernel.now_us - self._began_us
            self.replies.append((took_us / (SLOW_US + 1.5 * MS), reply))

        self._plane.server.handle(request(verb, resource, "default", name, **more), told)

    @property
    def took(self) -> list[int]:
        return [round(took) for took, _ in self.replies]

    @property
    def codes(self) -> list[int]:
        return [reply.code for _, reply in self.replies]


def change(p: Plane, resource: str, name: str, fn: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Writes to the storage directly, past every API server."""
    store, key = p.storage.store, SCHEME.key(resource, "default", name)
    item = store.get(key)
    assert item is not None
    changed = fn(item.obj)
    changed = {**changed, "metadata": {**changed["metadata"]}}  # it is stamped where it is
    assert isinstance(store.apply(Put(key, changed, item.rev, item.managed)), Item)


def labelled(value: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": {"app": "web", "turn": value}}}


async def test_what_a_request_costs() -> None:
    """A write is made from what the cache shows (cacher.go, GuaranteedUpdate); what it refuses is
    read again first.
    """
    async with plane(1, OPTIONS) as p:
        await bound_pod(p, "a")
        await p.ask("create", "pods", body={**POD, "metadata": {"name": "free"}})
        await p.ask("create", "configmaps", body=config(a="1"))
        await p.ask("create", "configmaps", body=config("other", a="1"))
        held = await p.ask("create", "leases", body=lease("l"))
        same = await p.ask("get", "configmaps", name="c")
        p.storage.extra_us = SLOW_US
        ready = {"status": {"phase": "Running", "message": "m"}}
        target = {"metadata": {"name": "free"}, "target": {"kind": "Node", "name": "n2"}}
        costs: list[tuple[int, int, tuple[Any, ...], dict[str, Any]]] = [
            (1, 200, ("get", "pods", "a"), {}),
            (1, 200, ("list", "pods"), {}),
            (1, 201, ("create", "configmaps"), {"body": config("new")}),
            (1, 200, ("patch", "configmaps", "c"), {"body": {"data": {"a": "2"}}, "content_type": MERGE}),
            (1, 200, ("patch", "pods", "a"), {"body": ready, "content_type": MERGE, "subresource": "status"}),
            (1, 201, ("create", "pods", "free"), {"body": target, "subresource": "binding"}),
            (1, 200, ("update", "leases", "l"), {"body": {**held.obj, "spec": {"leaseTransitions": 3}}}),
            (1, 409, ("update", "configmaps", "c"), {"body": same.obj}),
            (1, 404, ("patch", "configmaps", "none"), {"body": {}, "content_type": MERGE}),
            (1, 200, ("patch", "configmaps", "c"), {"body": {"data": {"a": "2"}}, "content_type": MERGE}),
            (2, 201, ("patch", "configmaps", "made"), {"body": config("made"), "content_type": APPLY, "options": {"fieldManager": "m"}}),
            (1, 200, ("patch", "configmaps", "made"), {"body": config("made", b="1"), "content_type": APPLY, "options": {"fieldManager": "m"}}),
            (2, 200, ("delete", "configmaps", "other"), {}),
            (4, 201, ("create", "pods", "a"), {"body": {"metadata": {"name": "a"}}, "subresource": "eviction"}),
            (3, 200, ("delete", "pods", "a"), {"options": {"gracePeriodSeconds": "0"}}),
        ]  # fmt: skip
        for operations, code, asked, more in costs:
            sent = Sent(p)
            sent.send(*asked, **more)
            await p.run(10 * SECOND)
            assert (sent.took, sent.codes) == ([operations], [code]), asked


async def test_writes_that_meet_go_round_until_all_are_done() -> None:
    """Of those that ask for no revision each wins one round; what it lost to comes with the
    refusal.
    """
    async with plane(1, OPTIONS) as p:
        await p.ask("create", "configmaps", body=config(a="1"))
        p.storage.extra_us = SLOW_US
        sent = Sent(p)
        for number in range(8):
            body = {"data": {f"k{number}": "1"}}
            sent.send("patch", "configmaps", "c", body=body, content_type=MERGE)
        for number in range(4):
            sent.send("update", "configmaps", "c", body=config(whole=str(number)))
        await p.run(20 * SECOND)
        assert sent.codes == [200] * 12 and sent.took == [*range(1, 13)]
        assert (
            len({reply.revision or reply.obj["metadata"]["resourceVersion"] for _, reply in sent.replies})
            == 12
        )


async def test_of_writes_at_one_revision_one_wins_and_the_others_know_at_once() -> None:
    async with plane(1, OPTIONS) as p:
        made = await p.ask("create", "configmaps", body=config(a="1"))
        p.storage.extra_us = SLOW_US
        sent = Sent(p)
        for number in range(5):
            sent.send("update", "configmaps", "c", body={**made.obj, "data": {"b": str(number)}})
        await p.run(20 * SECOND)
        assert sorted(sent.codes) == [200, 409, 409, 409, 409] and sent.took == [1] * 5


async def test_a_cache_that_lags_changes_no_answer() -> None:
    """A write that conflicts succeeds if the stored object is the wanted one. A revision that the
    cache does not have is read from the storage.
    """
    async with plane(1, OPTIONS) as p:
        await p.ask("create", "configmaps", body=config(a="1"))
        await p.run(SECOND)
        p.server.trail.lag(60 * SECOND)
        newest = await p.ask("patch", "configmaps", name="c", body={"data": {"b": "1"}}, content_type=MERGE)
        p.storage.extra_us = SLOW_US
        sent = Sent(p)
        sent.send("patch", "configmaps", "c", body={"data": {"b": "1"}}, content_type=MERGE)
        await p.run(5 * SECOND)
        assert (sent.took, sent.codes) == ([1], [200])
        assert (
            sent.replies[0][1].obj["metadata"]["resourceVersion"] == newest.obj["metadata"]["resourceVersion"]
        )
        sent = Sent(p)
        sent.send("update", "configmaps", "c", body={**newest.obj, "data": {"d": "1"}})
        await p.run(5 * SECOND)
        assert (sent.took, sent.codes) == ([2], [200])


async def test_an_unready_pod_that_becomes_ready_is_not_evicted_outside_of_its_budget() -> None:
    for turns in (False, True):
        async with plane(1, OPTIONS) as p:
            await bound_pod(p, "a", ready=False)
            await budget(p, 0, 2)
            p.storage.extra_us = SLOW_US
            sent = Sent(p)
            sent.send("create", "pods", "a", body={"metadata": {"name": "a"}}, subresource="eviction")
            await p.run(SLOW_US + SLOW_US // 2)
            if turns:
                status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                change(p, "pods", "a", lambda pod, status=status: {**pod, "status": status})  # type: ignore[misc]
            await p.run(10 * SECOND)
            assert sent.codes == ([429] if turns else [201])
            if turns:
                assert sent.replies[0][1].headers["Retry-After"] == "10"


async def test_a_pending_pod_that_changes_is_evicted_as_what_it_has_become() -> None:
    """Half a second after the conflict the pod is read again: it is still pending, or it is running
    and the budget decides.
    """
    for runs in (False, True):
        async with plane(1, OPTIONS) as p:
            await p.ask("create", "pods", body={**POD, "metadata": {**POD["metadata"], "name": "a"}})
            await budget(p, 0, 2)
            p.storage.extra_us = SLOW_US
            sent = Sent(p)
            sent.send("create", "pods", "a", body={"metadata": {"name": "a"}}, subresource="eviction")
            await p.run(SLOW_US + SLOW_US // 2)
            change(p, "pods", "a", labelled("1"))
            if runs:
                status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                change(p, "pods", "a", lambda pod, status=status: {**pod, "status": status})  # type: ignore[misc]
            await p.run(10 * SECOND)
            ((took, reply),) = sent.replies
            assert reply.code == (429 if runs else 201)
            # a read twice, a pause, and once more the read; then a read and the two writes of its
            # end, or the budgets
            operations = 4 if runs else 6
            took_us = took * (SLOW_US + 1.5 * MS)
            assert 500 * MS <= took_us - operations * SLOW_US <= 570 * MS


async def test_pod_that_ends_between_the_two_writes_of_its_deletion_is_deleted() -> None:
    async with plane(1, OPTIONS) as p:
        await bound_pod(p, "a")
        p.storage.extra_us = SLOW_US
        sent = Sent(p)
        sent.send("delete", "pods", "a", options={"gracePeriodSeconds": "0"})
        await p.run(2 * SLOW_US + SLOW_US // 2)
        assert isinstance(p.storage.store.apply(Delete(SCHEME.key("pods", "default", "a"), None)), Item)
        await p.run(10 * SECOND)
        ((_, reply),) = sent.replies
        assert reply.code == 200 and reply.obj["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_eviction_with_an_ever_changing_budget_ends_after_twenty_tries() -> None:
    async with plane(1, OPTIONS) as p:
        await bound_pod(p, "a")
        await budget(p, 1, 3)
        p.storage.extra_us = SLOW_US
        sent = Sent(p)
        sent.send("create", "pods", "a", body={"metadata": {"name": "a"}}, subresource="eviction")
        turn = 0
        while not sent.replies:
            await p.run(100 * MS)
            turn += 1
            change(p, "poddisruptionbudgets", "b", labelled(str(turn)))
        ((took, reply),) = sent.replies
        assert (reply.code, reply.headers["Retry-After"]) == (504, "10")
        # pod and budgets are read, then twenty writes, with a pause and a read between two
        pauses_us = took * (SLOW_US + 1.5 * MS) - (2 + 20 + 19) * (SLOW_US + 1.5 * MS)
        assert 19 * 490 * MS <= pauses_us <= 19 * 560 * MS
        p.storage.extra_us = 0
        assert (await evict(p, "a")).code == 201
