"""Readers that are paused, slow or lazy: after resuming they show the same as one that always ran."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from actors.apiserver.options import ApiServerOptions
from sim.client import Channel, Client
from sim.client.rest.channel_watch import BACKLOG_MAX, LAZY_MAX, ChannelWatch
from sim.units import SECOND
from tests.actor.apiserver.cluster import SCHEME, lease
from tests.actor.client.rig import OPTIONS, rig
from tests.actor.client.test_informer import Reader, make, stored


async def test_paused_reader_has_all_events_after_it_resumes() -> None:
    async with rig() as r:
        reader = Reader(r)
        await r.run(5)
        r.supervisor["reader"].pause()
        await make(r, *[f"l{n}" for n in range(30)])
        await r.run(20)
        assert reader.log == []
        r.supervisor["reader"].resume()
        await r.run(1)
        assert [name for _, name, _ in reader.log] == [f"l{n}" for n in range(30)]
        assert all(at >= 26 for *_, at in reader.log) and len(r.tap.told("limit", verbs=["list"])) == 1


async def test_a_reader_paused_for_too_much_loses_its_watch_and_catches_up() -> None:
    async with rig() as r:
        reader = Reader(r)
        await r.run(5)
        r.supervisor["reader"].pause()
        store, body = r.plane.storage.store, lease("x")
        for n in range(BACKLOG_MAX + 5000):
            name = f"l{n % 50}"
            meta = {"name": name, "namespace": "default", "number": n}
            store.put(SCHEME.key("leases", "default", name), {**body, "metadata": meta}, None)
            if n % 500 == 0:
                await r.run(0.001)
        open_watch = reader.informer._reflector._watch
        assert open_watch is not None
        watch = open_watch.stream
        await r.run(1)
        await make(r, "last")
        assert isinstance(watch, ChannelWatch) and not watch._over
        assert BACKLOG_MAX <= watch._waiting <= BACKLOG_MAX + LAZY_MAX and watch._source.ended
        r.supervisor["reader"].resume()
        await r.run(5)
        assert reader.view() == stored(r) and len(reader.log) > BACKLOG_MAX


async def test_a_slow_reader_is_late_and_in_order() -> None:
    async with rig() as r:
        reader = Reader(r)
        await r.run(5)
        r.supervisor["reader"].slow(300_000)
        for n in range(5):
            await make(r, f"l{n}")
            await r.run(0.1)
        await r.run(5)
        assert [name for _, name, _ in reader.log] == [f"l{n}" for n in range(5)]
        assert reader.log[0][2] >= 6.3


class Over:
    """A server's watch that has nothing, and ends."""

    def __init__(self) -> None:
        self.ended = False
        self.tell: Callable[[], None] = lambda: None

    def attach(self, notify: Callable[[], None]) -> None:
        self.tell = notify

    def take(self, limit: int) -> list[Any]:
        return []

    def end(self) -> None:
        self.ended = True
        self.tell()


async def test_ended_watches_that_were_not_taken_yet_stay_ended_at_a_cut() -> None:
    async with rig() as r:
        channels: list[Channel] = []
        r.actor("reader", lambda ctx: channels.append(Channel(ctx, "reader", r.taps, "apiserver-0")))
        await r.run(1)
        (channel,) = channels
        sources: list[Any] = [Over(), Over(), Over()]
        watches = [channel.open(source, r.kernel.now_us, "pods") for source in sources]
        for source in sources[:2]:
            source.end()
        await r.run(1)
        r.cut("reader")
        assert [watch.ended for watch in watches] == [True, True, False]
        assert list(channel.watches.values()) == watches[2:]


# --- a lazy informer equals an eager one without notifications ------------------------------------


async def views(eager: bool, seed: int) -> tuple[list[dict[str, str]], list[tuple[str, ...]]]:
    """What a reader sees over a run with a partition, a server crash and a compaction of the
    history.
    """
    options = ApiServerOptions(
        disabled_admission=OPTIONS.disabled_admission, compaction_interval_us=30 * SECOND
    )
    async with rig(replicas=2, options=options, seed=seed) as r:
        draw = Random(seed)
        r.actor("writer", lambda ctx: Writer(r.client(ctx), draw).step(None))
        reader = Reader(r, eager=eager)
        seen: list[dict[str, str]] = []
        for half in range(600):
            at_s = half / 2
            if at_s in (40, 100):
                r.cut("reader")
            if at_s in (60, 160):
                r.heal("reader")
            if at_s in (200, 260):
                r.crash()
            if at_s in (203, 290):
                r.start()
            if at_s in (90, 220):
                r.plane.storage.store.compact(r.plane.storage.store.revision)
            await r.run(0.5)
            seen.append(dict(reader.view()))
        await r.run(60)
        assert reader.view() == stored(r)
        return seen, r.tap.told("resourceVersion")


class Writer:
    def __init__(self, client: Client, draw: Random) -> None:
        self.client = client
        self.draw = draw

    def step(self, _: Any) -> None:
        client, draw = self.client, self.draw
        name, verb = f"l{draw.randrange(20)}", draw.choice(["create", "create", "patch", "patch", "delete"])
        body: Any = None
        more: dict[str, Any] = {}
        if verb == "create":
            body = lease(name)
        elif verb == "patch":
            body = {"spec": {"holderIdentity": f"h{draw.randrange(99)}"}}
            more["content_type"] = "application/merge-patch+json"
        name = "" if verb == "create" else name
        client.call(client.request(verb, "leases", "default", name, body=body, **more), lambda _: None)
        if client.ctx.now_us() < 300 * SECOND:
            client.ctx.call_later_us(int(400_000 * draw.random()), self.step)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_lazy_informer_shows_what_an_eager_one_shows_through_faults(seed: int) -> None:
    (eager, eager_asked), (lazy, lazy_asked) = await views(True, seed), await views(False, seed)
    # a lazy one's delays are drawn when it looks: now and then an event is on its way for the one,
    # and there for the other
    assert sum(a != b for a, b in zip(eager, lazy, strict=True)) <= len(eager) // 100
    assert eager[-1] == lazy[-1]
    assert eager_asked == lazy_asked
    assert len({len(view) for view in eager}) > 5
