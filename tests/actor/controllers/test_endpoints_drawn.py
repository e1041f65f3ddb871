"""Endpoints and slices after random changes equal those computed from all present objects.

The controllers process only pods that have changed since their last sync, and skip a sync that
would find nothing. These tests fail if a pod is used in an old revision, if a deleted pod remains,
or if a revision is taken for another one.
"""

from __future__ import annotations

from random import Random

import pytest

from actors.controllers.endpoint import subsets_of
from actors.controllers.endpoint import view_of as address_view
from actors.controllers.endpointslice.decide import view_of as endpoint_view
from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.controllers.test_endpoints import LOOPS, pod, service
from tests.actor.controllers.workload import World, world

NODES = ("n1", "n2")


class Drawn:
    """Random changes of a few pods."""

    def __init__(self, w: World, seed: int) -> None:
        self.w = w
        self.draw = Random(seed)
        self.pods: dict[str, str] = {}  # name -> address
        self.made = 0

    async def change(self) -> None:
        draw, w = self.draw, self.w
        name = f"p{draw.randrange(6)}"
        if name not in self.pods:
            self.made += 1
            self.pods[name] = f"10.9.{draw.randrange(200)}.{self.made}"
            await w.create("pods", pod(name, draw.choice(NODES), tier=draw.choice("xy")))
            return
        what = draw.randrange(9)
        if what < 4:
            await w.make_ready(name, draw.random() < 0.6, self.pods[name])
        elif what < 6:
            await w.patch("pods", name, {"metadata": {"labels": {"app": draw.choice("aab")}}})
        elif what == 6:
            del self.pods[name]
            await w.delete("pods", name)
        elif what == 7:
            await w.patch(
                "services", "s", {"spec": {"selector": {"app": "a", "tier": draw.choice(["x", None])}}}
            )
        else:
            zone = {w.plane.server.scheme.names.label_zone: draw.choice("ab")}
            await w.patch("nodes", draw.choice(NODES), {"metadata": {"labels": zone}})


async def wanted(w: World) -> tuple[list[Obj], list[tuple[str, bool, str]]]:
    """(subsets, [(address, True if ready, zone)] of the slices) for the present objects."""
    stored = await w.get("services", "s")
    selector = stored["spec"]["selector"].items()
    chosen = [p for p in await w.stored("pods") if selector <= p["metadata"].get("labels", {}).items()]
    subsets = subsets_of([address_view(p, stored) for p in chosen])
    label = w.plane.server.scheme.names.label_zone
    nodes = {n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in await w.stored("nodes", "")}
    views = [endpoint_view(p, stored) for p in chosen]
    endpoints = [(v.endpoints["IPv4"][1], nodes[v.node].get(label, "")) for v in views if v.endpoints]
    return subsets, sorted((e["addresses"][0], e["conditions"]["ready"], zone) for e, zone in endpoints)


@pytest.mark.parametrize("seed", range(6))
async def test_endpoints_and_slices_match_the_present_pods(seed: int) -> None:
    async with world(LOOPS) as w:
        drawn = Drawn(w, seed)
        for node in NODES:
            await w.create("nodes", {"metadata": {"name": node}}, "")
        await w.create("services", service())
        for _ in range(25):
            for _ in range(drawn.draw.randrange(1, 5)):
                await drawn.change()
            # A zone change shows with the next change of a pod, so the last change is one of a pod.
            await w.settle(drawn.draw.choice((1, 3)) * SECOND)
            ready = drawn.draw.random() < 0.5
            for name, ip in drawn.pods.items():
                await w.make_ready(name, ready, ip)
            await w.settle(10 * SECOND)
            subsets, endpoints = await wanted(w)
            assert (await w.get("endpoints", "s")).get("subsets", []) == subsets
            pieces = await w.stored("endpointslices")
            found = [
                (e["addresses"][0], e["conditions"]["ready"], e.get("zone", ""))
                for p in pieces
                for e in p.get("endpoints") or ()
            ]
            assert sorted(found) == endpoints
