"""Watches and retries on whole clusters: known timing cases, numbered in the names of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from sim.api.types import Reply, Request, WatchEvent
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.units import MS, SECOND
from tests.cluster.fixed import container

PATCH = "application/merge-patch+json"


async def ask(cluster: Cluster, verb: str, resource: str, **options: str) -> Reply:
    """What an API server answers, in its own time; within 5 s."""
    replies: list[Reply] = []
    known = cluster.scheme.resource(resource)
    request = Request(
        verb=verb,
        resource=known.plural,
        group=known.group,
        version=known.version,
        options=options,
        user=cluster.admin_user,
    )
    server = cluster.api_servers["apiserver-0"]
    cluster.kernel.call_later(0, lambda _: server.handle(request, replies.append))
    assert await cluster.run_while(lambda: not replies, "5s", 10 * MS)
    return replies[0]


def pod(name: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container()], **spec},
    }


def label(cluster: Cluster, resource: str, namespace: str, name: str, value: str) -> None:
    body = {"metadata": {"labels": {"turn": value}}}
    reply = cluster.request("patch", resource, namespace, name, body=body, content_type=PATCH)
    assert reply.ok, reply.message


async def test_45_a_watch_from_before_the_cache_window_gets_one_expired_error_and_ends() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("30s")
        old = (await ask(cluster, "list", "pods")).revision
        # a ring of 100, which grows only while its oldest event is younger than 75 s
        for turn in range(130):
            label(cluster, "pods", "default", "a", str(turn))
            await cluster.run_for("1s")
        reply = await ask(cluster, "watch", "pods", resourceVersion=str(old))
        assert reply.code == 200
        assert reply.watch is not None
        told: list[WatchEvent] = []
        watch = reply.watch
        watch.attach(lambda: told.extend(watch.take()))
        await cluster.run_for("1s")
        assert [event.type for event in told] == ["ERROR"]
        assert told[0].status is not None
        assert (told[0].status["code"], told[0].status["reason"]) == (410, "Expired")
        assert watch.ended


async def test_45_list_cannot_continue_after_compaction_but_gets_a_new_token() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(*(pod(name) for name in "abcd"))
        await cluster.run_for("30s")
        first = await ask(cluster, "list", "pods", limit="2")
        assert first.more
        label(cluster, "pods", "default", "d", "x")
        cluster.compact()
        await cluster.run_for("1s")
        reply = await ask(cluster, "list", "pods", limit="2", **{"continue": first.more})
        assert reply.code == 410
        assert reply.reason == "Expired"
        again = reply.body["metadata"]["continue"]
        rest = await ask(cluster, "list", "pods", limit="2", **{"continue": again})
        assert [item.obj["metadata"]["name"] for item in rest.items or ()] == ["c", "d"]


async def test_47_bookmarks_come_each_minute_and_shortly_before_the_end() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("30s")
        began_us = cluster.kernel.now_us
        reply = await ask(cluster, "watch", "pods", allowWatchBookmarks="true", timeoutSeconds="300")
        assert reply.watch is not None
        watch = reply.watch
        told: list[tuple[float, str]] = []
        ended: list[float] = []

        def read() -> None:
            at = (cluster.kernel.now_us - began_us) / SECOND
            told.extend((at, event.type) for event in watch.take())
            if watch.ended:
                ended.append(at)

        watch.attach(read)
        await cluster.run_for("310s")
        marks = [at for at, kind in told if kind == "BOOKMARK"]
        assert len(marks) == 5
        for number, at in enumerate(marks[:4], 1):
            assert number * 59 <= at <= number * 62.4
        assert 297 <= marks[4] <= 299.5
        assert all(kind != "ERROR" for _, kind in told)
        assert len(ended) == 1
        assert abs(ended[0] - 300) <= 0.1


class Attempts:
    """When the scheduler tried a pod in vain, and when it found a node for one."""

    def __init__(self, cluster: Cluster) -> None:
        self.failed: list[float] = []
        self.placed: list[float] = []
        trace = cluster.kernel.trace
        trace.listen(trace.kind("schedule", "pod", "node", "message"), self._see)

    def _see(self, _: int, at_us: int, __: int, values: Sequence[Any]) -> None:
        (self.placed if values[1] else self.failed).append(at_us / SECOND)


BIG = pod("big", containers=[{**container(), "resources": {"requests": {"cpu": "64"}}}])


async def test_60_an_unschedulable_pod_is_tried_again_after_five_minutes() -> None:
    async with Cluster(nodes=3, seed=1) as cluster:
        attempts = Attempts(cluster)
        await cluster.run_for("400s")  # nodes report at 300 s, which is no event for the pod
        cluster.apply(BIG)
        await cluster.run_for("340s")
        assert len(attempts.failed) == 2
        assert 300 < attempts.failed[1] - attempts.failed[0] <= 331
        assert not attempts.placed


async def test_60_a_new_node_lets_an_unschedulable_pod_be_tried_at_once() -> None:
    async with Cluster(nodes=3, seed=1) as cluster:
        attempts = Attempts(cluster)
        await cluster.run_for("60s")
        cluster.apply(BIG)
        await cluster.run_for("20s")
        added = cluster.kernel.now_us / SECOND
        cluster.add_node(
            replace(plain_nodes(1)[0], name="huge", capacity={"cpu": "96", "memory": "1Ti", "pods": "110"})
        )
        await cluster.run_for("10s")
        assert attempts.placed
        assert attempts.placed[0] - added <= 1.5


async def test_60_tries_under_constant_events_are_spaced_by_a_doubling_back_off() -> None:
    async with Cluster(nodes=3, seed=1) as cluster:
        attempts = Attempts(cluster)
        names = [f"small-{number}" for number in range(120)]
        cluster.apply(*(pod(name, nodeName=f"node-{number % 2}") for number, name in enumerate(names)))
        await cluster.run_for("60s")
        cluster.apply(BIG)
        for name in names:  # a pod that goes makes room: an event for all that did not fit
            assert cluster.request("delete", "pods", "default", name, options={"gracePeriodSeconds": "0"}).ok
            await cluster.run_for("400ms")
        assert not attempts.placed
        gaps = [later - earlier for earlier, later in pairwise(attempts.failed)]
        assert len(gaps) >= 6
        for gap, least in zip(gaps, (1, 2, 4, 8, 10, 10), strict=False):
            # the queue is looked at each second, and an event must come
            assert least <= gap <= least + 1.5
