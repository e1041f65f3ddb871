"""Watches, bookmarks, history and future revisions on whole clusters: known cases, numbered in the
names of the tests, in breadth of timeouts and ages.
"""

from __future__ import annotations

import pytest

from sim.api.types import Reply, Request, Watch
from sim.app.cluster import Cluster
from sim.units import SECOND
from tests.cluster.fixed import workload
from tests.cluster.timing.api.test_timing_api import PATCH, ask, label, pod


class Stream:
    """The events of a watch, and when it ended, in seconds from its start."""

    def __init__(self, cluster: Cluster, watch: Watch) -> None:
        self.told: list[tuple[float, str]] = []
        self.ended: float | None = None
        self._cluster, self._watch = cluster, watch
        self._began_us = cluster.kernel.now_us
        watch.attach(self._read)

    def _read(self) -> None:
        at = (self._cluster.kernel.now_us - self._began_us) / SECOND
        self.told.extend((at, event.type) for event in self._watch.take())
        if self._watch.ended and self.ended is None:
            self.ended = at

    @property
    def marks(self) -> list[float]:
        return [at for at, kind in self.told if kind == "BOOKMARK"]


async def stream(cluster: Cluster, resource: str, **options: str) -> Stream:
    reply = await ask(cluster, "watch", resource, **options)
    assert reply.watch is not None
    return Stream(cluster, reply.watch)


# --- 47: bookmarks --------------------------------------------------------------------------------


@pytest.mark.parametrize(("timeout", "minutes"), [(30, 0), (60, 0), (90, 1), (130, 2), (200, 3), (600, 9)])
async def test_47_bookmarks_come_once_a_minute_and_two_seconds_before_the_end(
    timeout: int, minutes: int
) -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("30s")
        found = await stream(cluster, "pods", allowWatchBookmarks="true", timeoutSeconds=str(timeout))
        await cluster.run_for((timeout + 5) * SECOND)
        assert len(found.marks) == minutes + 1
        for number, at in enumerate(found.marks[:-1], 1):
            assert number * 59 <= at <= number * 62.3
        assert timeout - 3 <= found.marks[-1] <= timeout - 0.5
        assert found.ended is not None and abs(found.ended - timeout) <= 0.1
        assert "ERROR" not in {kind for _, kind in found.told}


async def test_47_no_bookmarks_come_without_request_or_without_an_event() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("30s")
        plain = await stream(cluster, "pods", timeoutSeconds="130")
        other = await stream(cluster, "replicasets", allowWatchBookmarks="true", timeoutSeconds="130")
        await cluster.run_for("140s")
        assert plain.ended is not None and not plain.marks
        assert other.ended is not None and not other.marks


async def test_47_bookmarks_of_an_idle_resource_begin_with_the_progress_of_the_storage() -> None:
    """Ten minutes after the server's start (etcd's interval); what is not cached has no bookmarks
    at all.
    """
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("500s")
        began = cluster.kernel.now_us / SECOND
        quiet = await stream(cluster, "replicasets", allowWatchBookmarks="true", timeoutSeconds="300")
        events = await stream(cluster, "events", allowWatchBookmarks="true", timeoutSeconds="300")
        await cluster.run_for("310s")
        assert quiet.marks and min(quiet.marks) + began > 600
        assert max(quiet.marks) <= 299.5 and len(quiet.marks) in (3, 4)
        assert events.ended == pytest.approx(300, abs=0.1) and events.told and not events.marks


async def test_47_a_watch_without_a_timeout_ends_after_half_an_hour_to_an_hour() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        await cluster.run_for("30s")
        found = [await stream(cluster, "pods") for _ in range(12)]
        await cluster.run_for("3610s")
        ended = [each.ended for each in found if each.ended is not None]
        assert len(ended) == 12
        assert all(1800 <= at <= 3600.1 for at in ended)
        assert max(ended) - min(ended) > 600
        assert all("ERROR" not in {kind for _, kind in each.told} for each in found)


# --- 45: history ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("age", "code"), [(60, 200), (299, 200), (601, 410), (900, 410)])
async def test_45_history_is_kept_for_five_minutes_and_gone_after_ten(age: int, code: int) -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("400s")
        old = (await ask(cluster, "list", "pods")).revision
        label(cluster, "pods", "default", "a", "x")
        await cluster.run_for(age * SECOND)
        options = {"resourceVersion": str(old), "resourceVersionMatch": "Exact"}
        reply = await ask(cluster, "list", "pods", **options)
        assert reply.code == code
        if code == 410:
            assert reply.reason == "Expired"
        else:
            assert [item.obj["metadata"].get("labels") for item in reply.items or ()] == [None]


