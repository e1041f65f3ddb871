"""Indexes, routes and selections of informers on real API servers: what they show is what a search
would find.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from sim.client import Informers
from sim.kernel import Context
from tests.actor.apiserver.cluster import lease
from tests.actor.client.rig import rig
from tests.actor.client.test_informer import Reader, make, stored


@pytest.mark.parametrize("eager", [True, False])
async def test_an_index_shows_what_a_search_would(eager: bool) -> None:
    async with rig() as r:
        reader, draw = Reader(r, eager=eager), Random(7)
        for step in range(60):
            name, holder = f"l{draw.randrange(8)}", f"h{draw.randrange(3)}"
            got = await r.plane.ask("get", "leases", name=name)
            if not got.ok:
                await r.plane.ask("create", "leases", body=lease(name, holderIdentity=holder))
            elif draw.random() < 0.3:
                await r.plane.ask("delete", "leases", name=name)
            else:
                new = {**got.obj, "spec": {"holderIdentity": holder}}
                await r.plane.ask("update", "leases", name=name, body=new)
            if step % 5 == 0:
                await r.run(1)
                assert reader.view() == stored(r)
                for value in ("h0", "h1", "h2"):
                    found = [o["metadata"]["name"] for o in reader.informer.by_index("holder", value)]
                    wanted = [
                        o["metadata"]["name"]
                        for o in reader.informer.list()
                        if o["spec"]["holderIdentity"] == value
                    ]
                    assert sorted(found) == wanted
        assert reader.names() == sorted(reader.names())


@pytest.mark.parametrize("changes", [False, True])
async def test_index_filled_at_its_first_read_equals_one_filled_from_the_start(
    changes: bool,
) -> None:
    async with rig() as r:
        reader, draw = Reader(r), Random(3)
        for name in ("kept", "made"):
            reader.informer.add_index(name, _colours, ("metadata", "labels"))
        assert reader.informer.by_index("kept", "red") == []
        for _ in range(40):
            name, colour = f"l{draw.randrange(8)}", draw.choice(["red", "blue"])
            got = await r.plane.ask("get", "leases", name=name)
            if not got.ok:
                new = lease(name)
                new["metadata"]["labels"] = {"colour": colour}
                await r.plane.ask("create", "leases", body=new)
            elif draw.random() < 0.3:
                await r.plane.ask("delete", "leases", name=name)
            elif changes:
                new = {**got.obj, "metadata": {**got.obj["metadata"], "labels": {"colour": colour}}}
                await r.plane.ask("update", "leases", name=name, body=new)
            await r.run(1)
        for colour in ("red", "blue"):
            kept, made = (reader.informer.by_index(name, colour) for name in ("kept", "made"))
            assert kept == made and len(kept) > 1


def _colours(obj: Any) -> list[str]:
    return [obj["metadata"].get("labels", {}).get("colour", "")]


async def test_route_skips_unconcerned_handlers_and_reports_its_own_change_to_all() -> None:
    async with rig() as r:
        told: dict[str, list[str]] = {"red": [], "blue": [], "": []}

        def main(ctx: Context) -> None:
            informers = Informers(ctx, r.client(ctx))
            leases = informers["leases"]
            leases.route(lambda obj: obj["metadata"].get("labels", {}).get("colour", ""), "labels")
            for about, log in told.items():
                leases.on(
                    add=lambda obj, log=log: log.append("add"),  # type: ignore[misc]
                    update=lambda old, new, log=log: log.append("update"),  # type: ignore[misc]
                    delete=lambda obj, log=log: log.append("delete"),  # type: ignore[misc]
                    about=about,
                )
            informers.start()

        async def change(holder: str, **labels: str) -> None:
            old = (await r.plane.ask("get", "leases", name="a")).obj
            meta = {**old["metadata"], "labels": labels} if labels else old["metadata"]
            body = {**old, "metadata": meta, "spec": {**old["spec"], "holderIdentity": holder}}
            assert (await r.plane.ask("update", "leases", name="a", body=body)).ok
            await r.run(1)

        r.actor("painter", main)
        await r.run(1)
        await make(r, "a")
        await r.run(1)
        assert told == {"red": ["add"], "blue": ["add"], "": ["add"]}
        await change("h0", colour="red")
        assert told == {"red": ["add", "update"], "blue": ["add", "update"], "": ["add", "update"]}
        await change("h1")
        assert (len(told["red"]), len(told["blue"]), len(told[""])) == (3, 2, 3)
        await r.plane.ask("delete", "leases", name="a")
        await r.run(1)
        assert told["blue"] == ["add", "update"]
        assert told["red"] == told[""] == ["add", "update", "update", "delete"]


async def test_a_selected_informer_sees_objects_come_into_and_leave_its_selection() -> None:
    async with rig() as r:
        log: list[tuple[str, str]] = []

        def main(ctx: Context) -> None:
            informers = Informers(ctx, r.client(ctx))
            chosen = informers.selected("leases", labels="on=yes")
            chosen.on(
                add=lambda obj: log.append(("add", obj["metadata"]["name"])),
                delete=lambda obj: log.append(("delete", obj["metadata"]["labels"]["on"])),
            )
            informers.start()

        r.actor("chooser", main)
        made = (await r.plane.ask("create", "leases", body=lease("a"))).obj
        for value in ("yes", "no"):
            await r.run(1)
            made = {**made, "metadata": {**made["metadata"], "labels": {"on": value}}}
            made = (await r.plane.ask("update", "leases", name="a", body=made)).obj
        await r.run(1)
        assert log == [("add", "a"), ("delete", "yes")]
