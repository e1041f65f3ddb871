"""What viewers of a served cluster are shown: a log of small rows, and where each viewer is in it.

Turns commits, steps, records of processes and events into rows (`ROWS`), and rows into messages for
viewers: first a snapshot, which is the rows of the present state, then the rows since, joined, at
most `RATE` times a real second, with the state of time.

Holds: nothing of the run depends on viewers; without viewers an event costs an append, since its
row is made when it is read. All viewers of one position share one encoded message. A viewer that is
more than `BEHIND_MAX` rows behind gets a snapshot in their place, so that a slow one costs no
memory. The log keeps `ROWS_MAX` rows, then forgets the older half, and keeps what that made of the
objects.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterator
from itertools import chain
from typing import Any

import msgspec
import trio

from sim.api.objects import condition_status, is_ready
from sim.api.store import Change
from sim.app.control.rows import ROWS, Processes, Row, link_name, link_state, workload_counts
from sim.app.control.session import Control
from sim.kernel import State
from sim.report.workloads import pod_state, workload_of
from sim.units import SECOND

RATE = 20.0  # messages a real second, at most
PACED_S = 1.0  # real seconds between two messages without news, while time follows the real one
JUDGED_S = 0.5  # real seconds between two looks at the expectations
ROWS_MAX, BEHIND_MAX = 400_000, 20_000
EVENTS_SHOWN = 200  # in a snapshot
TEXT_MAX = 300  # letters of an event's message
QUIET_S = 15.0  # after which a message without news shows that the connection lives

SAMPLE_US = 5 * SECOND  # of virtual time, between two rows of requests
SAMPLES_SHOWN = 240  # in a snapshot
WORKLOADS = ("deployments", "statefulsets", "daemonsets")
RESOURCES = ("nodes", "pods", "events", "leases", *WORKLOADS)
# Kinds of which the last row of each name is the state.
KEYED = ("node", "pod", "workload", "leader", "process", "link")
CLIENTS = ("controller-manager-", "scheduler-")  # processes with a link of their own


def event_row(change: Change) -> Row:
    """The row of an event."""
    obj = change.item.obj
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    name = f"{about.get('kind', '')}/{about.get('namespace', '')}/{about.get('name', '')}"
    text = str(obj.get("message") or obj.get("note") or "")[:TEXT_MAX]
    count = obj.get("count") or (obj.get("series") or {}).get("count") or 1
    return ("event", change.at_us, obj.get("type") or "", obj.get("reason") or "", name, text, count)


class Changes:
    """The log of one cluster.  Begins with the objects that are there."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.rows: list[Row | Change] = []  # the change that made an event, until its row is read
        self.base = 0  # the number of the first row
        self._last: dict[tuple[str, str], Row] = {}
        self._before: dict[tuple[str, str], Row] = {}  # the state before the first row
        self._events: list[int] = []  # the numbers of the last ones
        self._steps: list[Row] = []
        self._samples: deque[Row] = deque(maxlen=SAMPLES_SHOWN)
        # When requests were counted, and how many there had been.
        self._tallied: tuple[int, dict[tuple[str, int], int]] = (control.cluster.kernel.now_us, {})
        self._renewed: dict[str, tuple[int, int]] = {}  # of each lease: when, and for how long
        self._processes = Processes()
        self._unsettled_us = -1  # since when the links are not known
        self._news = trio.Event()
        self._version = 0  # of all that viewers are shown
        self._shown: tuple[int, float, bytes] = (-1, 0.0, b"")
        self._encoded: tuple[tuple[int, int], bytes] = ((0, 0), b"[]")
        self._turned: dict[tuple[str, str], int] = {}  # when a state was first seen
        # When the expectations were looked at, what they had come to, and at which version.
        self._judged: tuple[float, list[dict[str, Any]], int] = (-1.0, [], -1)
        self.counts = {"nodes": 0, "ready": 0, "pods": 0, "running": 0}
        self.viewers = 0
        cluster = control.cluster
        system = cluster.names.system_namespace
        for change in cluster.present(RESOURCES):
            self._see(change)
        cluster.observe(self._see, ["nodes", "pods", "events", f"leases/{system}", *WORKLOADS])
        cluster.do.on_step(self._step)
        self._follow_processes()
        cluster.kernel.network.settled.append(self._unsettle)
        self._unsettle()
        control.on_change.append(self._wake)

    @property
    def end(self) -> int:
        """The number of the next row."""
        return self.base + len(self.rows)

    # --- into the log -----------------------------------------------------------------------------

    def _see(self, change: Change) -> None:
        if change.at_us - self._tallied[0] >= SAMPLE_US:
            self._sample(change.at_us)
        resource = change.item.key.split("/", 3)[2]
        if resource == "nodes":
            self._keep(self._node(change))
        elif resource == "pods":
            self._keep(self._pod(change))
        elif resource == "leases":
            self._lease(change)
        elif resource != "events":
            self._workload(resource, change)
        elif not change.deleted:
            self._add(change)
            self._events.append(self.end - 1)
            if len(self._events) > 2 * EVENTS_SHOWN:
                del self._events[:EVENTS_SHOWN]

    def _sample(self, at_us: int) -> None:
        """Count the requests since the last sample, by client and code."""
        since_us, before = self._tallied
        tallied: dict[tuple[str, int], int] = {}
        for server in self.control.cluster.api_servers.values():
            for key, count in server.tally.items():
                tallied[key] = tallied.get(key, 0) + count
        new = [(*key, count - before.get(key, 0)) for key, count in sorted(tallied.items())]
        row = ("requests", at_us, since_us, [one for one in new if one[2]])
        self._tallied = at_us, tallied
        self._samples.append(row)
        self._add(row)

    def _workload(self, resource: str, change: Change) -> None:
        _, name = change.item.key.rsplit(f"/{resource}/", 1)
        counts = (0, None) if change.deleted else workload_counts(resource, change.item.obj)
        self._keep(("workload", change.at_us, f"{resource[:-1]} {name}", *counts))

    def _node(self, change: Change) -> Row:
        obj = change.item.obj
        metadata = obj["metadata"]
        status = condition_status(obj, "Ready")
        state = {"True": "ready", "Unknown": "unknown"}.get(status, "not ready")
        if state == "ready" and obj["spec"].get("unschedulable"):
            state = "cordoned"
        zone = (metadata.get("labels") or {}).get(self.control.cluster.names.label_zone, "")
        return ("node", change.at_us, metadata["name"], zone, "" if change.deleted else state)

    def _pod(self, change: Change) -> Row:
        item = change.item
        metadata = item.obj["metadata"]
        state = pod_state(item)
        if state == "running" and not is_ready(item.obj):
            state = "not ready"
        name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        node = (item.obj.get("spec") or {}).get("nodeName") or ""
        return ("pod", change.at_us, name, node, "" if change.deleted else state, workload_of(item))

    def _lease(self, change: Change) -> None:
        obj, at_us = change.item.obj, change.at_us
        metadata, spec = obj["metadata"], obj.get("spec") or {}
        name = f"{metadata['namespace']}/{metadata['name']}"
        holder = "" if change.deleted else spec.get("holderIdentity") or ""
        before_us, lasts_us = self._renewed.get(name, (at_us, 0))
        lapsed_us = before_us if at_us - before_us > lasts_us > 0 else 0
        lasts_us = (spec.get("leaseDurationSeconds") or 0) * SECOND
        self._renewed[name] = at_us, lasts_us
        last = self._last.get(("leader", name))
        if lapsed_us or last is None or last[3] != holder:
            self._keep(("leader", at_us, name, holder, lapsed_us, lasts_us))

    def _follow_processes(self) -> None:
        cluster = self.control.cluster

        def see(_ident: int, at_us: int, _cause: int, values: tuple[Any, ...]) -> None:
            what, name = values[0], values[1]
            if name not in cluster.nodes and name != "admin":
                self._processes.see(what, name)
                self._keep(("process", at_us, name, self._processes.state(name)))

        kernel = cluster.kernel
        for name, actor in cluster.supervisor.actors.items():
            if actor.context is not None:
                see(0, kernel.now_us, 0, ("pause" if actor.context.state is State.PAUSED else "start", name))
        kernel.trace.listen(kernel.kind("actor", "what", "name", "reason"), see)

    def _unsettle(self) -> None:
        """Look at the links before the next row: a fault settles the network once for each host."""
        if self._unsettled_us < 0:
            self._unsettled_us = self.control.cluster.kernel.now_us
            self._wake()

    def _settle(self) -> None:
        at_us, self._unsettled_us = self._unsettled_us, -1
        cluster = self.control.cluster
        zones: dict[str, list[str]] = {}
        for node in cluster.plan.nodes:
            zones.setdefault(f"zone {node.zone}" if node.zone else "nodes", []).append(node.name)
        servers = list(cluster.api_servers)
        clients = [one for one in cluster.supervisor.actors if one.startswith(CLIENTS)]
        pairs = [(group, hosts, "apiserver", servers) for group, hosts in sorted(zones.items())]
        pairs += [(name, [name], "apiserver", servers) for name in clients]
        pairs += [(name, [name], "storage", ["storage"]) for name in servers]
        rules = cluster.kernel.network.rules
        for one, hosts, other, others in pairs:
            self._keep(("link", at_us, link_name(one, other), link_state(hosts, others, rules)))

    def _step(self, name: str, kind: str, at_us: int) -> None:
        ended = name.removeprefix("end of ")
        row = ("step", at_us, ended, kind.removeprefix("end of "), "begin" if ended == name else "end")
        self._steps.append(row)
        self._add(row)

    def _keep(self, row: Row) -> None:
        """Add a row that replaces an earlier one, if it says something else."""
        key = row[0], row[2]
        before = self._last.get(key)
        if before is not None and before[3:] == row[3:]:
            return
        self._count(before, -1)
        if _is_gone(row):
            self._last.pop(key, None)
        else:
            self._last[key] = row
            self._count(row, 1)
        self._add(row)

    def _count(self, row: Row | None, sign: int) -> None:
        if row is None:
            return
        if row[0] == "node":
            self.counts["nodes"] += sign
            self.counts["ready"] += sign * (row[4] in ("ready", "cordoned"))
        elif row[0] == "pod":
            self.counts["pods"] += sign
            self.counts["running"] += sign * (row[4] in ("running", "not ready"))

    def _add(self, row: Row | Change) -> None:
        if self._unsettled_us >= 0:
            self._settle()
        self.rows.append(row)
        if len(self.rows) > ROWS_MAX:
            self._forget(ROWS_MAX // 2)
        if self.viewers:
            self._wake()

    def _forget(self, count: int) -> None:
        """Forget the oldest rows; what they made of the objects is the beginning of the history."""
        for row in self.rows[:count]:
            if not isinstance(row, Change) and row[0] in KEYED:
                self._before[row[0], row[2]] = row
        self._before = {key: row for key, row in self._before.items() if not _is_gone(row)}
        del self.rows[:count]
        self.base += count

    def _wake(self) -> None:
        self._version += 1
        if self._news.statistics().tasks_waiting:
            self._news.set()
            self._news = trio.Event()

    # --- what viewers get -------------------------------------------------------------------------

    def snapshot(self) -> list[Row]:
        """The rows that make the present state: objects, the last events, all steps."""
        events = [at for at in self._events[-EVENTS_SHOWN:] if at >= self.base]
        last = (self._read(at, at + 1)[0] for at in events)
        return [*self._last.values(), *last, *self._samples, *self._steps]

    def history(self, from_us: int, to_us: int, kinds: Collection[str] = ROWS) -> Iterator[Row]:
        """The rows of a time, of some kinds, after what is left of forgotten ones."""
        rows = chain(self._before.values(), self._read(self.base, self.end))
        return (row for row in rows if from_us <= row[1] <= to_us and row[0] in kinds)

    def _read(self, begin: int, end: int) -> list[Row]:
        """The rows from a number up to another."""
        result: list[Row] = []
        for at in range(begin - self.base, end - self.base):
            row = self.rows[at]
            if isinstance(row, Change):
                row = self.rows[at] = event_row(row)
            result.append(row)
        return result

    def time(self) -> dict[str, Any]:
        """The state of time, in numbers that cost nothing to find."""
        if self._unsettled_us >= 0:
            self._settle()
        return {**self.control.clock(noted=False), **self.counts, "renewed": self._renewed}

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """The messages for one viewer, JSON: {"rows", "time", "judged"?, "reset"?}."""
        self.viewers += 1
        try:
            at, judged = -1, None
            while True:
                version = self._version
                head = self._head()
                verdicts = self._judgements()
                if verdicts is not judged:
                    judged = verdicts
                    head += b',"judged":' + msgspec.json.encode(judged)
                if at < self.base or self.end - at > BEHIND_MAX:
                    head += b',"reset":true'
                    rows = msgspec.json.encode(self.snapshot())
                else:
                    rows = self._between(at, self.end)
                at = self.end
                yield b'{"rows":%b,%b}' % (rows, head)
                await trio.sleep(1 / RATE)
                if version == self._version:
                    with trio.move_on_after(self._quiet_s()):
                        await self._news.wait()
        finally:
            self.viewers -= 1

    def _quiet_s(self) -> float:
        """How long a viewer needs no message if nothing is news: it shows a paced time by itself."""
        if self.control.paused:
            return QUIET_S if self._judged[2] == self._version else JUDGED_S
        return 0.0 if self.control.cluster.kernel.rate == math.inf else PACED_S

    def _head(self) -> bytes:
        """The state of time in JSON, encoded once for the viewers of about one instant."""
        at_s = trio.current_time()
        if self._version != self._shown[0] or at_s - self._shown[1] >= 1 / RATE:
            self._shown = self._version, at_s, b'"time":' + msgspec.json.encode(self.time())
        return self._shown[2]

    def _between(self, begin: int, end: int) -> bytes:
        """Rows in JSON, encoded once for all viewers that are at the same place."""
        if self._encoded[0] != (begin, end):
            self._encoded = ((begin, end), msgspec.json.encode(self._read(begin, end)))
        return self._encoded[1]

    def _judgements(self) -> list[dict[str, Any]]:
        """What the expectations have come to, looked at now and then."""
        at_s = trio.current_time()
        if at_s - self._judged[0] >= JUDGED_S:
            result = list(self.control.judgements())
            for one in result:
                if one["at_us"] is None and one["state"] in ("holds", "failed"):
                    turned = one["name"], one["state"]
                    one["at_us"] = self._turned.setdefault(turned, self.control.cluster.kernel.now_us)
            self._judged = at_s, self._judged[1] if result == self._judged[1] else result, self._version
        return self._judged[1]


def _is_gone(row: Row) -> bool:
    """True if the row says that its object is removed."""
    return row[4] is None if row[0] == "workload" else row[0] in ("node", "pod") and not row[4]
