"""How long pods stay on tainted nodes: taints, tolerations and faults drawn at random, under
leaders that die.

What is wanted is worked out here from the rules alone (known cases 11 and 12, and that a leader
knows nothing of what the one before it had granted) and from what was committed to nodes and pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from sim.api.store import Change
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from tests.cluster.seen import Seen, pods_with
from tests.cluster.timing.test_timing_waiting_nodes import MERGE

UNTIL_S = 1200
# A DELETE waits for the tokens of the client by which taints and pods' statuses are written too.
LATE_S = 2.5
MINE = ("k1", "k2")  # keys of taints that a user sets
AT_ONCE = -1


@dataclass(slots=True)
class Log:
    """What was committed: when, to what, its object (None: removed)."""

    nodes: list[tuple[int, str, Obj | None]] = field(default_factory=list)
    pods: list[tuple[int, str, Obj | None]] = field(default_factory=list)

    def see(self, change: Change) -> None:
        where = {"nodes": self.nodes, "pods": self.pods}.get(change.item.key.split("/", 3)[2])
        if where is not None:
            obj = None if change.deleted else change.item.obj
            where.append((change.at_us, change.item.key, obj))

    def of(self, begins_us: int, ends_us: int) -> list[tuple[int, bool, str, Obj | None]]:
        """What a leader of that time sees: what there is when it begins, pods first, and what is
        committed then.
        """
        merged = [(at, True, key, obj) for at, key, obj in self.nodes]
        merged += [(at, False, key, obj) for at, key, obj in self.pods]
        before = {
            (of_node, key): obj for at, of_node, key, obj in sorted(merged, key=_when) if at <= begins_us
        }
        found = [(begins_us, of_node, key, obj) for (of_node, key), obj in before.items()]
        found.sort(key=lambda entry: entry[1])
        return found + sorted((entry for entry in merged if begins_us < entry[0] < ends_us), key=_when)


def _when(entry: tuple[int, bool, str, Obj | None]) -> tuple[int, bool]:
    return entry[0], not entry[1]


def stay_s(taints: Sequence[Obj], tolerations: Sequence[Obj]) -> int | None:
    """What these taints leave a pod: AT_ONCE nothing at all, None all time."""
    limits = []
    for taint in taints:
        fits = [t for t in tolerations if t.get("key", taint["key"]) == taint["key"]]
        fits = [
            t for t in fits if t.get("operator") == "Exists" or t.get("value", "") == taint.get("value", "")
        ]
        if not fits:
            return AT_ONCE
        limits.append(fits[0].get("tolerationSeconds"))
    return min((max(0, limit) for limit in limits if limit is not None), default=None)


class Leader:
    """The timers that one leader has started, and the pods that it has evicted."""

    def __init__(self) -> None:
        self._taints: dict[str, list[Obj]] = {}
        self._pods: dict[str, Obj] = {}
        self._due_us: dict[str, int] = {}
        self.sent: dict[str, int] = {}

    def pass_to(self, at_us: int) -> None:
        for uid, due_us in list(self._due_us.items()):
            if due_us <= at_us:
                self._send(uid, due_us)

    def _send(self, uid: str, at_us: int) -> None:
        self._due_us.pop(uid, None)
        self.sent.setdefault(uid, at_us)

    def node(self, at_us: int, key: str, node: Obj | None) -> None:
        name = key.rsplit("/", 1)[1]
        taints = [
            taint
            for taint in (node or {"spec": {}})["spec"].get("taints") or ()
            if taint["effect"] == "NoExecute"
        ]
        if taints == self._taints.get(name, []):
            return
        self._taints[name] = taints
        for pod in self._pods.values():
            if pod["spec"]["nodeName"] == name:
                self._judge(at_us, pod)

    def pod(self, at_us: int, key: str, pod: Obj | None) -> None:
        before = self._pods.pop(key, None)
        if pod is None:
            if before is not None:
                self._due_us.pop(before["metadata"]["uid"], None)
            return
        self._pods[key] = pod
        same = before is not None and before["spec"]["tolerations"] == pod["spec"]["tolerations"]
        if not same and self._taints.get(pod["spec"]["nodeName"]):
            self._judge(at_us, pod)

    def _judge(self, at_us: int, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        left = stay_s(self._taints[pod["spec"]["nodeName"]], pod["spec"]["tolerations"])
        if left is None:
            self._due_us.pop(uid, None)
        elif left == AT_ONCE:
            self._send(uid, at_us)
        elif uid not in self._due_us and uid not in self.sent:
            self._due_us[uid] = at_us + left * SECOND


def wanted(log: Log, reigns: Sequence[tuple[int, int]]) -> dict[str, int]:
    """By uid: when each pod is first evicted."""
    first: dict[str, int] = {}
    for begins_us, ends_us in reigns:
        leader = Leader()
        for at_us, of_node, key, obj in log.of(begins_us, ends_us):
            leader.pass_to(at_us)
            (leader.node if of_node else leader.pod)(at_us, key, obj)
        leader.pass_to(ends_us)
        first = {**leader.sent, **first}
    return first


def gone(log: Log) -> dict[str, int]:
    """By uid: when each pod was marked for deletion, or removed."""
    uids: dict[str, str] = {}
    first: dict[str, int] = {}
    for at_us, key, pod in log.pods:
        uid = uids.setdefault(key, "" if pod is None else pod["metadata"]["uid"])
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            first.setdefault(uid, at_us)
    return first


class Story:
    """Faults of nodes, taints and tolerations set by users, leaders that crash and return, at
    random.
    """

    def __init__(self, cluster: Cluster, draw: Random) -> None:
        self._cluster = cluster
        self._draw = draw
        self._down: list[str] = []
        self._dead: str = ""
        self.crashes: list[int] = []

    def tolerations(self) -> list[Obj]:
        draw, names = self._draw, self._cluster.names
        keys = [
            key for key in (names.taint_unreachable, names.taint_not_ready, *MINE) if draw.random() < 0.55
        ]
        found = [
            self._toleration({"key": key}, draw.choice((0, 5, 20, 40, 60, 120, 300, None))) for key in keys
        ]
        if draw.random() < 0.15:
            found.append(self._toleration({}, None))
        if draw.random() < 0.1:
            found.insert(0, self._toleration({}, draw.choice((15, 50))))
        return found

    def _toleration(self, which: Mapping[str, str], seconds: int | None) -> Obj:
        by_value = which.get("key") in MINE and self._draw.random() < 0.3
        how = {"value": self._draw.choice("vw")} if by_value else {"operator": "Exists"}
        limit = {} if seconds is None else {"tolerationSeconds": seconds}
        return {**which, **how, "effect": "NoExecute", **limit}

    def step(self) -> None:
        chance, node = self._draw.random(), self._draw.choice(list(self._cluster.nodes))
        if chance < 0.3 and node not in self._down:
            how = self._draw.choice(("power-loss", "network-cut", "hang", "runtime-failure"))
            self._cluster.fail_node(node, how)
            self._down.append(node)
        elif chance < 0.55 and self._down:
            self._cluster.heal_node(self._down.pop(self._draw.randrange(len(self._down))))
        elif chance < 0.7:
            self._taint(node)
        elif chance < 0.8:
            self._tolerate()
        elif chance < 0.9:
            self._lead_otherwise()

    def _taint(self, node: str) -> None:
        """Set one of ours, or take one off."""
        obj = self._cluster.get("nodes", node)
        assert obj is not None
        taints = [*(obj["spec"].get("taints") or ())]
        mine = [taint for taint in taints if taint["key"] in MINE]
        if mine and self._draw.random() < 0.6:
            taints.remove(self._draw.choice(mine))
        else:
            key = self._draw.choice(MINE)
            taints = [taint for taint in taints if taint["key"] != key]
            taints.append({"key": key, "value": self._draw.choice("vw"), "effect": "NoExecute"})
        self._patch("nodes", "", node, {"spec": {"taints": taints}})

    def _tolerate(self) -> None:
        """Let a pod tolerate more."""
        pods = [pod for pod in self._cluster.list("pods") if "deletionTimestamp" not in pod["metadata"]]
        if pods:
            pod = self._draw.choice(pods)
            more = self._toleration({"key": self._draw.choice(MINE)}, self._draw.choice((10, 200, None)))
            body = {"spec": {"tolerations": [*pod["spec"]["tolerations"], more]}}
            self._patch("pods", "default", pod["metadata"]["name"], body)

    def _patch(self, resource: str, namespace: str, name: str, body: Obj) -> None:
        assert self._cluster.request("patch", resource, namespace, name, body=body, content_type=MERGE).ok

    def _lead_otherwise(self) -> None:
        """The leader crashes, or the crashed one returns."""
        supervisor = self._cluster.supervisor
        if self._dead:
            supervisor[self._dead].start()
            self._dead = ""
        elif leader := self._cluster.actor_named("controller-manager-leader"):
            self._dead = leader
            supervisor[leader].crash("killed")
            self.crashes.append(self._cluster.kernel.now_us)


def reigns_of(
    leaders: Sequence[tuple[int, str]], crashes: Sequence[int], ends_us: int
) -> list[tuple[int, int]]:
    """When each leader began and ended: none goes but by a crash."""
    begins = [at_us for at_us, _ in leaders]
    return list(zip(begins, [*crashes, ends_us], strict=False))


@pytest.mark.parametrize("seed", range(6))
async def test_11_pods_are_evicted_at_the_end_of_their_toleration_under_any_leader(
    seed: int,
) -> None:
    draw = Random(seed)
    nodes = tuple(replace(node, zone="ab"[number % 2]) for number, node in enumerate(plain_nodes(7)))
    managers = ComponentPlan(2, {"node-eviction-rate": draw.choice(("0.1", "0.5"))})
    plan = ClusterPlan(
        nodes=nodes, boot_us=10 * SECOND, controller_manager=managers, scheduler=ComponentPlan(0)
    )
    async with Cluster(plan, seed=seed) as cluster:
        log, seen, story = Log(), Seen(cluster.names), Story(cluster, draw)
        cluster.observe(log.see)
        cluster.observe(seen.see)
        await cluster.run_until("20s")
        for name in cluster.nodes:
            cluster.apply(*pods_with(name, [story.tolerations() for _ in range(3)]))
        await cluster.run_until("60s")
        while cluster.kernel.now_us < UNTIL_S * SECOND:
            story.step()
            pause_s = draw.choice((draw.uniform(0.2, 3), draw.uniform(3, 30), draw.uniform(20, 90)))
            await cluster.run_for(int(pause_s * SECOND))
        ends_us = cluster.kernel.now_us
    went = gone(log)
    due = wanted(log, reigns_of(seen.leaders, story.crashes, ends_us))
    due = {uid: at_us for uid, at_us in due.items() if at_us < ends_us - LATE_S * SECOND or uid in went}
    assert sorted(due) == sorted(went)
    late = {uid: (went[uid] - at_us) / SECOND for uid, at_us in due.items()}
    assert all(-0.02 <= after <= LATE_S for after in late.values()), late
    assert len(went) > 5 and story.crashes
