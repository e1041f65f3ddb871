"""Nodes in a cloud: when nodes of missing instances are deleted, and when those of stopped
instances are closed and opened.

A pass each 5 s checks the nodes that are not ready (v1.25
cloud-provider/controllers/nodelifecycle), so that its work is done within that time, plus the time
of its requests, after the event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from sim.api.objects import is_ready
from sim.api.store import Change
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.director import Director
from sim.errors import InputError
from sim.kernel import Trace, read
from sim.report.story import Book
from sim.scenario.compile import compile_plan
from sim.scenario.read.source import parse_documents
from sim.units import SECOND
from tests.cluster.faults.test_actions import WEB

PASS_US = 5 * SECOND + SECOND // 2  # the pause between passes, and what a pass takes
CLOUD = {"cloud-provider": "orrery"}
Span = tuple[int, int]


@asynccontextmanager
async def in_the_cloud(
    folder: Path, *timeline: Obj, nodes: int = 4, flags: Obj = CLOUD, seed: int = 1, **manager: Any
) -> AsyncIterator[Cluster]:
    """Nodes of a cloud to which this happens."""
    spec = {
        "duration": "60m",
        "cluster": {
            "nodes": [{"count": nodes, "flags": flags}],
            "controllerManager": {"flags": {**CLOUD, **manager}},
        },
        "timeline": list(timeline),
    }
    whole = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "t"}, "spec": spec}
    (document,) = parse_documents(yaml.safe_dump(whole), "t.yaml")
    plan = compile_plan(document, folder)
    trace = Trace(folder / "trace", {})
    try:
        async with Cluster(plan.cluster, seed=seed, trace=trace) as cluster:
            Director(cluster, lambda *_: None).schedule(plan.steps)
            yield cluster
    finally:
        trace.close()


def fails(at: str, node: str, how: str, lasts: str = "") -> Obj:
    step: Obj = {"at": at, "fail": {"nodes": {"name": node}, "how": how}}
    return step | ({"for": lasts} if lasts else {})


class Life:
    """Of one node, times of commit: when it was not ready, closed, there."""

    def __init__(self) -> None:
        self.unready: list[list[int]] = []
        self.closed: list[list[int]] = []
        self.there: list[list[int]] = []

    def see(self, change: Change, taint: str) -> None:
        obj = None if change.deleted else change.item.obj
        taints = () if obj is None else obj["spec"].get("taints") or ()
        for spans, holds in (
            (self.unready, obj is not None and not is_ready(obj)),
            (self.closed, any(each["key"] == taint for each in taints)),
            (self.there, obj is not None),
        ):
            open_ = bool(spans) and len(spans[-1]) == 1
            if holds and not open_:
                spans.append([change.at_us])
            elif open_ and not holds:
                spans[-1].append(change.at_us)


def lives(cluster: Cluster) -> dict[str, Life]:
    found: dict[str, Life] = {}

    def see(change: Change) -> None:
        name = change.item.key.rpartition("/")[2]
        found.setdefault(name, Life()).see(change, cluster.names.taint_shutdown)

    cluster.observe(see, ["nodes"])
    return found


def spans(found: Sequence[Sequence[int]], end_us: int) -> list[Span]:
    return [(each[0], each[1] if len(each) > 1 else end_us) for each in found]


async def test_node_is_deleted_with_its_instance_and_its_pods_after_their_quarantine(
    tmp_path: Path,
) -> None:
    async with in_the_cloud(tmp_path, fails("2m", "node-1", "instance-deleted")) as cluster:
        cluster.apply(WEB)
        life = lives(cluster)
        await cluster.run_until("10m")
        unready, (there,) = life["node-1"].unready[-1], life["node-1"].there
        assert 29 * SECOND <= unready[0] - 120 * SECOND <= 46 * SECOND
        assert 0 < there[1] - unready[0] <= PASS_US
        assert not [pod for pod in cluster.list("pods") if pod["spec"]["nodeName"] == "node-1"]
        events = [e for e in cluster.list("events") if e["reason"] == "DeletingNode"]
        assert [e["message"] for e in events] == [
            "Deleting node node-1 because it does not exist in the cloud provider"
        ]
        assert events[0]["source"]["component"] == "cloud-node-lifecycle-controller"
    book = Book(read(tmp_path / "trace"))
    gone = next(r for r in book.records if r.kind == "change" and r.values["what"] == "removed")
    assert gone.values["key"] == "//nodes//node-1"
    assert book.chain(gone)[0].values["name"] == "fail-1"


async def test_returning_instance_is_another_machine_with_an_empty_disk(tmp_path: Path) -> None:
    async with in_the_cloud(tmp_path, fails("2m", "node-1", "instance-deleted", "5m")) as cluster:
        life = lives(cluster)
        cluster.apply(WEB)
        await cluster.run_until("119s")
        assert cluster.nodes["node-1"].machine.pods
        await cluster.run_until("121s")
        assert not cluster.nodes["node-1"].machine.pods
        await cluster.run_until("10m")
        assert len(life["node-1"].there) == 2
        node = cluster.get("nodes", "node-1")
        assert node is not None and is_ready(node) and node["spec"]["providerID"] == "orrery://node-1"


@pytest.mark.parametrize("how", ["instance-stopped", "shutdown"])
async def test_a_node_is_closed_while_its_instance_is_stopped_and_open_when_it_is_ready(
    tmp_path: Path, how: str
) -> None:
    async with in_the_cloud(tmp_path, fails("2m", "node-1", how, "5m")) as cluster:
        life = lives(cluster)
        await cluster.run_until("10m")
        one = life["node-1"]
        ((closed, opened),) = one.closed
        assert len(one.there) == 1
        assert 0 < closed - one.unready[-1][0] <= PASS_US
        assert 0 < opened - one.unready[-1][1] <= PASS_US


async def test_what_the_cloud_knows_nothing_bad_of_is_left_alone(tmp_path: Path) -> None:
    ways = [fails("2m", f"node-{n}", how) for n, how in enumerate(("power-loss", "network-cut", "hang"))]
    async with in_the_cloud(tmp_path, *ways) as cluster:
        life = lives(cluster)
        await cluster.run_until("12m")
        assert not any(one.closed or len(one.there[0]) > 1 for one in life.values())


async def test_a_node_that_is_no_instance_goes_at_once_and_one_of_another_cloud_stays(tmp_path: Path) -> None:
    async with in_the_cloud(tmp_path) as cluster:
        cluster.apply(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "paper"}},
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "else"},
                "spec": {"providerID": "x://1"},
            },
        )
        await cluster.run_until("25s")
        assert cluster.get("nodes", "paper") is None and cluster.get("nodes", "else") is not None


async def test_instances_are_known_by_names_where_nodes_do_not_say_their_ids(tmp_path: Path) -> None:
    async with in_the_cloud(tmp_path, fails("2m", "node-1", "instance-deleted"), flags={}) as cluster:
        await cluster.run_until("4m")
        assert "providerID" not in (cluster.get("nodes", "node-0") or {"spec": {}})["spec"]
        assert cluster.get("nodes", "node-1") is None


@pytest.mark.parametrize("by_s", [0, 2])
async def test_each_question_takes_as_long_as_the_cloud_does(tmp_path: Path, by_s: int) -> None:
    """Of a node that is gone one, of others two; one node after the other, in the order of their
    names.
    """
    slow = {"at": "1m", "cloud": {"how": "slow", "by": f"{by_s}s"}}
    ways = [fails("2m", f"node-{n}", how) for n, how in enumerate(("instance-stopped", "instance-deleted"))]
    async with in_the_cloud(tmp_path, *ways, *([slow] if by_s else [])) as cluster:
        life = lives(cluster)
        await cluster.run_until("4m")
        closed, gone = life["node-0"].closed[0][0], life["node-1"].there[0][1]
        late = (gone - closed) % PASS_US if by_s else gone - closed
        assert by_s * SECOND <= late <= by_s * SECOND + SECOND // 2


def test_cloud_provider_flag_gets_the_simulated_cloud(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown cloud provider"):
        Cluster(_plan(tmp_path, {"cloud-provider": "moon"}))
    with pytest.raises(InputError, match="does nothing without cloud-provider"):
        Cluster(_plan(tmp_path, {"controllers": "*,cloud-node-lifecycle"}))
    for step in (fails("1m", "node-0", "instance-stopped"), {"at": "1m", "cloud": {"how": "outage"}}):
        with pytest.raises(InputError, match="no controller queries a cloud"):
            _plan(tmp_path, {}, step)


def _plan(folder: Path, flags: Obj, *steps: Obj) -> Any:
    cluster = {"nodes": [{"count": 1}], "controllerManager": {"flags": flags}}
    spec = {"cluster": cluster, "timeline": list(steps)}
    whole = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "t"}, "spec": spec}
    (document,) = parse_documents(yaml.safe_dump(whole), "t.yaml")
    return compile_plan(document, folder).cluster


# --- whole runs against the rule ------------------------------------------------------------------

HOWS = ("instance-deleted", "instance-stopped", "power-loss", "network-cut", "hang", "runtime-failure")
END_US = 1500 * SECOND


def drawn(draw: Random, nodes: int) -> tuple[list[Obj], dict[tuple[str, str], list[Span]]]:
    """Faults of nodes and of the cloud, and when which are in force, by target and kind."""
    timeline, force = [], dict[tuple[str, str], list[Span]]()
    for number in range(draw.randint(4, 12)):
        node, how = f"node-{draw.randrange(nodes)}", draw.choice(HOWS)
        at, lasts = draw.randint(60, 1200), draw.choice([0, draw.randint(5, 400)])
        timeline.append(fails(f"{at}s", node, how, f"{lasts}s" if lasts else ""))
        end_us = (at + lasts) * SECOND if lasts else END_US
        force.setdefault((node, how), []).append((at * SECOND, end_us))
        if draw.random() < 0.3:
            at, lasts = draw.randint(60, 1200), draw.randint(5, 200)
            deaf = {"at": f"{at}s", "name": f"deaf-{number}", "cloud": {"how": "outage"}, "for": f"{lasts}s"}
            timeline.append(deaf)
            force.setdefault(("cloud", "outage"), []).append((at * SECOND, (at + lasts) * SECOND))
    return timeline, force


def within(spans: Sequence[Span], at_us: int) -> bool:
    return any(begin <= at_us < end for begin, end in spans)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_drawn_faults_do_to_nodes_what_the_rule_says(tmp_path: Path, seed: int) -> None:
    """At each tenth of a second: an action meets exactly the instances that are up for the duration
    of a pass.
    """
    timeline, force = drawn(Random(seed), 6)
    async with in_the_cloud(tmp_path, *timeline, nodes=6, seed=seed) as cluster:
        life = lives(cluster)
        await cluster.run_until(END_US)
    deaf = force.get(("cloud", "outage"), [])
    for name, one in life.items():
        unready, closed = spans(one.unready, END_US), spans(one.closed, END_US)
        there = spans(one.there, END_US)
        gone = force.get((name, "instance-deleted"), [])
        stopped = force.get((name, "instance-stopped"), [])
        due = {"gone": 0, "closed": 0, "opened": 0}
        for at_us in range(30 * SECOND, END_US, SECOND // 10):
            down = within(unready, at_us) and not within(deaf, at_us)
            now = {
                "gone": down and within(gone, at_us),
                "closed": down
                and within(stopped, at_us)
                and not within(gone, at_us)
                and not within(closed, at_us),
                "opened": within(there, at_us) and not within(unready, at_us) and within(closed, at_us),
            }
            for act, holds in now.items():
                due[act] = due[act] + SECOND // 10 if holds else 0
                assert due[act] <= PASS_US, (name, act, at_us)
        for _, end_us in there:
            if end_us != END_US:
                assert within(gone, end_us) and not within(deaf, end_us), (name, end_us)
        for begin_us, end_us in closed:
            assert within(stopped, begin_us) and within(unready, begin_us - 1), (name, begin_us)
            if end_us != END_US and within(there, end_us):
                assert not within(unready, end_us), (
                    name,
                    end_us,
                )
