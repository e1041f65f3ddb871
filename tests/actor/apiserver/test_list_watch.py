"""Lists and watches: resource version tables, expiry, bookmarks, lag (timing cases 45, 47, 49)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.apiserver.options import ApiServerOptions
from sim.api.store import Item
from sim.api.types import Reply
from tests.actor.apiserver.cluster import ADMIN, SCHEME, USER, Plane, Seen, lease, plane, request

S = 1_000_000


def names(reply: Reply) -> list[str]:
    assert reply.items is not None, reply
    return [item.obj["metadata"]["name"] for item in reply.items]


async def make(p: Plane, *leases: str) -> list[str]:
    """Make leases; their revisions."""
    return [
        (await p.ask("create", "leases", body=lease(n))).obj["metadata"]["resourceVersion"] for n in leases
    ]


async def listed(p: Plane, **options: Any) -> Reply:
    return await p.ask("list", "leases", options=options)


async def test_pages_show_one_revision_though_objects_change_in_between() -> None:
    async with plane() as p:
        await make(p, "a", "b", "c", "d", "e")
        first = await listed(p, limit=2)
        assert (names(first), first.remaining) == (["a", "b"], 3)
        await p.ask("delete", "leases", name="d")
        await make(p, "cc")
        second = await listed(p, **{"limit": 2, "continue": first.more})
        third = await listed(p, **{"limit": 2, "continue": second.more})
        assert (names(second), names(third), third.more) == (["c", "d"], ["e"], "")
        assert first.revision == second.revision == third.revision


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["a", "b", "c"]),
        ({"resourceVersion": "0"}, ["a", "b", "c"]),
        ({"resourceVersion": "0", "limit": "1"}, ["a", "b", "c"]),
        ({"resourceVersion": "a"}, ["a", "b", "c"]),
        ({"resourceVersion": "a", "limit": "2"}, ["a"]),
        ({"resourceVersion": "a", "resourceVersionMatch": "Exact"}, ["a"]),
        ({"resourceVersion": "b", "resourceVersionMatch": "Exact", "limit": "1"}, ["a"]),
        ({"resourceVersion": "a", "resourceVersionMatch": "NotOlderThan"}, ["a", "b", "c"]),
        ({"resourceVersion": "a", "resourceVersionMatch": "NotOlderThan", "limit": "2"}, ["a", "b"]),
        ({"limit": "-1"}, ["a", "b", "c"]),
    ],
)
async def test_a_list_is_answered_at_the_revision_its_options_ask_for(
    options: dict[str, str], expected: list[str]
) -> None:
    async with plane() as p:
        revisions = dict(zip("abc", await make(p, "a", "b", "c"), strict=True))
        await p.run(S)
        rev = options.get("resourceVersion", "")
        asked = {**options, "resourceVersion": revisions.get(rev, rev)} if rev else options
        assert names(await listed(p, **asked)) == expected


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422),
        ({"resourceVersionMatch": "bogus", "resourceVersion": "5"}, 422),
        ({"resourceVersion": "abc"}, 500),
        ({"resourceVersion": "abc", "limit": "1"}, 400),
        ({"resourceVersion": "999999", "limit": "1"}, 500),
        ({"limit": "x"}, 400),
        ({"continue": "zzz"}, 400),
        ({"labelSelector": "a b"}, 400),
        ({"fieldSelector": "spec.x=1"}, 400),
    ],
)
async def test_a_list_with_bad_options_is_refused(options: dict[str, str], code: int) -> None:
    async with plane() as p:
        await make(p, "a")
        assert (await listed(p, **options)).code == code


async def test_a_list_at_a_future_revision_waits_three_seconds_and_says_so() -> None:
    async with plane() as p:
        await make(p, "a")
        start = p.kernel.now_us
        reply = await listed(p, resourceVersion=999999)
        assert 3 * S <= p.kernel.now_us - start <= 3.2 * S
        assert (reply.code, reply.reason, reply.headers) == (504, "Timeout", {"Retry-After": "1"})
        assert reply.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
        watch = await p.ask("watch", "leases", options={"resourceVersion": 999999})
        seen = Seen(p.kernel, watch.watch)
        await p.run(S)
        assert watch.code == 200 and seen.events == [] and seen.ended_us is None


async def test_a_list_waits_for_a_revision_that_arrives_in_time() -> None:
    async with plane(options=ApiServerOptions(cache_lag_us=S)) as p:
        (rev,) = await make(p, "a")
        assert names(await listed(p, resourceVersion=0)) == []
        assert names(await listed(p, resourceVersion=rev)) == ["a"]


async def test_a_watch_shows_what_enters_changes_and_leaves_its_selector() -> None:
    async with plane() as p:
        opened = await p.ask("watch", "configmaps", options={"labelSelector": "c=red"})
        seen = Seen(p.kernel, opened.watch)
        merge = "application/merge-patch+json"
        made = await p.ask("create", "configmaps", body={"metadata": {"name": "m", "labels": {"c": "blue"}}})
        for labels in ({"c": "red"}, {"d": "1"}, {"c": "green"}, {"c": "red"}):
            await p.ask(
                "patch", "configmaps", name="m", body={"metadata": {"labels": labels}}, content_type=merge
            )
        await p.ask("delete", "configmaps", name="m")
        await p.run(S)
        assert [t for t, _ in seen.short] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
        left = seen.events[2][1]
        assert left.item is not None
        assert left.item.obj["metadata"]["labels"]["c"] == "red"
        assert int(left.item.obj["metadata"]["resourceVersion"]) == left.revision
        revisions = [event.revision for _, event in seen.events]
        assert revisions == sorted(set(revisions)) and revisions[0] > made.obj["metadata"].get("rev", 0)


async def test_watch_of_one_nodes_pods_receives_no_others() -> None:
    async with plane() as p:
        await p.ask("create", "serviceaccounts", body={"metadata": {"name": "default"}})
        opened = await p.ask("watch", "pods", "", options={"fieldSelector": "spec.nodeName=n1"})
        seen = Seen(p.kernel, opened.watch)
        for name, node in (("a", "n1"), ("b", "n2")):
            body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            await p.ask("create", "pods", body=body)
            target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
            bound = await p.ask("create", "pods", name=name, subresource="binding", body=target)
            assert bound.code == 201, bound
        await p.run(S)
        assert seen.short == [("ADDED", "a")]


async def test_watch_of_one_nodes_pods_in_a_namespace_receives_no_other_namespace() -> None:
    async with plane() as p:
        opened = await p.ask("watch", "pods", "default", options={"fieldSelector": "spec.nodeName=n1"})
        seen = Seen(p.kernel, opened.watch)
        for namespace in ("other", "default"):
            pod = {"metadata": {"name": namespace, "namespace": namespace}, "spec": {"nodeName": "n1"}}
            key = f"{SCHEME.prefix('pods')}{namespace}/{namespace}"
            made = p.storage.store.put(key, pod, 0)
            assert isinstance(made, Item)
            p.storage.store.put(key, {**pod, "spec": {}}, made.rev)
        await p.run(S)
        assert seen.short == [("ADDED", "default"), ("DELETED", "default")]


async def test_a_watch_without_revision_starts_with_what_is_there() -> None:
    async with plane() as p:
        revs = await make(p, "a", "b")
        await p.run(S)
        for options, wanted in (
            ({}, ["a", "b", "c"]),
            ({"resourceVersion": "0"}, ["a", "b", "c"]),
            ({"resourceVersion": revs[0]}, ["b", "c"]),
        ):
            seen = Seen(p.kernel, (await p.ask("watch", "leases", options=options)).watch)
            if wanted[-1:] == ["c"] and not options:
                await make(p, "c")
            await p.run(S)
            assert [name for _, name in seen.short] == wanted


async def test_a_watch_from_before_the_window_gets_one_error_and_ends() -> None:
    async with plane() as p:
        (rev,) = await make(p, "a")
        p.supervisor["apiserver-0"].crash()
        await make_directly(p, "b")
        p.supervisor["apiserver-0"].start()
        reply = await p.ask("watch", "leases", options={"resourceVersion": rev})
        seen = Seen(p.kernel, reply.watch)
        assert reply.code == 200 and [e.type for _, e in seen.events] == ["ERROR"]
        status = seen.events[0][1].status
        assert (status["code"], status["reason"]) == (410, "Expired")
        assert status["message"].startswith(f"too old resource version: {rev} (")
        assert seen.watch.ended


async def test_window_refuses_the_revision_of_an_event_that_was_pushed_out() -> None:
    """Only a watch from just before the first event certainly misses nothing (watch_cache.go,
    getAllEventsSinceLocked).
    """
    async with plane() as p:
        first = int((await make(p, "a"))[0])
        store, key = p.storage.store, SCHEME.key("leases", "default", "a")
        for turn in range(100):
            await p.run(S)
            await make_directly(p, f"{turn}", "configmaps")
            item = store.get(key)
            assert item is not None
            store.put(key, {**item.obj, "spec": {"leaseTransitions": turn}}, item.rev)
        asked = {
            rev: await p.ask("watch", "leases", options={"resourceVersion": rev})
            for rev in range(first, first + 3)
        }
        told = {rev: Seen(p.kernel, reply.watch) for rev, reply in asked.items()}
        await p.run(S)
        assert [len(told[rev].events) for rev in (first + 1, first + 2)] == [100, 99]
        ((_, error),) = told[first].events
        assert error.status is not None
        assert error.status["message"] == f"too old resource version: {first} ({first + 1})"


async def test_unread_resource_can_be_watched_from_before_a_compaction() -> None:
    """cacher.go: the caches are filled when the server starts, without readers too; only the
    storage compacts.
    """
    async with plane() as p:
        (rev,) = await make(p, "a")
        await make(p, "b")
        p.storage.store.compact(p.storage.store.revision)
        seen = Seen(p.kernel, (await p.ask("watch", "leases", options={"resourceVersion": rev})).watch)
        await p.run(S)
        assert seen.short == [("ADDED", "b")]


async def make_directly(p: Plane, name: str, resource: str = "leases") -> None:
    p.storage.store.put(f"/x/{resource}/default/{name}", {"metadata": {"name": name}}, 0)


async def test_expired_continue_token_is_refused_with_a_token_to_continue() -> None:
    async with plane() as p:
        await make(p, "a", "b", "c")
        first = await listed(p, limit=1)
        await make(p, "bb")
        p.storage.store.compact(p.storage.store.revision)
        gone = await listed(p, **{"limit": 1, "continue": first.more})
        assert (gone.code, gone.reason) == (410, "Expired")
        rest = await listed(p, **{"continue": gone.body["metadata"]["continue"]})
        assert names(rest) == ["b", "bb", "c"]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_bookmarks_come_about_each_minute_and_before_the_end(seed: int) -> None:
    async with plane(seed=seed) as p:
        await make(p, "a")
        options = {"resourceVersion": "0", "allowWatchBookmarks": "true", "timeoutSeconds": "300"}
        start = p.kernel.now_us
        replies = p.send_watch(options)
        await p.run(10_000)
        seen = Seen(p.kernel, replies[0].watch)
        await p.run(301 * S)
        marks = [at - start for at, event in seen.events if event.type == "BOOKMARK"]
        assert len(marks) == 5
        for n, at in enumerate(marks[:4], 1):
            assert (60 - 1) * n * S <= at <= (60 + 2.5) * n * S
        assert 297 * S <= marks[4] <= 299.5 * S
        assert seen.ended_us is not None and abs(seen.ended_us - start - 300 * S) < 0.1 * S
        assert [t for t, _ in seen.short if t == "ERROR"] == []


@pytest.mark.parametrize(("timeout_s", "count"), [(2, 0), (3, 1), (4, 1), (5, 1)])
@pytest.mark.parametrize("seed", [1, 2])
async def test_short_watch_has_a_bookmark_before_its_end(seed: int, timeout_s: int, count: int) -> None:
    async with plane(seed=seed) as p:
        await make(p, "a")
        options = {"resourceVersion": "0", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout_s)}
        start = p.kernel.now_us
        replies = p.send_watch(options)
        await p.run(10_000)
        seen = Seen(p.kernel, replies[0].watch)
        await p.run(6 * S)
        marks = [at - start for at, event in seen.events if event.type == "BOOKMARK"]
        assert len(marks) == count
        assert all((timeout_s - 3) * S <= at <= (timeout_s - 0.5) * S for at in marks)


async def test_a_watch_of_less_than_no_time_ends_at_once() -> None:
    async with plane() as p:
        await make(p, "a")
        replies = p.send_watch({"resourceVersion": "0", "timeoutSeconds": "-5"})
        await p.run(10_000)
        assert replies[0].code == 200
        seen = Seen(p.kernel, replies[0].watch)
        await p.run(S)
        assert seen.ended_us is not None and seen.ended_us - p.kernel.now_us < 10_000
        assert [t for t, _ in seen.short if t == "ERROR"] == []


async def test_a_lagging_replica_shows_the_past_until_its_lag_has_passed() -> None:
    async with plane(replicas=2) as p:
        behind = p.servers[1]
        behind.trail.lag(2 * S)
        watches = [
            Seen(p.kernel, (await p.ask("watch", "leases", options={"resourceVersion": "0"}, at=n)).watch)
            for n in (0, 1)
        ]
        await make(p, "a")
        made_us = p.kernel.now_us
        old = await p.ask("list", "leases", options={"resourceVersion": "0"}, at=1)
        new = await p.ask("list", "leases", options={"resourceVersion": "0"}, at=0)
        consistent = await p.ask("list", "leases", at=1)
        assert (names(old), names(new), names(consistent)) == ([], ["a"], ["a"])
        await p.run(3 * S)
        times = [seen.events[0][0] - made_us for seen in watches]
        assert times[0] < 0.01 * S and 1.9 * S < times[1] < 2.1 * S


async def test_lagging_cache_shows_compacted_writes_one_after_the_other() -> None:
    async with plane() as p:
        p.server.trail.lag(2 * S)
        shown = []
        for name in "abc":
            await make(p, name)
            await p.run(S // 2)
        p.storage.store.compact(p.storage.store.revision)
        for _ in range(5):
            shown.append(names(await listed(p, resourceVersion="0")))
            await p.run(S // 2)
        assert shown == [[], ["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c"]]


async def test_frozen_cache_shows_the_same_content_while_others_write() -> None:
    async with plane() as p:
        await make(p, "a")
        await p.run(S)
        p.server.trail.freeze(True)
        for number in range(110):
            await make(p, f"b{number}")
            await p.run(S)
        assert names(await listed(p, resourceVersion="0")) == ["a"]
        p.server.trail.freeze(False)
        assert len(names(await listed(p, resourceVersion="0"))) == 111


@pytest.mark.parametrize("lag_s", [2, 300])
async def test_a_replica_that_lagged_when_history_went_shows_all_that_came_since(lag_s: int) -> None:
    """Without a read in between, the window drops what has been shown: more than 100 changes, in
    more than 75 s.
    """
    async with plane() as p:
        await make(p, "old")
        p.server.trail.lag(lag_s * S)
        await p.run(lag_s * S)
        await make(p, "kept")
        p.storage.store.compact(p.storage.store.revision)
        assert names(await listed(p, resourceVersion="0")) == ["old"]
        assert (await p.ask("delete", "leases", name="old")).ok
        for number in range(2 * lag_s + 220):
            await make(p, f"new{number}")
            await p.run(S)
        assert (await p.ask("create", "configmaps", body={"metadata": {"name": "other"}})).ok
        await p.run(lag_s * S)
        p.storage.store.compact(p.storage.store.revision)
        shown = names(await listed(p, resourceVersion="0"))
        assert len(shown) == 2 * lag_s + 221 and "old" not in shown


async def test_cache_that_relisted_the_storage_shows_none_of_its_old_copy() -> None:
    async with plane() as p:
        await make(p, "a")
        await p.run(S)
        p.server.trail.freeze(True)
        await make(p, "b")
        p.storage.store.compact(p.storage.store.revision)
        assert names(await listed(p, resourceVersion="0")) == ["a"]
        assert p.server.life is not None
        p.server.life.caches.open_anew()
        assert (await p.ask("create", "configmaps", body={"metadata": {"name": "other"}})).ok
        p.storage.store.compact(p.storage.store.revision)
        assert names(await listed(p, resourceVersion="0")) == ["a", "b"]


async def test_a_crash_cuts_watches_and_requests_in_flight() -> None:
    async with plane(replicas=2) as p:
        seen = Seen(p.kernel, (await p.ask("watch", "leases")).watch)
        p.storage.extra_us = S
        replies = p.send_create("a")
        await p.run(S // 10)
        p.supervisor["apiserver-0"].crash()
        assert [r.lost for r in replies] == ["ConnectionReset"]
        assert seen.ended_us is not None
        assert (await p.ask("get", "namespaces", "", "default")).lost == "ConnectionRefused"
        p.storage.extra_us = 0
        assert (await p.ask("list", "leases", at=1)).code == 200


async def test_a_write_takes_as_long_as_the_storage_and_fails_when_it_has_no_quorum() -> None:
    async with plane() as p:
        p.storage.extra_us = S
        start = p.kernel.now_us
        slow = await p.ask("create", "leases", body=lease("a"), wait_us=20 * S)
        assert slow.code == 201 and p.kernel.now_us - start > S
        p.storage.extra_us = 0
        p.storage.quorum = False
        start = p.kernel.now_us
        failed = await p.ask("create", "leases", body=lease("b"), wait_us=20 * S)
        assert (failed.code, failed.message) == (500, "etcdserver: request timed out")
        assert 7 * S <= p.kernel.now_us - start <= 7.1 * S


async def test_operations_that_wait_for_a_quorum_run_in_order_within_seven_seconds() -> None:
    """As etcd's proposals do while there is no leader."""
    async with plane() as p:
        p.storage.quorum = False
        start = p.kernel.now_us
        told: dict[str, tuple[int, int]] = {}  # what was answered, and after how many seconds

        def send(of: str, verb: str = "create", **more: Any) -> None:
            def answered(reply: Reply) -> None:
                told[f"{verb} {of}"] = reply.code, round((p.kernel.now_us - start) / S)

            p.server.handle(request(verb, "leases", "default", **more), answered)

        send("late", body=lease("late"))
        await p.run(5 * S)
        send("a", body=lease("a", holderIdentity="first"))
        await p.run(S // 10)
        send("a", "get", name="a")
        merge = {"spec": {"holderIdentity": "second"}}
        send("a", "patch", name="a", body=merge, content_type="application/merge-patch+json")
        await p.run(9 * S // 10)
        assert not told
        await p.run(2 * S)
        p.storage.quorum = True
        await p.run(10 * S)
        assert told == {
            "create late": (500, 7),
            "create a": (201, 8),
            "get a": (200, 8),
            "patch a": (200, 8),
        }
        assert (await p.ask("get", "leases", name="a")).obj["spec"]["holderIdentity"] == "second"
        assert (await p.ask("get", "leases", name="late")).code == 404


async def test_replicas_compact_history_to_the_interval_before() -> None:
    async with plane(replicas=2) as p:
        await make(p, "a")
        revision = p.storage.store.revision
        await p.run(301 * S)
        await make(p, "b")
        assert p.storage.store.floor == 0
        await p.run(300 * S)
        assert p.storage.store.floor == revision


async def test_a_lazy_watch_sees_the_same_events_as_an_attached_one_after_compaction() -> None:
    async with plane() as p:
        lazy = (await p.ask("watch", "leases", options={"resourceVersion": "0"})).watch
        eager = Seen(p.kernel, (await p.ask("watch", "leases", options={"resourceVersion": "0"})).watch)
        for round_ in range(4):
            await make(p, f"l{round_}")
            await p.run(299 * S)
        assert p.storage.store.floor > 0 and lazy is not None
        got = [(e.type, e.revision) for e in lazy.take()]
        assert got == [(e.type, e.revision) for _, e in eager.events] and len(got) == 4


async def test_an_event_is_gone_an_hour_after_its_last_write() -> None:
    async with plane() as p:
        for name in ("a", "b"):
            about = {"kind": "Pod", "name": "p", "namespace": "default"}
            made = await p.ask("create", "events", body={"metadata": {"name": name}, "involvedObject": about})
            assert made.code == 201, made
        await p.run(1800 * S)
        merge = "application/merge-patch+json"
        await p.ask("patch", "events", name="b", body={"count": 2}, content_type=merge)
        await p.run(1900 * S)
        assert names(await p.ask("list", "events")) == ["b"]
        await p.run(1800 * S)
        assert names(await p.ask("list", "events")) == []


async def test_writes_beyond_the_limit_in_flight_are_refused_and_later_ones_are_not() -> None:
    async with plane(options=ApiServerOptions(max_mutating_requests_inflight=2)) as p:
        replies = [p.send_create(name, USER) for name in "abcd"]
        await p.run(S)
        assert [r[0].code for r in replies] == [201, 201, 429, 429]
        assert replies[2][0].headers == {"Retry-After": "1"}
        assert (await p.ask("create", "leases", body=lease("e"), user=USER)).code == 201


async def test_masters_and_watches_are_served_beyond_the_limits_and_watches_take_no_room() -> None:
    async with plane(
        options=ApiServerOptions(max_mutating_requests_inflight=1, max_requests_inflight=1)
    ) as p:
        writes = [p.send_create(name, user) for name, user in (("a", USER), ("b", ADMIN), ("c", USER))]
        watches = [p.send(request("watch", "leases", "default", user=USER)) for _ in range(2)]
        reads = [p.send(request("list", "leases", "default", user=user)) for user in (USER, USER, ADMIN)]
        await p.run(S)
        assert [r[0].code for r in writes] == [201, 201, 429]
        assert [r[0].code for r in watches] == [200, 200]
        assert [r[0].code for r in reads] == [200, 429, 200]


@pytest.mark.parametrize(
    ("options", "direct"),
    [
        (ApiServerOptions(), False),
        (ApiServerOptions(uncached=frozenset({"pods"})), False),
        (ApiServerOptions(uncached=frozenset({SCHEME.resource("leases").group_resource})), True),
        (ApiServerOptions(watch_cache=False), True),
    ],
)
async def test_what_has_no_watch_cache_is_the_storages(options: ApiServerOptions, direct: bool) -> None:
    """It is never old, has all history that there is, and no bookmarks (etcd3/store.go,
    watcher.go).
    """
    async with plane(1, options) as p:
        first, _ = await make(p, "a", "b")
        p.supervisor["apiserver-0"].crash()
        p.supervisor["apiserver-0"].start()
        await p.run(S)
        late = Seen(p.kernel, (await p.ask("watch", "leases", options={"resourceVersion": first})).watch)
        wanted = {"allowWatchBookmarks": "true"}
        marked = Seen(p.kernel, (await p.ask("watch", "leases", options=wanted)).watch)
        await p.run(S)
        assert late.short == [("ADDED", "b") if direct else ("ERROR", "")]
        p.server.trail.freeze(True)
        await make(p, "c")
        assert names(await listed(p, resourceVersion="0")) == (["a", "b", "c"] if direct else ["a", "b"])
        got = await p.ask("get", "leases", name="c", options={"resourceVersion": "0"})
        assert got.code == (200 if direct else 404)
        p.server.trail.freeze(False)
        await p.run(70 * S)
        assert [kind for kind, _ in marked.short] == ["ADDED"] * 3 + ["BOOKMARK"] * (not direct)


async def test_events_have_a_watch_cache_if_they_are_given_one() -> None:
    async with plane(1, ApiServerOptions(cached=frozenset({"events"}))) as p:
        await p.run(S)
        p.server.trail.freeze(True)
        event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
        assert (await p.ask("create", "events", body=event)).code == 201
        assert names(await p.ask("list", "events", options={"resourceVersion": "0"})) == []


@pytest.mark.parametrize("cached", [True, False])
async def test_a_watch_of_a_cache_ends_for_its_slow_reader_and_one_of_the_storage_waits(cached: bool) -> None:
    """cacher.go closes it after 0.1 s; etcd3/watcher.go blocks."""
    async with plane(1, ApiServerOptions(watch_cache=cached)) as p:
        now = {"resourceVersion": str(p.storage.store.revision)}
        watch = (await p.ask("watch", "leases", options=now)).watch
        assert watch is not None
        watch.attach(lambda: None)
        for part in range(4):
            for number in range(500):
                p.send_create(f"l{part}-{number}")
            await p.run(S)
        assert watch.ended is cached
        assert len(watch.take(3000)) == (0 if cached else 2000)
