"""After any faults of servers, storage, lines and readers, every reader finally shows what is
stored.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from sim.client import Channel, Client, Informers
from sim.client.cache.informer import Informer
from sim.kernel import Context, Rule
from sim.units import SECOND
from tests.actor.apiserver.cluster import ADMIN, SCHEME
from tests.actor.client.rig import Rig, rig

READERS, NAMES, TURNS = 4, 6, 40
SELECTIONS: list[dict[str, str]] = [
    {},
    {"fields": "metadata.name=l3"},
    {"namespace": "default"},
    {"labels": "a=b"},
]
MENDED_S = 260  # a reader waits up to a minute between connections, and 60 s for a lost request


class Trouble:
    """Faults of a small control plane, each until its end."""

    def __init__(self, r: Rig, draw: Random) -> None:
        self.rig, self.draw = r, draw
        self.ends: dict[int, Callable[[], None]] = {}

    def begin(self, number: int) -> None:
        r, draw = self.rig, self.draw
        server, storage, network = draw.choice(r.plane.servers), r.plane.storage, r.kernel.network
        reader = f"r{draw.randrange(READERS)}"
        actor = r.supervisor[server.name]

        def cut(source: str, target: str | None, both_ways: bool) -> Callable[[], None]:
            targets = None if target is None else frozenset({target})
            network.impose(Rule(f"cut {number}", frozenset({source}), targets, cut=True, both_ways=both_ways))
            return lambda: network.lift(f"cut {number}")

        def set_extra(seconds: int) -> None:
            storage.extra_us = seconds * SECOND

        kinds: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            "crash": (actor.crash, actor.start),
            "stall": (actor.pause, actor.resume),
            "lag": (lambda: server.trail.lag(draw.randrange(60) * SECOND), lambda: server.trail.lag(0)),
            "freeze": (lambda: server.trail.freeze(True), lambda: server.trail.freeze(False)),
            "slow": (lambda: server.overload(draw.randrange(1, 7) * SECOND, None), lambda: server.overload(0, None)),
            "full": (lambda: server.overload(0, 0), lambda: server.overload(0, None)),
            "storage stall": (r.supervisor["storage"].pause, r.supervisor["storage"].resume),
            "quorum": (lambda: storage.set_quorum(False), lambda: storage.set_quorum(True)),
            "disk": (lambda: set_extra(draw.randrange(9)), lambda: set_extra(0)),
            "reader stall": (r.supervisor[reader].pause, r.supervisor[reader].resume),
        }  # fmt: skip
        often = ["compact", "line", "quorum", "storage stall", "crash"] * 3
        kind = draw.choice([*kinds, "drop", "cut", *often])
        if kind == "drop":
            server.drop_watches("", "")
        elif kind == "compact":
            storage.store.compact(storage.store.revision)
        elif kind == "cut":
            self.ends[number] = cut(reader, draw.choice([None, server.name]), draw.random() < 0.6)
        elif kind == "line":
            self.ends[number] = cut(server.name, "storage", draw.random() < 0.5)
        elif server.running or kind not in ("crash", "stall"):
            kinds[kind][0]()
            self.ends[number] = kinds[kind][1]

    def end_one(self) -> None:
        if self.ends:
            self.ends.pop(self.draw.choice(list(self.ends)))()

    def end_all(self) -> None:
        for end in self.ends.values():
            end()
        for server in self.rig.plane.servers:
            if not server.running:
                self.rig.supervisor[server.name].start()


def write(r: Rig, draw: Random, number: int) -> None:
    """Create, change or delete a lease."""
    store, name = r.plane.storage.store, f"l{draw.randrange(NAMES)}"
    key = SCHEME.key("leases", "default", name)
    item = store.get(key)
    labels, spec = {"a": draw.choice("bc")}, {"leaseTransitions": number}
    if not r.plane.storage.prompt:
        return
    if item is None:
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": "default",
            "uid": f"u{number}",
            "labels": labels,
        }
        store.put(key, {"metadata": metadata, "spec": spec}, 0)
    elif draw.random() < 0.3:
        store.delete(key, item.rev)
    else:
        store.put(
            key, {**item.obj, "metadata": {**item.obj["metadata"], "labels": labels}, "spec": spec}, item.rev
        )


def wanted(r: Rig, selection: dict[str, str]) -> dict[str, str]:
    """Revisions by key of what is stored and selected."""
    items = r.plane.storage.store.bucket(SCHEME.prefix("leases")).items.values()
    return {
        f"default/{item.obj['metadata']['name']}": str(item.rev)
        for item in items
        if (selection != SELECTIONS[1] or item.obj["metadata"]["name"] == "l3")
        and (selection != SELECTIONS[3] or item.obj["metadata"]["labels"]["a"] == "b")
    }


# 105: a server that started while the storage was silent
@pytest.mark.parametrize("seed", [3, 29, 105])
async def test_in_the_end_every_reader_shows_what_is_stored(seed: int) -> None:
    draw = Random(seed)
    async with rig(replicas=draw.choice([1, 2, 3]), seed=seed) as r:
        for server in r.plane.servers:
            r.taps[server.name] = server  # as they are: watches say no more than their readers need
        readers: list[tuple[dict[str, str], Informer]] = []

        def reader(number: int) -> None:
            selection, order = SELECTIONS[draw.randrange(4)], [*r.taps]
            draw.shuffle(order)

            def main(ctx: Context) -> None:
                channels = [Channel(ctx, ctx.name, r.taps, name) for name in order]
                informers = Informers(ctx, Client(ctx, SCHEME, channels, ADMIN, qps=0))
                informer = informers.selected("leases", **selection)
                if number % 2:
                    informer.on(update=lambda _, __: None)
                informers.start()
                readers.append((selection, informer))

            r.actor(f"r{number}", main)

        for number in range(READERS):
            reader(number)
        await r.run(2)
        trouble = Trouble(r, draw)
        for turn in range(TURNS):
            for count in range(draw.randrange(6)):
                write(r, draw, 10 * turn + count)
                await r.run(3 * draw.random())
            if draw.random() < 0.6:
                trouble.begin(turn)
            if draw.random() < 0.6:
                trouble.end_one()
            await r.run(draw.choice([0.0005, 0.5, 3, 20, 90]))
            if draw.random() < 0.3:
                for _, informer in readers:
                    # A reader without notifications takes the changes now.
                    assert informer.objects is not None
        trouble.end_all()
        for pause_s in (5, MENDED_S, 5):
            await r.run(pause_s)
            for number in range(3):
                write(r, draw, 1_000 + number)
        await r.run(5)
        assert len(readers) == READERS
        for selection, informer in readers:
            shown = {key: obj["metadata"]["resourceVersion"] for key, obj in informer.objects.items()}
            assert shown == wanted(r, selection)
