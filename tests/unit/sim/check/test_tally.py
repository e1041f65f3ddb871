"""What a condition counts is what a look at everything would find, after every commit."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from sim.api.store import Change, Item
from sim.check import World, parse_condition
from sim.check.tally import Tally
from sim.ident import NAMES

NAMES_ = NAMES["orch"]
WHICH = [
    "",
    " in zone a",
    " in zone a,b",
    " in zone c",
    " in zone a on node n1,n2",
    " in zone b labelled app=x",
    " on node n0",
]
WHAT = ["are Running", "are ready", "exist", "are Running and ready", "are terminating", "are not Running"]


def drawn_pod(random: Random, name: str) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "labels": {"app": random.choice("xy")}}
    if random.random() < 0.2:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    node = random.choice(["", "n0", "n1", "n2"])
    ready = {"type": "Ready", "status": random.choice(["True", "False"])}
    status = {"phase": random.choice(["Pending", "Running"]), "conditions": [ready]}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": status}


def naive(
    objects: dict[str, dict[str, Any]], zones: dict[str, str], which: str, what: str
) -> tuple[int, int]:
    """How many pods are meant, and of how many it is true: by looking at all of them."""
    selected = true = 0
    for pod in objects.values():
        words, node = which.split(), pod["spec"].get("nodeName", "")
        if "zone" in words and zones.get(node, "") not in words[words.index("zone") + 1].split(","):
            continue
        if "node" in words and node not in words[words.index("node") + 1].split(","):
            continue
        if "labelled" in words and pod["metadata"]["labels"]["app"] != "x":
            continue
        runs = pod["status"]["phase"] == "Running"
        ready = pod["status"]["conditions"][0]["status"] == "True"
        selected += 1
        true += {
            "are Running": runs,
            "are ready": ready,
            "exist": True,
            "are Running and ready": runs and ready,
            "are terminating": "deletionTimestamp" in pod["metadata"],
            "are not Running": not runs,
        }[what]
    return selected, true


@pytest.mark.parametrize("seed", range(8))
def test_a_pod_is_in_the_zone_in_which_its_node_is_now(seed: int) -> None:
    random = Random(seed)
    world = World(NAMES_, {"n0": "a"})
    asked = [(which, what) for which in WHICH for what in WHAT]
    tallies = [Tally(parse_condition(f"any pods{which} {what}", NAMES_)) for which, what in asked]
    items: dict[str, Item] = {}
    pods: dict[str, dict[str, Any]] = {}
    zones = {"n0": "a"}
    for rev in range(1, 120):
        name = random.choice(["n0", "n1", "n2", "p0", "p1", "p2", "p3"])
        resource = "nodes" if name[0] == "n" else "pods"
        key = f"//nodes//{name}" if resource == "nodes" else f"//pods/default/{name}"
        prev = items.get(key)
        gone = prev is not None and random.random() < 0.2
        if gone and prev is not None:
            obj = prev.obj
        elif resource == "nodes":
            zone = random.choice("abc")
            zones[name] = zone
            obj = {"metadata": {"name": name, "labels": {NAMES_.label_zone: zone}}}
        else:
            obj = pods[name] = drawn_pod(random, name)
        if gone and resource == "pods":
            del pods[name]
        item = items[key] = Item(key, obj, rev, rev)
        if gone:
            del items[key]
        change = Change(rev, item, prev, gone, rev)
        if resource == "nodes":
            world.see("nodes", change)
        for tally, (which, what) in zip(tallies, asked, strict=True):
            tally.see(world, resource, change)
            assert (tally.selected, tally.true) == naive(pods, zones, which, what), (rev, which, what)
