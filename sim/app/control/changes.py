"""What viewers of a served cluster are shown: a log of small rows, and where each viewer is in it.

Turns commits, steps and events into rows (`ROWS` names their members), and rows into messages for
viewers: first a snapshot, which is the rows of the present state, then the rows since, joined, at
most `RATE` times a real second, with the state of time.

Holds: nothing of the run depends on viewers; without viewers a row costs an append. All viewers of
one position share one encoded message. A viewer that is more than `BEHIND_MAX` rows behind gets a
snapshot in their place, so that a slow one costs no memory. The log keeps `ROWS_MAX` rows, then
forgets the older half.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import msgspec
import trio

from sim.api.objects import condition_status, is_ready
from sim.api.store import Change
from sim.app.control.session import Control
from sim.report.workloads import pod_state, workload_of

RATE = 20.0  # messages a real second, at most
PACED_S = 1.0  # real seconds between two messages without news, while time follows the real one
JUDGED_S = 0.5  # real seconds between two looks at the expectations
ROWS_MAX, BEHIND_MAX = 400_000, 20_000
EVENTS_SHOWN = 200  # in a snapshot
TEXT_MAX = 300  # letters of an event's message
QUIET_S = 15.0  # after which a message without news shows that the connection lives
RESOURCES = ("nodes", "pods", "events", "leases")

# The members of a row after its kind and its instant in virtual microseconds.
ROWS = {
    "node": ("name", "zone", "state"),  # state "" when it is removed
    "pod": ("namespace/name", "node", "state", "workload"),
    "leader": ("namespace/lease", "holder"),
    "event": ("type", "reason", "kind/namespace/name", "message", "count"),
    "step": ("name", "kind", "begin or end"),
}
Row = tuple[Any, ...]


class Changes:
    """The log of one cluster.  Begins with the objects that are there."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.rows: list[Row] = []
        self.base = 0  # the number of the first row
        self._last: dict[tuple[str, str], Row] = {}
        self._events: list[Row] = []
        self._steps: list[Row] = []
        self._news = trio.Event()
        self._version = 0  # of all that viewers are shown
        self._shown: tuple[int, float, bytes] = (-1, 0.0, b"")
        self._encoded: tuple[tuple[int, int], bytes] = ((0, 0), b"[]")
        self._judged: tuple[float, list[dict[str, Any]]] = (-1.0, [])
        self._counts = {"nodes": 0, "ready": 0, "pods": 0, "running": 0}
        self.viewers = 0
        cluster = control.cluster
        names, system = cluster.names, cluster.names.system_namespace
        self._zone = names.label_zone
        for change in cluster.present(RESOURCES):
            self._see(change)
        cluster.observe(self._see, ["nodes", "pods", "events", f"leases/{system}"])
        cluster.do.on_step(self._step)
        control.on_change.append(self._wake)

    @property
    def end(self) -> int:
        """The number of the next row."""
        return self.base + len(self.rows)

    # --- into the log -----------------------------------------------------------------------------

    def _see(self, change: Change) -> None:
        resource = change.item.key.split("/", 3)[2]
        if resource == "nodes":
            self._keep(self._node(change))
        elif resource == "pods":
            self._keep(self._pod(change))
        elif resource == "leases":
            self._lease(change)
        elif not change.deleted:
            self._event(change)

    def _node(self, change: Change) -> Row:
        obj = change.item.obj
        metadata = obj["metadata"]
        status = condition_status(obj, "Ready")
        state = {"True": "ready", "Unknown": "unknown"}.get(status, "not ready")
        if state == "ready" and obj["spec"].get("unschedulable"):
            state = "cordoned"
        zone = (metadata.get("labels") or {}).get(self._zone, "")
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
        obj = change.item.obj
        metadata, holder = obj["metadata"], (obj.get("spec") or {}).get("holderIdentity") or ""
        name = f"{metadata['namespace']}/{metadata['name']}"
        self._keep(("leader", change.at_us, name, "" if change.deleted else holder))

    def _event(self, change: Change) -> None:
        obj = change.item.obj
        about = obj.get("involvedObject") or obj.get("regarding") or {}
        name = f"{about.get('kind', '')}/{about.get('namespace', '')}/{about.get('name', '')}"
        text = str(obj.get("message") or obj.get("note") or "")[:TEXT_MAX]
        count = obj.get("count") or (obj.get("series") or {}).get("count") or 1
        row = ("event", change.at_us, obj.get("type") or "", obj.get("reason") or "", name, text, count)
        self._events.append(row)
        if len(self._events) > 2 * EVENTS_SHOWN:
            del self._events[:EVENTS_SHOWN]
        self._add(row)

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
        gone = row[0] != "leader" and not row[4]
        if gone:
            self._last.pop(key, None)
        else:
            self._last[key] = row
            self._count(row, 1)
        self._add(row)

    def _count(self, row: Row | None, sign: int) -> None:
        if row is None:
            return
        if row[0] == "node":
            self._counts["nodes"] += sign
            self._counts["ready"] += sign * (row[4] in ("ready", "cordoned"))
        elif row[0] == "pod":
            self._counts["pods"] += sign
            self._counts["running"] += sign * (row[4] in ("running", "not ready"))

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        if len(self.rows) > ROWS_MAX:
            del self.rows[: ROWS_MAX // 2]
            self.base += ROWS_MAX // 2
        self._wake()

    def _wake(self) -> None:
        self._version += 1
        if self.viewers and self._news.statistics().tasks_waiting:
            self._news.set()
            self._news = trio.Event()

    # --- what viewers get -------------------------------------------------------------------------

    def snapshot(self) -> list[Row]:
        """The rows that make the present state: objects, the last events, all steps."""
        return [*self._last.values(), *self._events[-EVENTS_SHOWN:], *self._steps]

    def history(self, from_us: int, to_us: int) -> Iterator[Row]:
        """The rows of a time that are still kept."""
        return (row for row in self.rows if from_us <= row[1] <= to_us)

    def time(self) -> dict[str, Any]:
        """The state of time, in numbers that cost nothing to find."""
        return {**self.control.clock(noted=False), **self._counts}

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
            return QUIET_S
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
            rows = self.rows[begin - self.base : end - self.base]
            self._encoded = ((begin, end), msgspec.json.encode(rows))
        return self._encoded[1]

    def _judgements(self) -> list[dict[str, Any]]:
        """What the expectations have come to, looked at now and then."""
        at_s = trio.current_time()
        if at_s - self._judged[0] >= JUDGED_S:
            found = list(self.control.judgements())
            self._judged = at_s, self._judged[1] if found == self._judged[1] else found
        return self._judged[1]
