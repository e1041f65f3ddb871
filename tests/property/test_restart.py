"""Agents that start on nodes with running pods: the fast paths that detect that nothing has changed
equal the ordinary ones.

The same holds for the fast reads of an item, and of a runtime.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.controllers.garbagecollector.loop import _owner_uids
from actors.controllers.shared.pod_owners import label_values, namespace_values, owner_values
from actors.node.pods import pod_status
from actors.node.pods.pod_status import conditions_of
from actors.node.pods.status_manager import StatusManager
from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.profile import FOREVER
from actors.storage.compact.items import PackedItem, Packer
from sim.api.store import Item
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.client.cache.indexes import Index
from sim.scenario.plan.plan import ClusterPlan
from tests.property.test_packed import exact

PLAN = ClusterPlan(nodes=plain_nodes(2))
FOREIGN = {"type": "example.com/ok", "status": "True"}
# What others do to a pod's status.
WRITES: dict[str, Any] = {
    "foreign": lambda held: {"conditions": [FOREIGN, *held.get("conditions", ())]},
    "twice": lambda held: {
        "conditions": [FOREIGN, {**FOREIGN, "status": "False"}, *held.get("conditions", ())]
    },
    "none": lambda held: {"conditions": []},
    "turned": lambda held: {"conditions": held.get("conditions", [])[::-1]},
    "probed": lambda held: {
        "conditions": [
            {**each, "lastProbeTime": "2020-01-01T00:00:00Z"} for each in held.get("conditions", ())
        ]
    },
    "failed": lambda held: {"phase": "Failed"},
    "reason": lambda held: {"reason": "Other", "message": "somebody else's"},
    "address": lambda held: {"podIP": "", "podIPs": []},
    "bare": lambda held: {"containerStatuses": []},
}
WAYS = ["delete", "force", "label", *WRITES]
# To which pod, what, and how long after the agents' end; they start after a second.
Meddling = list[tuple[int, str, int]]


def workload(name: str, count: int, **more: Any) -> dict[str, Any]:
    container = {"name": "app", "image": "i:1", **more.pop("container", {})}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **more}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": count, "selector": {"matchLabels": labels}, "template": template},
    }


WORKLOADS = [
    workload("plain", 5),
    workload("gated", 1, readinessGates=[{"conditionType": FOREIGN["type"]}]),
    workload("probed", 1, container={"readinessProbe": {"tcpSocket": {"port": 80}}}),
    workload("prepared", 1, initContainers=[{"name": "first", "image": "i:2"}]),
    workload("crashing", 1, container={"command": ["false"]}),
]


@contextmanager
def long_ways() -> Iterator[None]:
    """What is known is found again each time."""
    put = StatusManager.set
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StatusManager, "set", lambda self, uid, status, shown=None: put(self, uid, status))
        patch.setattr(pod_status, "_unchanged_conditions", lambda *_: None)
        patch.setattr(PackedItem, "peek", Item.peek)
        yield


def meddle(cluster: Cluster, number: int, way: str) -> None:
    pods = cluster.list("pods")
    pod = pods[number % len(pods)]
    meta, held = pod["metadata"], pod.get("status") or {}
    where = "pods", meta["namespace"], meta["name"]
    if way in ("delete", "force"):
        assert cluster.request(
            "delete", *where, body={"gracePeriodSeconds": 0} if way == "force" else None
        ).ok
    elif way == "label":
        body = {**pod, "metadata": {**meta, "labels": {**meta["labels"], "more": "yes"}}}
        assert cluster.request("update", *where, body=body).ok
    else:
        body = {**pod, "status": {**held, **WRITES[way](held)}}
        assert cluster.request("update", *where, body=body, subresource="status").ok


async def history(chosen: Meddling) -> tuple[str, str]:
    pod_status._conditions.clear()
    async with Cluster(PLAN, seed=1) as cluster:
        bucket = cluster.storage.store.bucket(cluster.scheme.resource("pods").prefix)
        bucket.packer = Packer(bucket.items, 1)
        cluster.apply(*WORKLOADS)
        await cluster.run_for("40s")
        assert any(type(item) is PackedItem for item in bucket.items.values())
        agents = [cluster.supervisor.actors[name] for name in cluster.nodes]
        for agent in agents:
            agent.crash("by the test")
        down_us = cluster.kernel.now_us
        plans = [(at_ms, number, way) for number, way, at_ms in chosen]
        for at_ms, number, way in sorted([*plans, (1_000, 0, "start")]):
            await cluster.run_until(down_us + at_ms * 1_000)
            if way == "start":
                for agent in agents:
                    agent.start()
            else:
                meddle(cluster, number, way)
        await cluster.run_for("40s")
        # Sorted: what an agent puts back has its members in the order of the copy that it held.
        return cluster.kernel.trace.sha256(), json.dumps(cluster.list("pods"), sort_keys=True)


@settings(max_examples=12, deadline=None)
@example([(number, "twice", 200) for number in range(9)])
@example([(number, way, 200) for number, way in enumerate(WAYS)])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 8), st.sampled_from(WAYS), st.sampled_from([200, 400, 1_005, 1_300, 2_100, 9_000])
        ),
        max_size=6,
    )
)
def test_starting_agents_send_the_same_requests_with_and_without_fast_paths(chosen: Meddling) -> None:
    short = trio.run(history, chosen)
    with long_ways():
        assert trio.run(history, chosen) == short


OWN = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
words = st.sampled_from(["", "Why"])


@st.composite
def shown(draw: st.DrawFn) -> dict[str, Any]:
    """A condition as the API may hold it."""
    held: dict[str, Any] = {
        "type": draw(st.sampled_from(OWN)),
        "status": draw(st.sampled_from(["True", "False"])),
    }
    for name, values in (
        ("lastProbeTime", [None, "2020-01-01T00:00:00Z"]),
        ("lastTransitionTime", ["2026-01-02T03:04:05Z", None]),
        ("reason", ["Why"]),
        ("message", ["because"]),
    ):
        if draw(st.booleans()):
            held[name] = draw(st.sampled_from(values))
    return held


@given(
    st.lists(shown(), max_size=5),
    st.booleans(),
    st.lists(st.tuples(st.booleans(), words, words), min_size=4, max_size=4),
)
def test_conditions_that_stand_are_those_that_would_come_out(
    old: list[dict[str, Any]], alike: bool, verdicts: list[tuple[bool, str, str]]
) -> None:
    told = tuple([(kind, str(good), *why) for kind, (good, *why) in zip(OWN, verdicts, strict=True)])
    if alike:
        old = conditions_of(told, (), "2026-01-02T03:04:05Z") + old[:1]
    pod_status._conditions.clear()
    found = conditions_of(told, old, "2026-07-08T09:10:11Z")
    pod_status._conditions.clear()
    with long_ways():
        assert exact(conditions_of(told, old, "2026-07-08T09:10:11Z")) == exact(found)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([None, 3, 8])), max_size=5), st.integers(0, 10)
)
def test_what_a_runtime_shows_of_its_containers_is_what_a_look_at_all_of_them_would(
    starts: list[tuple[str, int | None]], now_us: int
) -> None:
    runtime = PodRuntime("u", "default", "web")
    for attempt, (name, exit_us) in enumerate(starts):
        container = Container(runtime, name, attempt, "i:1", FOREVER)
        container.started_us, container.exit_us = attempt, exit_us
        runtime.add(container)
        everyone = runtime.containers
        for name in "ab":
            of_name = [each for each in everyone if each.name == name]
            assert runtime.instances(name) == of_name
            assert runtime.newest(name) is (of_name[-1] if of_name else None)
        newest = {each.name: each for each in everyone}
        assert runtime.running(now_us) == [each for each in newest.values() if each.running(now_us)]


REF = {"kind": "ReplicaSet", "name": "web", "uid": "u-1"}
owned = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")),
        "ownerReferences": st.lists(st.sampled_from([{**REF, "controller": True}, REF]), max_size=2),
        "annotations": st.just({"a": "b"}),
    },
)


@given(st.lists(owned, min_size=1, max_size=5))
def test_an_index_of_a_lasting_part_reads_of_an_item_what_it_reads_of_the_object(
    metas: list[dict[str, Any]],
) -> None:
    packer, items = Packer({}), []
    for rev, more in enumerate(metas, 1):
        meta = {"name": f"web-{rev}", "namespace": "default", "resourceVersion": str(rev), **more}
        items.append(packer.item(f"//pods/default/web-{rev}", {"metadata": meta, "spec": {}}, rev, rev))
    plain = [item.obj for item in items]
    packer.pack(items)
    assert all(type(item) is PackedItem for item in items)
    for fn, part in (
        (label_values, "labels"),
        (owner_values, "ownerReferences"),
        (_owner_uids, "ownerReferences"),
        (namespace_values, "namespace"),
    ):
        index = Index(fn, ("metadata", part))
        for item, obj in zip(items, plain, strict=True):
            assert fn(index.read(item)) == fn(item.obj) == fn(obj)
