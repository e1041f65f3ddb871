"""Informers on real API servers: what they ask, when, and that what they show is what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from actors.apiserver.caches.watch_caches import FailedWatch
from sim.api.store import Item
from sim.api.types import Reply, Request
from sim.client import Heartbeats, Informer, Informers, unmoved
from sim.client.cache.reflector import BACKOFF_MAX_US, BACKOFF_US, RELISTING, Backoff
from sim.client.rest.channel import DEAD_CONNECTION_US
from sim.client.rest.channel_watch import LAZY_MAX, ChannelWatch
from sim.kernel import Context, Rule
from sim.units import SECOND
from tests.actor.apiserver.cluster import SCHEME, lease
from tests.actor.client.rig import Rig, Tap, rig

ASKED = ("resourceVersion", "limit", "continue")


class Reader:
    """A process with one informer of leases.  log: (add | update | delete, name, when in s)."""

    def __init__(self, r: Rig, name: str = "reader", *, eager: bool = True, resync_us: int = 0) -> None:
        self.rig = r
        self.eager = eager
        self.resync_us = resync_us
        self.log: list[tuple[str, str, float]] = []
        self.informer: Informer = None  # type: ignore[assignment]
        r.actor(name, self.main)

    def main(self, ctx: Context) -> None:
        self.ctx = ctx
        informers = Informers(ctx, self.rig.client(ctx), self.resync_us)
        self.informer = informers["leases"]
        self.informer.add_index("holder", lambda obj: [obj["spec"].get("holderIdentity", "")])
        if self.eager:
            self.informer.on(
                add=lambda obj: self.note("add", obj),
                update=lambda old, new: self.note("update", new),
                delete=lambda obj: self.note("delete", obj),
            )
        informers.start()

    def note(self, what: str, obj: Any) -> None:
        self.log.append((what, obj["metadata"]["name"], self.ctx.now_us() / SECOND))

    def view(self) -> dict[str, str]:
        return {key: obj["metadata"]["resourceVersion"] for key, obj in self.informer.objects.items()}

    def names(self) -> list[str]:
        return [obj["metadata"]["name"] for obj in self.informer.list()]


def stored(r: Rig) -> dict[str, str]:
    items = r.plane.storage.store.bucket(SCHEME.prefix("leases")).items
    return {f"default/{item.obj['metadata']['name']}": str(item.rev) for item in items.values()}


async def make(r: Rig, *names: str, at: int = 0) -> None:
    for name in names:
        assert (await r.plane.ask("create", "leases", body=lease(name), at=at)).ok


def options_of(r: Rig, index: int) -> Request:
    return [request for _, request in r.tap.asked if request.verb in ("list", "watch")][index]


async def test_first_list_is_from_the_cache_and_the_watch_continues_from_it() -> None:
    async with rig() as r:
        await make(r, "a")
        reader = Reader(r)
        await r.run(5)
        listed, watched = options_of(r, 0), options_of(r, 1)
        assert dict(listed.options) == {"resourceVersion": "0", "limit": "500"}
        revision = stored(r)["default/a"]
        assert watched.options["resourceVersion"] == revision
        assert watched.options["allowWatchBookmarks"] == "true"
        assert 300 <= int(watched.options["timeoutSeconds"]) <= 600
        await make(r, "b")
        await r.run(1)
        assert [entry[:2] for entry in reader.log] == [("add", "a"), ("add", "b")]
        assert reader.view() == stored(r)


@pytest.mark.parametrize("cares", [True, False])
async def test_heartbeat_updates_call_only_interested_handlers_and_precede_other_changes(
    cares: bool,
) -> None:
    async with rig() as r:
        await make(r, "a")
        store, log = r.plane.storage.store, list[tuple[str, str]]()
        informers: list[Informer] = []

        def beat(_: Any, new: Any) -> None:
            log.append(("beat", new["metadata"]["resourceVersion"]))

        def main(ctx: Context) -> None:
            informer = Informers(ctx, r.client(ctx))["leases"]
            informers.append(informer)
            informer.on(
                update=lambda old, new: log.append(("update", new["metadata"]["resourceVersion"])),
                beat=beat if cares else unmoved,
            )
            informer.start()

        r.actor("reader", main)
        await r.run(5)
        key, steps = SCHEME.key("leases", "default", "a"), r.kernel.steps
        with_new_times = []
        for _ in range(3):
            held = store.get(key)
            assert held is not None
            item = store.beat(held, {**held.obj, "metadata": {**held.obj["metadata"]}}, held.managed)
            assert item is not None and item.base == int(stored(r)["default/a"]) - 1 - len(with_new_times)
            with_new_times.append(("beat", str(item.rev)))
        await r.run(1)
        assert log == (with_new_times if cares else [])
        # to the server's watch, and from there
        assert r.kernel.steps - steps == (2 if cares else 0)
        body = {"metadata": {"labels": {"x": "y"}}}
        kind = "application/merge-patch+json"
        assert (await r.plane.ask("patch", "leases", name="a", body=body, content_type=kind)).ok
        await r.run(1)
        changed = [("update", stored(r)["default/a"])]
        assert log == ([*with_new_times, *changed] if cares else changed)
        assert informers[0].objects["default/a"]["metadata"]["labels"] == {"x": "y"}


async def told_of_beats(r: Rig, log: list[str], heartbeats: Heartbeats) -> Informer:
    """An informer of leases, with one lease and a heartbeat handler of this kind that logs
    revisions.
    """
    await make(r, "a")
    informers: list[Informer] = []

    def main(ctx: Context) -> None:
        informer = Informers(ctx, r.client(ctx))["leases"]
        informers.append(informer)
        informer.on(
            update=lambda old, new: log.append("update"),
            beat=lambda old, new: log.append(new["metadata"]["resourceVersion"]),
            heartbeats=heartbeats,
        )
        informer.start()

    r.actor("reader", main)
    await r.run(5)
    return informers[0]


@pytest.mark.parametrize("how", ["calm", "urged", "moved"])
async def test_late_heartbeat_handler_is_called_before_a_read_or_at_once_if_urged(how: str) -> None:
    log: list[str] = []
    async with rig() as r:
        informer = await told_of_beats(r, log, Heartbeats.ON_READ)
        if how == "urged":
            informer.deliver_promptly("test", True)
        for told in range(1, 3):
            with_new_times = beat(r, "a")
            if how == "moved":
                r.kernel.standing.moved()
            await r.run(1)
            assert len(log) == told - (how == "calm")
            assert informer.objects["default/a"]["metadata"]["resourceVersion"] == log[-1] == with_new_times
        informer.deliver_promptly("test", False)
        beat(r, "a")
        await r.run(1)
        assert len(log) == 2  # it is calm again


async def test_urged_only_heartbeat_handler_is_called_only_while_urged() -> None:
    log: list[str] = []
    async with rig() as r:
        informer = await told_of_beats(r, log, Heartbeats.IF_URGED)
        for is_needed in (False, True, False):
            informer.deliver_promptly("test", is_needed)
            r.kernel.standing.moved()
            log.clear()
            with_new_times = beat(r, "a")
            await r.run(1)
            assert log[-1:] == [with_new_times] * is_needed  # after what was kept back before


async def test_last_of_several_unread_heartbeats_of_one_object_is_kept() -> None:
    async with rig() as r:
        await make(r, "a")
        informers: list[Informer] = []

        def main(ctx: Context) -> None:
            informers.append(Informers(ctx, r.client(ctx))["leases"])
            informers[0].on(update=lambda old, new: None, beat=unmoved)
            informers[0].start()

        r.actor("reader", main)
        await r.run(5)
        revisions = []
        for _ in range(6):
            revisions.append(beat(r, "a"))
            await r.run(1)
        open_watch = informers[0]._reflector._watch
        assert open_watch is not None
        watch = open_watch.stream
        assert isinstance(watch, ChannelWatch)
        assert [str(event.revision) for event in watch.take_beats()] == revisions[-1:]


def beat(r: Rig, name: str) -> str:
    """A state of which only times are new; answers its revision."""
    store, key = r.plane.storage.store, SCHEME.key("leases", "default", name)
    held = store.get(key)
    assert held is not None
    item = store.beat(held, {**held.obj, "metadata": {**held.obj["metadata"]}}, held.managed)
    assert item is not None
    return str(item.rev)


async def test_watch_that_times_out_continues_at_once_from_the_last_event() -> None:
    async with rig() as r:
        await make(r, "a")
        reader = Reader(r)
        await r.run(700)
        watches = [(at, q) for at, q in r.tap.asked if q.verb == "watch"]
        assert len(watches) in (2, 3) and r.tap.told(*ASKED[:1]).count(("list", "0")) == 1
        (first_us, first), (second_us, second) = watches[:2]
        timeout_us = int(first.options["timeoutSeconds"]) * SECOND
        assert 0 < second_us - first_us - timeout_us < 5000
        assert int(second.options["resourceVersion"]) >= int(first.options["resourceVersion"])
        assert len(reader.log) == 1


class QuietReader(Reader):
    """A process that watches one missing lease, and so receives only bookmarks."""

    def main(self, ctx: Context) -> None:
        self.ctx = ctx
        informers = Informers(ctx, self.rig.client(ctx))
        self.informer = informers.selected("leases", namespace="default", fields="metadata.name=nobody")
        self.informer.on(add=lambda obj: self.note("add", obj))
        informers.start()


async def _writes(r: Rig, until_s: int) -> dict[int, int]:
    """A write a second, to a lease that the reader does not watch: second to revision."""
    revisions: dict[int, int] = {}
    while r.kernel.now_us < until_s * SECOND:
        await make(r, f"w{r.kernel.now_us}")
        revisions[r.kernel.now_us // SECOND] = r.plane.storage.store.revision
        await r.run(1)
    return revisions


async def test_watch_that_ends_with_many_unread_events_continues() -> None:
    async with rig() as r:
        await make(r, "a")
        reader = Reader(r, eager=False)
        await r.run(5)
        store, key = r.plane.storage.store, SCHEME.key("leases", "default", "a")
        for _ in range(3):
            await r.run(295)  # no watch ends before 300 s, and none lasts longer than 600 s
            for _ in range(310):
                for _ in range(LAZY_MAX // 50):
                    item = store.get(key)
                    assert item is not None
                    store.put(key, {**item.obj, "metadata": {**item.obj["metadata"]}}, item.rev, item.managed)
                await r.run(1)
        await make(r, "b")
        await r.run(1)
        assert reader.view() == stored(r)
        assert sum(request.verb == "list" for _, request in r.tap.asked) == 1


async def test_reader_without_bookmark_events_continues_from_the_last_bookmark() -> None:
    async with rig() as r:
        await make(r, "a")
        QuietReader(r)
        revisions = await _writes(r, 610)
        (first_us, first), (second_us, second) = [(at, q) for at, q in r.tap.asked if q.verb == "watch"][:2]
        end_s = (first_us + int(first.options["timeoutSeconds"]) * SECOND) // SECOND
        assert second_us // SECOND == end_s
        # the last bookmark comes 0.8 to 2.8 s before the end, or half a minute before where that is
        # too near
        asked = int(second.options["resourceVersion"])
        assert revisions[end_s - 63] <= asked < revisions[end_s]


async def test_watch_with_a_connection_lost_at_the_end_of_a_cut_is_opened_again() -> None:
    """Its reply has waited for the end of the cut, and comes after all."""
    async with rig() as r:
        network = r.kernel.network
        server, client = frozenset({"apiserver-0"}), frozenset({"reader"})

        def cut(request: Request, reply: Reply) -> Reply:
            if request.verb == "watch":
                r.tap.alter = lambda _, reply: reply
                network.impose(Rule("cut", server, client, cut=True, both_ways=False))
                r.kernel.call_later(DEAD_CONNECTION_US, lambda _: network.lift("cut"))
            return reply

        r.tap.alter = cut
        reader = Reader(r)
        await r.run(60)
        await make(r, "a")
        await r.run(1)
        assert [entry[:2] for entry in reader.log] == [("add", "a")]


@pytest.mark.parametrize("fault", ["freeze", "lag", "another server"])
async def test_a_bookmark_is_never_of_less_than_its_watch_has_shown(fault: str) -> None:
    async with rig(replicas=2) as r:
        server, tap = (
            r.plane.servers[fault == "another server"],
            r.taps[f"apiserver-{int(fault == 'another server')}"],
        )
        assert isinstance(tap, Tap)
        await make(r, "a")
        reader = Reader(r)
        await r.run(2)
        if fault == "another server":  # which has not seen what the first has shown
            server.trail.freeze(True)
        await make(r, "b")
        await r.run(2)
        match fault:
            case "freeze":
                server.trail.freeze(True)
            case "lag":
                server.trail.lag(500 * SECOND)
            case _:
                r.crash()
        await r.run(150)
        server.drop_watches("leases", "")
        await r.run(1)
        revision = stored(r)["default/b"]
        assert tap.told("resourceVersion")[-1] == ("watch", revision)
        assert reader.view()["default/b"] == revision and len(reader.log) == 2


@pytest.mark.parametrize("how", ["crash", "cut"])
async def test_a_bookmark_due_before_a_fault_was_seen_and_one_due_after_it_was_not(how: str) -> None:
    async with rig() as r:
        await make(r, "a")
        QuietReader(r)
        revisions = await _writes(r, 100)
        if how == "crash":
            r.crash()
        else:
            r.cut("reader")
        await r.run(60)
        if how == "crash":
            r.start()
        else:
            r.heal("reader")
        await r.run(60)
        asked = [q for _, q in r.tap.asked if q.verb in ("list", "watch")][2]
        assert revisions[59] <= int(asked.options["resourceVersion"]) <= revisions[65]


async def test_list_from_the_store_is_paged_and_list_from_the_cache_is_not() -> None:
    async with rig() as r:
        await make(r, *[f"l{n:04}" for n in range(1100)])
        reader = Reader(r)
        await r.run(2)
        assert r.tap.told("limit", verbs=["list"]) == [("list", "500")] and len(reader.names()) == 1100
        del r.tap.asked[:]
        # as after a 410: from the store, not from a cache
        reader.informer._reflector._revision_bad = True
        list_again(reader)
        await r.run(2)
        told = r.tap.told(*ASKED, verbs=["list"])
        assert [entry[:3] for entry in told] == [("list", "", "500")] * 3
        assert [bool(entry[3]) for entry in told] == [False, True, True]
        assert reader.view() == stored(r)
        assert [what for what, *_ in reader.log] == ["add"] * 1100 + ["update"] * 1100


def list_again(reader: Reader) -> None:
    """End the watch of a reader, and list."""
    reflector = reader.informer._reflector
    reflector._close()
    reflector._move(RELISTING)
    reflector._list("")


async def read_where_lists_expire(r: Rig, expired: Callable[[Mapping[str, str]], bool]) -> Reader:
    """A reader of many leases; from now on lists with such options are answered as expired."""
    await make(r, *[f"l{n:04}" for n in range(700)])

    def expire(request: Request, reply: Reply) -> Reply:
        if request.verb == "list" and expired(request.options):
            return Reply(410, body={"reason": "Expired", "code": 410})
        return reply

    reader = Reader(r)
    await r.run(2)
    r.tap.alter = expire
    del r.tap.asked[:]
    return reader


async def test_a_continue_token_that_expired_makes_the_pager_take_everything_at_once() -> None:
    async with rig() as r:
        reader = await read_where_lists_expire(r, lambda options: "continue" in options)
        reader.informer._reflector._revision_bad = True
        list_again(reader)
        await r.run(2)
        told = r.tap.told("limit", "continue", verbs=["list"])
        assert [(limit, bool(more)) for _, limit, more in told] == [
            ("500", False),
            ("500", True),
            ("", False),
        ]
        assert reader.view() == stored(r)


async def test_a_list_at_a_revision_that_cannot_be_served_is_asked_again_in_one_piece() -> None:
    """reflector.go: the second try uses the same pager, which had paging switched off for the
    first.
    """
    async with rig() as r:
        reader = await read_where_lists_expire(r, lambda options: options.get("resourceVersion", "0") != "0")
        list_again(reader)
        await r.run(2)
        told = r.tap.told("limit", "resourceVersion", verbs=["list"])
        assert [(limit, bool(revision)) for _, limit, revision in told] == [("", True), ("", False)]
        assert reader.view() == stored(r)


async def test_expired_watch_lists_after_a_pause_and_keeps_unchanged_objects() -> None:
    async with rig(replicas=2) as r:
        await make(r, "a", "b", at=1)
        reader = Reader(r)
        r.taps.pop("apiserver-1")  # the writers' replica is none of this client's
        await r.run(5)
        kept = reader.informer.get("default/a")
        r.crash()
        await make(r, "c", at=1)
        assert (await r.plane.ask("delete", "leases", name="b", at=1)).ok
        await r.run(20)
        del r.tap.asked[:]
        r.start()
        await r.run(40)
        assert reader.view() == stored(r) and reader.informer.get("default/a") is kept
        # Unchanged objects are reported too, as at a resync.
        assert [entry[:2] for entry in reader.log[2:]] == [("update", "a"), ("add", "c"), ("delete", "b")]
        asked = [(at, q.verb) for at, q in r.tap.asked if q.verb in ("list", "watch")]
        assert [verb for _, verb in asked] == ["watch", "list", "watch"]
        assert 0.8 <= (asked[1][0] - asked[0][0]) / SECOND <= 1.61
        last_seen = options_of(r, 0).options["resourceVersion"]
        assert options_of(r, 1).options["resourceVersion"] == last_seen


async def test_a_server_that_refuses_connections_is_tried_with_growing_pauses_and_no_list() -> None:
    async with rig() as r:
        Reader(r)
        await r.run(5)
        tries: list[int] = []
        r.crash()
        r.tap._server = Refuser(r, tries)
        await r.run(200)
        gaps = [(b - a) / SECOND for a, b in pairwise(tries)]
        base = 0.8
        for gap in gaps:
            assert base <= gap <= 2 * base + 0.01
            base = min(30, base * 2)
        assert len(gaps) >= 6 and r.tap.told("resourceVersion")[-1][0] == "watch"
        assert [verb for verb, *_ in r.tap.told("resourceVersion")].count("list") == 1


class Refuser:
    """An API server that is down, with a port that records each try."""

    running = True

    def __init__(self, r: Rig, tries: list[int]) -> None:
        self.rig = r
        self.tries = tries

    def handle(self, request: Request, respond: Any) -> None:
        self.tries.append(self.rig.kernel.now_us)
        respond(Reply(0, lost="ConnectionRefused"))


@pytest.mark.parametrize(
    ("code", "then"), [(429, ["watch"]), (410, ["list", "watch"]), (500, ["list", "watch"])]
)
async def test_watch_that_ends_in_an_error_continues_or_lists_after_a_pause(
    code: int, then: list[str]
) -> None:
    async with rig() as r:
        reader = Reader(r)
        failed = FailedWatch({"kind": "Status", "code": code, "reason": "Any"})
        r.tap.alter = lambda request, reply: (
            Reply(200, watch=failed) if request.verb == "watch" and r.kernel.now_us < 1_100_000 else reply
        )
        await r.run(5)
        asked = [(at, q.verb) for at, q in r.tap.asked]
        assert [verb for _, verb in asked] == ["list", "watch", *then]
        assert 0.8 <= (asked[2][0] - asked[1][0]) / SECOND <= 1.61
        await make(r, "a")
        await r.run(1)
        assert reader.names() == ["a"]


def test_back_off_doubles_from_800_ms_to_30_s_and_resets_after_two_minutes() -> None:
    backoff, now_us, base = Backoff(Random(1)), 0, BACKOFF_US
    for _ in range(12):
        wait_us = backoff.step(now_us)
        assert base <= wait_us <= 2 * base
        last_us, now_us = now_us, now_us + wait_us
        base = min(base * 2, BACKOFF_MAX_US)
    assert base == BACKOFF_MAX_US
    assert backoff.step(last_us + 120 * SECOND) >= BACKOFF_MAX_US
    assert backoff.step(last_us + 241 * SECOND) <= 2 * BACKOFF_US


async def test_a_watch_that_ends_within_a_second_without_events_pauses_and_lists() -> None:
    async with rig() as r:
        reader = Reader(r)
        await r.run(1.5)
        r.plane.server.drop_watches("leases", "")
        await r.run(0.3)
        assert r.tap.told() == [("list",), ("watch",), ("watch",)]  # it lived 1.5 s
        dropped_us = r.kernel.now_us
        r.plane.server.drop_watches("leases", "")
        await r.run(4)
        assert r.tap.told()[3:] == [("list",), ("watch",)]
        assert 0.8 <= (r.tap.asked[-2][0] - dropped_us) / SECOND <= 1.61
        r.plane.server.drop_watches("leases", "")
        await r.run(0.01)
        await make(r, "a")
        await r.run(0.01)
        r.plane.server.drop_watches("leases", "")
        await r.run(0.01)
        assert r.tap.told()[5:] == [("watch",)] * 2  # short too, but it brought something
        assert reader.names() == ["a"]


async def test_a_replica_too_far_behind_is_asked_again_and_then_for_its_newest() -> None:
    async with rig(replicas=2) as r:
        await make(r, "a")
        reader = Reader(r)
        await r.run(5)
        r.plane.servers[1].trail.lag(10_000 * SECOND)
        await make(r, "b")
        await r.run(1)
        assert reader.names() == ["a", "b"]
        reader.informer._reflector._close()
        reader.informer._reflector._again("asked")  # any error: list at the revision seen
        r.crash()
        await r.run(100)
        behind = r.taps["apiserver-1"]
        told = behind.told("resourceVersion", verbs=["list"])  # type: ignore[attr-defined]
        # 504 comes with Retry-After: the client itself tries ten times more
        assert [entry[1] for entry in told] == [stored(r)["default/b"]] * 11 + [""]
        assert reader.names() == ["a", "b"]


async def test_resync_reports_every_object_and_changes_nothing() -> None:
    async with rig() as r:
        await make(r, "a", "b")
        reader = Reader(r, resync_us=60 * SECOND)
        await r.run(130)
        assert [entry[:2] for entry in reader.log] == [
            ("add", "a"),
            ("add", "b"),
            *[("update", "a"), ("update", "b")] * 2,
        ]
        assert len(r.tap.told("limit", verbs=["list"])) == 1
        # A list after the first resync reports only changes, because no listener is due.
        del reader.log[:]
        r.crash()
        r.plane.storage.store.put(
            "/x/others/default/o", {"metadata": {"name": "o"}}, 0
        )  # what the server has not seen
        r.start()
        await make(r, "c")
        await r.run(20)
        assert len(r.tap.told("limit", verbs=["list"])) == 2
        assert [entry[:2] for entry in reader.log] == [("add", "c")]


@pytest.mark.parametrize("eager", [True, False])
async def test_news_are_what_came_and_is_still_there_and_a_peek_shows_what_reading_would(eager: bool) -> None:
    async with rig() as r:
        await make(r, "a", "b")
        reader = Reader(r, eager=eager)
        informer = reader.informer
        await r.run(5)
        assert not informer.news()  # from now on they are kept
        for name in ("b", "c", "d"):
            got = await r.plane.ask("get", "leases", name=name)
            body = {**(got.obj if got.ok else lease(name)), "spec": {"holderIdentity": f"of {name}"}}
            verb = "update" if got.ok else "create"
            assert (await r.plane.ask(verb, "leases", name=name if got.ok else "", body=body)).ok
        await r.plane.ask("delete", "leases", name="c")
        await r.run(1)
        informer.pull()
        news = informer.news()
        resource = SCHEME.resource("leases")
        assert {item.key: item.peek("spec", "holderIdentity") for item in news if isinstance(item, Item)} == {
            SCHEME.key(resource, "default", "b"): "of b",
            SCHEME.key(resource, "default", "d"): "of d",
        }
        peeked = dict(informer.peek("spec", "holderIdentity"))
        assert list(peeked) == ["default/a", "default/b", "default/d"]
        assert peeked == {key: obj["spec"].get("holderIdentity") for key, obj in informer.objects.items()}
        assert not informer.news()