async def test_45_a_restarted_server_knows_no_events_from_before() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("30s")
        old = (await ask(cluster, "list", "pods")).revision
        for turn in range(3):
            label(cluster, "pods", "default", "a", str(turn))
        before = await stream(cluster, "pods", resourceVersion=str(old))
        await cluster.run_for("1s")
        assert [kind for _, kind in before.told] == ["MODIFIED"] * 3
        cluster.supervisor["apiserver-0"].crash("killed")
        cluster.supervisor["apiserver-0"].start()
        await cluster.run_for("10s")
        assert before.ended is not None
        after = await stream(cluster, "pods", resourceVersion=str(old))
        await cluster.run_for("1s")
        assert [kind for _, kind in after.told] == ["ERROR"] and after.ended is not None
        fresh = await stream(cluster, "pods", resourceVersion="0")
        await cluster.run_for("1s")
        assert [kind for _, kind in fresh.told] == ["ADDED"] and fresh.ended is None


# --- 49: revisions to come ------------------------------------------------------------------------


@pytest.mark.parametrize("comes_after", [0.5, 2.5])
async def test_49_a_list_waits_for_a_revision_that_comes_within_three_seconds(comes_after: float) -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(pod("a"))
        await cluster.run_for("31s")
        now = int((await ask(cluster, "list", "pods")).revision)
        replies: list[Reply] = []
        request = Request(
            verb="list", resource="pods", options={"resourceVersion": str(now + 1)}, user=cluster.admin_user
        )
        cluster.kernel.call_later(
            0, lambda _: cluster.api_servers["apiserver-0"].handle(request, replies.append)
        )
        began_us = cluster.kernel.now_us
        await cluster.run_for(int(comes_after * SECOND))
        assert not replies
        label(cluster, "pods", "default", "a", "x")
        assert await cluster.run_while(lambda: not replies, "1s", SECOND // 100)
        assert replies[0].code == 200
        assert (cluster.kernel.now_us - began_us) / SECOND <= comes_after + 0.2


# --- 50, 51, 52: deletion -------------------------------------------------------------------------


async def test_51_watch_reports_a_deletion_once_with_a_revision_of_its_own() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(pod("a", nodeName="node-0"))
        await cluster.run_for("30s")
        found = await stream(cluster, "pods")
        await cluster.run_for("1s")
        assert cluster.request("delete", "pods", "default", "a").ok
        await cluster.run_for("10s")
        kinds = [kind for _, kind in found.told]
        assert kinds[0] == "ADDED" and kinds[-1] == "DELETED"
        assert kinds.count("DELETED") == 1 and set(kinds[1:-1]) == {"MODIFIED"}


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_51_the_policy_decides_what_becomes_of_dependents(policy: str) -> None:
    async with Cluster(nodes=2, seed=1) as cluster:
        cluster.apply(workload("ReplicaSet", "web", 2))
        await cluster.run_for("30s")
        options = {"propagationPolicy": policy}
        assert cluster.request("delete", "replicasets", "default", "web", options=options).ok
        at_once = cluster.get("replicasets", "web")
        if policy == "Background":
            assert at_once is None
        else:
            assert at_once is not None
            wanted = "foregroundDeletion" if policy == "Foreground" else "orphan"
            assert at_once["metadata"]["finalizers"] == [wanted]
        await cluster.run_for("20s")
        assert cluster.get("replicasets", "web") is None
        left = cluster.list("pods")
        assert len(left) == (2 if policy == "Orphan" else 0)
        assert not any(each["metadata"].get("ownerReferences") for each in left)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_52_a_finished_pod_goes_at_once(phase: str) -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(pod("a", nodeName="node-0"))
        await cluster.run_for("30s")
        body = {"status": {"phase": phase}}
        reply = cluster.request(
            "patch", "pods", "default", "a", subresource="status", body=body, content_type=PATCH
        )
        assert reply.ok
        assert cluster.request("delete", "pods", "default", "a").ok
        assert cluster.get("pods", "a") is None
