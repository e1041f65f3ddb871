"""The timeline of a run: counts over time, collected from the commits as they happen.

Turns store changes into step series (time, value) by zone, phase and leader, small enough to draw.
It is outside of the simulation like the checker: it sees commits and influences nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from actors.users.requests import Outcome
from sim.api.objects import condition_status
from sim.api.store import Change
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import NAMES, Names
from sim.report.workloads import shown_state, workload_of
from sim.series import Series
from sim.units import SECOND

BUCKET_US = 10_000_000  # for the request rate
ANSWERED = Outcome.ANSWERED.value  # of requests of clients that did not fail
BLOCKS = " ▁▂▃▄▅▆▇█"


def _plain(series: Mapping[str, Series]) -> dict[str, list[tuple[int, int]]]:
    return {name: one.points for name, one in series.items()}


def _series(plain: Mapping[str, Any]) -> dict[str, Series]:
    return {name: Series([(at_us, value) for at_us, value in points]) for name, points in plain.items()}


@dataclass(frozen=True, slots=True)
class Reign:
    """One holder of a leader lease, from the first renewal that names it."""

    lease: str
    holder: str
    from_us: int


class Timeline:
    """Collects the series of a run.

    nodes: zone → state ("ready", "not ready", "unknown") → series
    taints: zone → series of the number of nodes with a NoExecute taint
    pods: state (see `shown_state`: "running", "terminating", "failed", "succeeded", and "pending"
        with its reasons) → series
    workloads: workload (see `workload_of`) → state of its pods → series; older traces have none
    available: the numbers of pods that are Ready and not being deleted, "seen" by the control
        plane, and "truth": those of them on machines with power and network
    evictions: (time, zone) of every pod marked deleted
    reigns: leaders in turn
    resources: resources of which `see` needs commits
    steps: (time, name, kind)
    ends: end of the fault of each step, by name
    requests: number of API requests per bucket
    clients: Service (NAMESPACE/NAME) → outcome of requests of clients (the step `request`) → the
        second of the run in which they were sent → their number; older traces have none
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.nodes: dict[str, dict[str, Series]] = {}
        self.taints: dict[str, Series] = {}
        self.pods: dict[str, Series] = {}
        self.workloads: dict[str, dict[str, Series]] = {}
        self.available = {"seen": Series(), "truth": Series()}
        self.evictions: list[tuple[int, str]] = []
        self.steps: list[tuple[int, str, str]] = []
        self.ends: dict[str, int] = {}
        self.reigns: list[Reign] = []
        self.requests: dict[int, int] = {}
        self.clients: dict[str, dict[str, Counter[int]]] = {}
        self._counted = 0
        self._zone: dict[str, str] = {}
        self._node_state: dict[str, tuple[str, str, bool]] = {}
        self._pod_state: dict[str, str] = {}
        self._workload: dict[str, dict[str, Series]] = {}  # of each pod
        # Only leases of leaders: those of nodes change by heartbeats.
        self.resources = ("pods", "nodes", f"leases/{names.system_namespace}")
        self._leaders = (names.lease_controller_manager, names.lease_scheduler)
        self._holders: dict[str, str] = {}

    def to_plain(self) -> dict[str, Any]:
        """The series as plain values, from which `of_plain` makes a timeline to draw."""
        clients = {
            service: {outcome: [*seconds.items()] for outcome, seconds in outcomes.items()}
            for service, outcomes in self.clients.items()
        }
        return {
            "naming": self.names.naming,
            "nodes": {zone: _plain(states) for zone, states in self.nodes.items()},
            "taints": _plain(self.taints),
            "pods": _plain(self.pods),
            "workloads": {name: _plain(states) for name, states in self.workloads.items()},
            "available": _plain(self.available),
            "evictions": self.evictions,
            "steps": self.steps,
            "ends": self.ends,
            "reigns": [(one.lease, one.holder, one.from_us) for one in self.reigns],
            "requests": self.requests,
            **({"clients": clients} if clients else {}),
        }

    @staticmethod
    def of_plain(plain: Mapping[str, Any]) -> Timeline:
        """The timeline of the plain values of `to_plain`."""
        found = Timeline(NAMES[plain["naming"]])
        found.nodes = {zone: _series(states) for zone, states in plain["nodes"].items()}
        found.taints, found.pods = _series(plain["taints"]), _series(plain["pods"])
        found.workloads = {name: _series(states) for name, states in plain.get("workloads", {}).items()}
        found.available = _series(plain["available"])
        found.evictions = [(at_us, zone) for at_us, zone in plain["evictions"]]
        found.steps = [(at_us, name, kind) for at_us, name, kind in plain["steps"]]
        found.ends, found.requests = dict(plain["ends"]), dict(plain["requests"])
        found.reigns = [Reign(*one) for one in plain["reigns"]]
        for service, outcomes in plain.get("clients", {}).items():
            found.clients[service] = {name: Counter(dict(seconds)) for name, seconds in outcomes.items()}
        return found

    def step(self, name: str, kind: str, at_us: int) -> None:
        """A step of the timeline, or "end of NAME" when its fault ends."""
        if kind.startswith("end of "):
            self.ends[name.removeprefix("end of ")] = at_us
        else:
            self.steps.append((at_us, name, kind))

    def sample(self, at_us: int, requests: int) -> None:
        """At the end of each bucket: the number of API requests so far."""
        self.requests[at_us // BUCKET_US - 1] = requests - self._counted
        self._counted = requests

    def request(self, service: str, outcome: str, sent_us: int) -> None:
        """A request of a client to a Service (NAMESPACE/NAME) has ended."""
        self.clients.setdefault(service, {}).setdefault(outcome, Counter())[sent_us // SECOND] += 1

    def serve(self, at_us: int, truth: int, seen: int) -> None:
        """The numbers of available pods from now on."""
        self.available["truth"].put(at_us, truth)
        self.available["seen"].put(at_us, seen)

    def see(self, change: Change) -> None:
        """Take a commit."""
        resource = change.item.key.split("/", 3)[2]
        if resource == "pods":
            self._see_pod(change)
        elif resource == "nodes":
            self._see_node(change)
        elif resource == "leases" and change.item.key.endswith(self._leaders):
            self._see_leader(change)

    def _see_node(self, change: Change) -> None:
        meta = change.item.obj["metadata"]
        name = meta["name"]
        zone = self._zone[name] = (meta.get("labels") or {}).get(self.names.label_zone, "")
        before = self._node_state.pop(name, None)
        after = None if change.deleted else (zone, _ready(change.item.obj), self._doomed(change.item.obj))
        if before == after and after is not None:
            self._node_state[name] = after
            return
        for state, sign in ((before, -1), (after, +1)):
            if state is not None:
                self.nodes.setdefault(state[0], {}).setdefault(state[1], Series()).add(change.at_us, sign)
                self.taints.setdefault(state[0], Series()).add(change.at_us, sign * state[2])
        if after is not None:
            self._node_state[name] = after

    def _doomed(self, node: Obj) -> bool:
        taints = (node.get("spec") or {}).get("taints") or ()
        return any(taint["effect"] == "NoExecute" for taint in taints)

    def _see_pod(self, change: Change) -> None:
        key, at_us = change.item.key, change.at_us
        before = self._pod_state.pop(key, None)
        after = None if change.deleted else shown_state(change.item.obj)
        if before != after:
            workload = self._workload.get(key)
            if workload is None:
                workload = self._workload[key] = self.workloads.setdefault(workload_of(change.item), {})
            for counted in (self.pods, workload):
                if before is not None:
                    counted[before].add(at_us, -1)
                if after is not None:
                    if after not in counted:
                        counted[after] = Series()
                    counted[after].add(at_us, +1)
            if before != "terminating" and (after == "terminating" or change.deleted):
                self.evictions.append((at_us, self._zone.get(change.item.peek("spec", "nodeName") or "", "")))
        if after is not None:
            self._pod_state[key] = after
        else:
            self._workload.pop(key, None)

    def _see_leader(self, change: Change) -> None:
        lease = change.item.obj["metadata"]["name"]
        holder = (change.item.obj.get("spec") or {}).get("holderIdentity") or ""
        if self._holders.get(lease) != holder:
            self._holders[lease] = holder
            self.reigns.append(Reign(lease, holder, change.at_us))


def _ready(node: Obj) -> str:
    status = condition_status(node, "Ready")
    return {"True": "ready", "False": "not ready", "": "not ready"}.get(status, "unknown")


def sparkline(series: Mapping[str, Series], wanted: str, end_us: int, width: int) -> str:
    """The share of all objects in the state `wanted` over time, as blocks for a terminal."""
    cells = []
    for column in range(width):
        at_us = end_us * (column + 1) // width
        total = sum(one.at(at_us) for one in series.values())
        share = series[wanted].at(at_us) / total if total and wanted in series else 0.0
        cells.append(BLOCKS[round(share * 8)] if total else "·")
    return "".join(cells)


def answered_line(timeline: Timeline, end_us: int, width: int) -> str:
    """The share of the requests of clients that were answered over time, as blocks for a terminal.

    A block is full only if all requests were answered, and empty only if none was.
    """
    sent, answered = Counter[int](), Counter[int]()
    for outcomes in timeline.clients.values():
        answered.update(outcomes.get(ANSWERED, ()))
        for seconds in outcomes.values():
            sent.update(seconds)
    cells = []
    for column in range(width):
        begin_us, until_us = end_us * column // width, end_us * (column + 1) // width
        seconds_of = range(begin_us // SECOND, -(-until_us // SECOND))
        total = sum(sent[second] for second in seconds_of)
        good = sum(answered[second] for second in seconds_of)
        cells.append(BLOCKS[-(-good * 7 // total) + (good == total)] if total else "·")
    return "".join(cells)
