"""`orrery show TRACE --page`: a finished run as the page that shows a live cluster, in one file.

Turns the records of a trace into the rows of the page (`sim.app.control.rows`), and its verdicts
into expectations with their chains of causes.

Differs from a served cluster: a trace knows names, not objects. The workload of a pod is found by
    its name; the pods that are available are those that are Ready, and a DaemonSet wants those that
    it has; requests are writes, by user; decisions are shown in the place of events; links are not
    known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sim.app.control.rows import Processes, Row
from sim.app.inspect.traces import as_json, header, up_to_a_cut
from sim.app.inspect.view import thing
from sim.app.page.one_file import page_of
from sim.errors import InputError
from sim.faults.shared.kinds import Ends
from sim.files import replaced
from sim.kernel import Record
from sim.report.failure import chain_of
from sim.report.story import Book, tell
from sim.scenario.actions import KINDS
from sim.units import SECOND
from sim.verdict import Verdict

SIZE_MAX = 32_000_000  # bytes of a file, above which pods are left out, then events
CHAIN_MAX = 60  # links of a chain: the nearest causes
SAMPLE_US = 5 * SECOND
SHOWN = ("decision", "zone", "command", "sync-error", "refused", "load")
WRONG = ("sync-error", "refused")
OWNERS = {
    "replicasets": "replicaset",
    "statefulsets": "statefulset",
    "daemonsets": "daemonset",
    "jobs": "job",
}
WANTING = {"deployments": "deployment", "statefulsets": "statefulset"}


def write_page(trace: Path, file: Path) -> str:
    """Write the page of a trace; what it leaves out, in words.  Raises InputError."""
    outcome: dict[str, Any] = {}
    head = header(trace)
    book = Book(up_to_a_cut(trace, on_outcome=outcome.update))
    rows = list(_Reader(head, book).rows())
    end_us = outcome.get("virtual_us") or (book.records[-1].at_us if book.records else 0)
    lasting = [row for row in rows if row[0] == "step" and row[4] == "begin"]
    ended = {row[2] for row in rows if row[0] == "step" and row[4] == "end"}
    faults = [
        {"name": row[2], "kind": row[3], "since_us": row[1]}
        for row in lasting
        if row[2] not in ended and KINDS[row[3]].ends is not Ends.AT_ONCE
    ]
    run = {
        "scenario": head.get("scenario", trace.name),
        "seed": head.get("seed", 0),
        "time": {"virtual_us": end_us, "pace": 1, "paused": True, "faults": faults, "requests": 0},
        "judged": [_judged(one, book) for one in outcome.get("verdicts", ())],
        "note": "",
        "rows": rows,
    }
    for kind, what in (("", ""), ("pod", "pods are left out"), ("event", "pods and decisions are left out")):
        run["rows"] = [row for row in run["rows"] if row[0] != kind]
        run["note"] = f"The run is large: {what} of this file." if what else ""
        page = page_of(run)
        if len(page) <= SIZE_MAX:
            with replaced(file) as out:
                out.write(page)
            return str(run["note"])
    raise InputError(
        f"its page has {len(page)} bytes, more than {SIZE_MAX}", str(trace), "show a part as text"
    )


def _judged(plain: Mapping[str, Any], book: Book) -> dict[str, Any]:
    """The verdict of an expectation, with what led to it."""
    verdict = Verdict(
        **{**plain, "measured_s": tuple(plain["measured_s"]), "objects": tuple(plain["objects"])}
    )
    shown = ("name", "kind", "measured", "wanted", "after", "at_us")
    chain = [as_json(line) for line in chain_of(verdict, book)[-CHAIN_MAX:]]
    state = "holds" if verdict.ok else "failed"
    links = [{key: line[key] for key in ("at_us", "actor", "text")} for line in chain]
    return {**{key: plain[key] for key in shown}, "state": state, "chain": links}


class _Reader:
    """Makes rows of records, in their order; what changes at one instant is one row of an object."""

    def __init__(self, head: Mapping[str, Any], book: Book) -> None:
        self._book = book
        self._zones = {name: zone for zone, names in (head.get("zones") or {}).items() for name in names}
        self._facts: dict[tuple[str, str], dict[str, Any]] = {}
        self._changed: dict[tuple[str, str], None] = {}  # objects that changed at this instant
        self._made: set[tuple[str, str]] = set()  # kind and key of each owner of pods
        self._pods: dict[str, tuple[str, bool]] = {}  # workload, Ready
        self._counts: dict[str, list[int]] = {}  # of each workload: available, there
        self._wanted: dict[str, int | None] = {}
        self._shown: dict[tuple[str, str], Row] = {}
        self._moved: dict[str, None] = {}  # workloads that changed at this instant
        self._processes = Processes()
        self._writes: dict[str, int] = {}
        self._sampled_us = 0

    def rows(self) -> Iterator[Row]:
        """All rows."""
        at_us = 0
        for record in self._book.records:
            if record.at_us != at_us:
                yield from self._settled(at_us)
                at_us = record.at_us
                if at_us - self._sampled_us >= SAMPLE_US:
                    yield self._sample(at_us)
            yield from self._see(record)
        yield from self._settled(at_us)

    def _see(self, record: Record) -> Iterator[Row]:
        kind, values, at_us = record.kind, record.values, record.at_us
        if kind == "write":
            _, _, resource, key = values["key"].split("/", 3)
            self._made.add((resource, key))
            user = _client(values["user"])
            self._writes[user] = self._writes.get(user, 0) + 1
        elif kind == "change":
            yield from self._change(values, at_us)
        elif kind == "actor":
            name = values["name"]
            if name not in self._book.nodes and name != "admin":
                self._processes.see(values["what"], name)
                yield from self._new(("process", at_us, name, self._processes.state(name)))
        elif kind == "step":
            yield ("step", at_us, values["name"], values["kind"], "begin")
        elif kind == "step-end":
            yield ("step", at_us, values["name"], "", "end")
        elif kind in SHOWN:
            about = thing(record).split("/")
            resource = about[0].removesuffix("s").capitalize()
            name = f"{resource}/{'/'.join(about[1:-1])}/{about[-1]}" if len(about) > 1 else "//"
            yield ("event", at_us, "Warning" if kind in WRONG else "Normal", kind, name, tell(record), 1)

    def _change(self, values: Mapping[str, Any], at_us: int) -> Iterator[Row]:
        _, _, resource, key = values["key"].split("/", 3)
        what, after = values["what"], values["after"]
        if resource in ("pods", "nodes"):
            self._facts.setdefault((resource, key), {})[what] = after
            self._changed[resource, key] = None
        elif resource == "leases" and what == "holder":
            yield from self._new(("leader", at_us, key, after or "", 0, 15 * SECOND))
        elif resource in WANTING and what in ("replicas", "removed"):
            name = f"{WANTING[resource]} {key}"
            self._wanted[name] = after if what == "replicas" else None
            self._moved[name] = None

    def _settled(self, at_us: int) -> Iterator[Row]:
        """The rows of objects that changed at this instant."""
        for resource, key in self._changed:
            facts = self._facts[resource, key]
            if facts.get("removed"):
                del self._facts[resource, key]
            if resource == "nodes":
                name = key.removeprefix("/")
                yield from self._new(("node", at_us, name, self._zones.get(name, ""), _node_state(facts)))
            else:
                yield from self._pod(key, facts, at_us)
        for name in self._moved:
            available, there = self._counts.get(name, (0, 0))
            target = self._wanted.get(name, there if name.startswith("daemonset ") else None)
            if name.startswith((*WANTING.values(), "daemonset ")):
                yield from self._new(("workload", at_us, name, available, target))
        self._changed.clear()
        self._moved.clear()

    def _pod(self, key: str, facts: Mapping[str, Any], at_us: int) -> Iterator[Row]:
        workload, was_ready = self._pods.get(key) or (self._workload(key), False)
        state = _pod_state(facts)
        counts = self._counts.setdefault(workload, [0, 0])
        counts[0] += (state == "running") - was_ready
        counts[1] += (state != "") - (key in self._pods)
        self._moved[workload] = None
        if state:
            self._pods[key] = workload, state == "running"
        else:
            self._pods.pop(key, None)
        yield from self._new(("pod", at_us, key, facts.get("node") or "", state, workload))

    def _new(self, row: Row) -> Iterator[Row]:
        """A row, if it says something else than the one before of its object."""
        key = row[0], row[2]
        before = self._shown.get(key)
        if before is None or before[3:] != row[3:]:
            self._shown[key] = row
            yield row

    def _workload(self, key: str) -> str:
        """The workload of a pod, by the names of the owners that there are."""
        owner = key.rpartition("-")[0]
        kind = next((word for plural, word in OWNERS.items() if (plural, owner) in self._made), "")
        deployment = owner.rpartition("-")[0]
        if kind == "replicaset" and ("deployments", deployment) in self._made:
            return f"deployment {deployment}"
        return f"{kind} {owner}" if kind else f"pods of {key.partition('/')[0]} without a controller"

    def _sample(self, at_us: int) -> Row:
        row = (
            "requests",
            at_us,
            self._sampled_us,
            [(user, "write", number) for user, number in sorted(self._writes.items())],
        )
        self._writes, self._sampled_us = {}, at_us
        return row


def _client(user: str) -> str:
    """The name by which a user is counted: agents are one."""
    return "agents" if user.startswith("system:node:") else user.rpartition(":")[2]


def _node_state(facts: Mapping[str, Any]) -> str:
    if facts.get("removed"):
        return ""
    state = {"True": "ready", "Unknown": "unknown"}.get(facts.get("ready") or "", "not ready")
    return "cordoned" if state == "ready" and facts.get("unschedulable") else state


def _pod_state(facts: Mapping[str, Any]) -> str:
    if facts.get("removed"):
        return ""
    state = "terminating" if facts.get("deleting") else str(facts.get("phase") or "Pending").lower()
    return "not ready" if state == "running" and facts.get("ready") != "True" else state
