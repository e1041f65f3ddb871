"""Traces as stories: which end of an object a question is about, and the chain of its causes in
words.

Turns the records of a trace into `Line`s: time, time since the previous line, actor, event. A
decision because of missing messages names the last renewal that its actor had observed.

Holds: a chain ends at a record without cause (a step of the scenario, the start of a process, a
request from outside); causes point backwards, so every chain ends; the same trace gives the same
words.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sim.api.store import path_of
from sim.faults import FAULTS
from sim.kernel import Record, RecordKind
from sim.report.obstacles import FAILS, Obstacles
from sim.units import BINARY_SI, SECOND, format_duration, format_quantity, format_quantity_milli

Values = Mapping[str, Any]
NAMED_MAX = 3  # names shown of a list, before "and n more"
NODE_USER, ACCOUNT_USER = "system:node:", "system:serviceaccount:"
SYSTEM_NAMESPACE = "-system"  # the end of its name in every naming set
NODE_PREFIX = "//nodes//"
LONG_US = SECOND  # a link that took this long may have waited for something
AMOUNTS = tuple(name for fault in FAULTS for name in fault.amounts)
UPHEAVALS = ("take-over", "lost-lease", "refused-lease")
STEPS = ("step", "step-end")
MEANWHILE_MAX = 4
PROGRAMS = ("kill", "unhealthy", "unknown")  # decisions about programs of a pod
DROP = "drop"  # of a packet from or to a pod, by NetworkPolicies
PROGRAMS_MAX = 6  # lines about them
DELETED, CREATED, REMOVED = "deleted", "created", "removed"


class Line(msgspec.Struct, frozen=True):
    """One line of a story.

    delta_us: time since the previous link, None for the first
    aside: True if the line is not a link of the chain, but related to it
    """

    ident: int
    at_us: int
    delta_us: int | None
    actor: str
    text: str
    kind: str
    values: Values
    aside: bool = False


class Book:
    """All records of a trace, by position; the changes of a write are kept with the write."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)
        self._changes: dict[int, list[Values]] = {}
        self._obstacles: Obstacles | None = None
        self._by_revision: dict[int, Record] | None = None
        self.nodes: dict[str, None] = {}
        self._unplaced: dict[str, list[Record]] = {}  # failed attempts to schedule a pod, by pod
        for record in self.records:
            if record.kind == "change":
                self._changes.setdefault(record.cause, []).append(record.values)
            elif record.kind == "schedule" and not record.values["node"]:
                self._unplaced.setdefault(record.values["pod"], []).append(record)
            elif record.kind == "write" and record.values["key"].startswith(NODE_PREFIX):
                self.nodes[record.values["key"].removeprefix(NODE_PREFIX)] = None

    def get(self, ident: int) -> Record | None:
        """The record with this id; None if there is none."""
        return self.records[ident - 1] if 0 < ident <= len(self.records) else None

    def changes(self, record: Record) -> Sequence[Values]:
        """The notable changes that a write made."""
        return self._changes.get(record.ident, ())

    def write_of(self, revision: int, before: Record | None = None) -> Record | None:
        """The write that created this revision; before: a later record, since a storage that is set
        back gives revisions out again.
        """
        if self._by_revision is None:
            self._by_revision = {r.values["rev"]: r for r in self.records if r.kind == "write"}
        found = self._by_revision.get(revision)
        if found is None or before is None or found.ident < before.ident:
            return found
        earlier = reversed(self.records[: before.ident])
        return next((r for r in earlier if r.kind == "write" and r.values["rev"] == revision), None)

    def chain(self, record: Record) -> list[Record]:
        """A record and its causes, the first cause first; changes are part of their writes."""
        found = []
        at: Record | None = record
        while at is not None:
            if at.kind != "change":
                found.append(at)
            at = self.get(at.cause) if at.cause < at.ident else None
        return found[::-1]

    def line(self, record: Record, before: Record | None) -> Line:
        """The line of a record, with the time since the record before it."""
        text = tell(record, self.changes(record))
        if record.kind == "decision" and (revision := record.values["why"].get("lease")):
            written = self.write_of(int(revision), record)
            if written is not None:
                text += _last_seen(
                    written.at_us, record.at_us - int(record.values["why"].get("silent_us", 0))
                )
        delta_us = None if before is None else record.at_us - before.at_us
        return Line(record.ident, record.at_us, delta_us, who(record), text, record.kind, record.values)

    def story(self, record: Record) -> list[Line]:
        """The chain as lines; where a link took long, with the faults of the control plane during
        that time.
        """
        lines: list[Line] = []
        before: Record | None = None
        for link, count in _without_repeats(self.chain(record)):
            line = self.line(link, before)
            if count > 1:
                sync = link.kind == "sync-error"
                what = (
                    f"{link.values['queue']}: sync of {link.values['key']}" if sync else link.values["target"]
                )
                text = f"{what} failed the same way {count} more times"
                line = msgspec.structs.replace(line, text=text)
            if before is not None and line.delta_us is not None and line.delta_us >= LONG_US:
                known = {each.ident for each in lines}
                lines += [each for each in self._meanwhile(before, link) if each.ident not in known]
            lines += self._fault_named(link, lines)
            lines += self._tried(link, before)
            lines += self._was_refused(link)
            shown = {each.ident for each in lines}
            lines += [each for each in self._had_failed(link) if each.ident not in shown]
            lines.append(line)
            before = link
        return lines

    @property
    def obstacles(self) -> Obstacles:
        """What is in the way of the objects."""
        if self._obstacles is None:
            self._obstacles = Obstacles(self.records)
        return self._obstacles

    def waits(self, key: str) -> list[Line]:
        """Why an object waits: its last obstacle, if nothing has ended it."""
        return self._obstacle(self.obstacles.last(path_of(key)), None)

    def waited(self, key: str, since_us: int) -> list[Line]:
        """Why an object waited: its longest obstacle since then that has ended, and what ended it."""
        return self._obstacle(*self.obstacles.longest(path_of(key), since_us))

    def programs(self, key: str, shown: Iterable[int]) -> list[Line]:
        """What is known of the programs of a pod, other than these records: why the last container
        ended, what the programs needed that is not simulated, and which packets policies dropped.
        """
        path, found = path_of(key), dict[object, Record]()
        for record in self.records:
            values = record.values
            if record.kind == "change" and values["key"] == key and values["what"] == "ended":
                found["ended"] = record
            elif record.kind == "decision" and values["what"] in PROGRAMS and values["target"] == path:
                new = values["what"] == "unknown"
                found[values["why"]["message"] if new else values["what"]] = record
            elif record.kind == "decision" and values["what"] == DROP:
                if path in (values["target"], values["why"]["peer"]):
                    found[values["target"], values["why"]["peer"], values["why"]["port"]] = record
        last = sorted(found.values(), key=lambda record: record.ident)[-PROGRAMS_MAX:]
        known = set(shown)  # a change is part of its write
        return [self._aside(each) for each in last if not known & {each.ident, _write_of(each)}]

    def _was_refused(self, link: Record) -> list[Line]:
        """That a write was refused before, and the step that ended the obstacle."""
        return self._obstacle(self.obstacles.before(link), link) if link.kind == "write" else []

    def _had_failed(self, link: Record) -> list[Line]:
        """That an operation had failed before the write that shows its success, and the step that
        ended the obstacle.
        """
        if link.kind != "write":
            return []
        return self._obstacle(self.obstacles.failure(link, self.changes(link)), link)

    def _obstacle(self, found: Record | None, end: Record | None) -> list[Line]:
        """An obstacle, and the last step before its end."""
        if found is None:
            return []
        step = None if end is None else self.obstacles.end_of(found, end)
        return [self._aside(each) for each in (found, step) if each is not None]

    def _meanwhile(self, begin: Record, end: Record) -> list[Line]:
        first = bisect_right(self.records, begin.at_us, key=lambda record: record.at_us)
        found = []
        for record in self.records[first : end.ident - 1]:
            if record.kind == "decision":
                if record.values["what"] not in UPHEAVALS:
                    continue
            elif record.kind != "actor" or record.values["name"] in self.nodes:
                continue
            found.append(record)
        shown = {record.ident: record for record in found[-MEANWHILE_MAX:]}
        for record in [*shown.values()]:
            step = next((each for each in reversed(self.chain(record)) if each.kind in STEPS), None)
            if step is not None and step.at_us >= begin.at_us:
                shown[step.ident] = step
        return [self._aside(shown[ident]) for ident in sorted(shown)]

    def _fault_named(self, link: Record, shown: Sequence[Line]) -> list[Line]:
        """The fault that a decision names, unless the lines contain it already."""
        fault = self.get(int(link.values["why"].get("fault", 0))) if link.kind == "decision" else None
        known = any(line.ident == fault.ident for line in shown) if fault is not None else True
        return [] if fault is None or known else [self._aside(fault)]

    def _tried(self, link: Record, before: Record | None) -> list[Line]:
        """When a pod could not be scheduled before it was, if its chain comes from the event that
        made room for it.
        """
        if link.kind != "schedule" or (before is not None and before.kind == "schedule"):
            return []
        failed = [r for r in self._unplaced.get(link.values["pod"], ()) if r.ident < link.ident]
        return [self._aside(failed[-1])] if failed else []

    def _aside(self, record: Record) -> Line:
        line = self.line(record, None)
        step = self.get(record.values["step"]) if record.kind == "step-end" else None
        if step is not None:  # its begin may be long before
            line = msgspec.structs.replace(line, text=f"end of {tell(step, self.changes(step))}")
        return msgspec.structs.replace(line, text=f"({line.text})", aside=True)


def _write_of(record: Record) -> int:
    """The write that a change is part of; 0 for another record."""
    return record.cause if record.kind == "change" else 0


def _without_repeats(chain: Sequence[Record]) -> list[tuple[Record, int]]:
    """The links of a chain, of equal failures in a row only the first and the last.

    Each comes with the number of failures that it stands for.
    """
    found: list[tuple[Record, int]] = []
    first: Record | None = None
    for link in chain:
        fails = link.kind == "sync-error" or link.values.get("what") == FAILS
        alike = first is not None and fails and link.values == first.values
        if not alike:
            first = link if fails else None
            found.append((link, 1))
        elif found[-1][0] is first:
            found.append((link, 1))
        else:
            found[-1] = link, found[-1][1] + 1
    return found


# --- which record is meant ------------------------------------------------------------------------


def about(book: Book, key: str) -> list[Record]:
    """The writes and changes of the object with this key, in order."""
    return [r for r in book.records if r.kind in ("write", "change") and r.values["key"] == key]


# The fact with the change that counts as the end of an object that is not deleted, by precedence.
ENDS: Sequence[str] = ("holder", "ready", "pressures", "phase", "replicas", "node")
# Facts with a notable first value.
BEGINNINGS = ("node", "pressures")


def _deletions(changes: Sequence[Record]) -> list[Record]:
    """The end of each successive object of a name: its deletion mark, or its removal if there was
    no mark.
    """
    found, marked = list[Record](), False
    for record in changes:
        what = record.values["what"]
        if what in ("deleting", REMOVED):
            if not marked:
                found.append(record)
            marked = what != REMOVED
    return found


def notable(records: Sequence[Record]) -> Record:
    """The end that a question about an object is about: its deletion, or else its last change of
    state.

    Its first state counts only if no other followed.
    """
    changes = [r for r in records if r.kind == "change"]
    if deletions := _deletions(changes):
        return deletions[-1]
    later = [r for r in changes if r.values["before"] is not None or r.values["what"] in BEGINNINGS]
    for found in (later, changes):
        for what in ENDS:
            of = [r for r in found if r.values["what"] == what]
            if of:
                return of[-1]
    return (changes or records)[-1]


def chosen(records: Sequence[Record], what: str) -> Record | None:
    """The last record of this kind: created, deleted, removed, a changed fact ("ready") or its
    value ("ready=False").

    A pressure may be named by its condition ("DiskPressure=True"), an added taint by any part of it
    ("unreachable:NoExecute"), and a fact by its value alone ("Running").
    """
    if what == CREATED:
        found = [r for r in records if r.kind == "write" and r.values["verb"] == "create"]
    elif what == DELETED:
        found = _deletions([r for r in records if r.kind == "change"])
        found = found or [r for r in records if r.kind == "write" and r.values["verb"] == "delete"]
    else:
        name, equals, value = what.partition("=")
        changes = [r for r in records if r.kind == "change"]
        found = [r for r in changes if r.values["what"].lower() == name.lower()]
        found = [r for r in found if not equals or _value(r.values["after"]).lower() == value.lower()]
        found = found or [r for r in changes if r.values["what"] == "pressures" and _turned(r, name, value)]
        if not found and not equals:
            taint = what.removeprefix("taint").strip()
            found = [r for r in changes if r.values["what"] == "taints" and _came(r, taint)]
            found = found or [r for r in changes if _value(r.values["after"]).lower() == what.lower()]
    return found[-1] if found else None


def _turned(record: Record, pressure: str, value: str) -> bool:
    """True if a change of pressures is one of this condition to this value ("": any)."""
    before, after = (
        pressure.lower() in (str(each).lower() for each in record.values[when] or ())
        for when in ("before", "after")
    )
    return before != after and value.lower() in ("", str(after).lower())


def _came(record: Record, part: str) -> bool:
    """True if a change of taints added one with this part."""
    before, after = (record.values[when] or () for when in ("before", "after"))
    return any(part.lower() in taint.lower() for taint in after if taint not in before)


def choices(records: Sequence[Record]) -> list[str]:
    """The texts that `chosen` would find."""
    made = [CREATED] if any(r.kind == "write" and r.values["verb"] == "create" for r in records) else []
    gone = [DELETED] if chosen(records, DELETED) else []
    return [*made, *gone, *dict.fromkeys(r.values["what"] for r in records if r.kind == "change")]


# --- words ----------------------------------------------------------------------------------------


def clock(us: int) -> str:
    """Virtual time for people: "5m00.000s", "1h02m03.500s"."""
    minutes, rest = divmod(us, 60 * SECOND)
    hours, minutes = divmod(minutes, 60)
    seconds, rest = divmod(rest, SECOND)
    text = f"{minutes:02d}m{seconds:02d}.{rest // 1000:03d}s"
    return f"{hours}h{text}" if hours else text.removeprefix("0")


def short(us: int) -> str:
    """A duration in milliseconds, or in microseconds if it is shorter than one."""
    return format_duration(us // 1000 * 1000 if us >= 1000 else us)


def delta(line: Line) -> str:
    """The time since the previous link; "" if there is none."""
    return "" if line.delta_us is None else f"+{short(line.delta_us)}"


def who(record: Record) -> str:
    """The actor of a record; "" for a kind without one, and for a kind of a user's own program."""
    found = WHO.get(record.kind)
    return found(record.values) if found is not None else ""


def _user(name: str) -> str:
    """The short name of a user: a node's own, or that of the controller for its account."""
    account = name.removeprefix(ACCOUNT_USER).partition(":")
    if account[0] != name and account[0].endswith(SYSTEM_NAMESPACE):
        return account[2]
    return name.removeprefix(NODE_USER).removeprefix("system:")


# The actor of a record, by its kind.
WHO: Mapping[RecordKind, Callable[[Values], str]] = {
    "decision": lambda values: str(values["actor"]),
    "actor": lambda values: str(values["name"]),
    "write": lambda values: _user(str(values["user"])),
    "refused": lambda values: _user(str(values["user"])),
    "step": lambda values: "scenario",
    "step-end": lambda values: "scenario",
    "schedule": lambda values: "scheduler",
    "command": lambda values: "admin",
    "request": lambda values: str(values["client"]),
    "rules": lambda values: f"{values['node']} (proxy)",
    "connection": lambda values: str(values["server"]),
}


def names(found: Any) -> str:
    """Up to NAMED_MAX names, and how many more there are; labels in the form of a selector."""
    if isinstance(found, dict):
        found = [f"{key}={value}" for key, value in found.items()]
    if not isinstance(found, list | tuple):
        return str(found)
    few = ", ".join(str(name) for name in found[:NAMED_MAX])
    return f"{few} and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else few


def _last_seen(at_us: int, noticed_us: int) -> str:
    """When a lease was renewed, and from when on its reader counts the silence."""
    # Renewed after that, by a clock that is behind: the new time is not later than the old one.
    if at_us > noticed_us:
        return f"; the renewal at {clock(at_us)} has no later time, and does not count"
    return f"; last renewal at {clock(at_us)}, seen at {clock(noticed_us)}"


def tell(record: Record, changes: Sequence[Values] = ()) -> str:
    """The event of a record, in a sentence."""
    words = WORDS.get(record.kind)
    if words is None:
        return ", ".join(f"{name} {_value(value)}" for name, value in record.values.items())
    text = words(record.values)
    facts = [changed(change) for change in changes]
    return f"{text}: {', '.join(facts)}" if facts else text


def changed(change: Values) -> str:
    """A notable change, in a sentence."""
    what, before, after = change["what"], change["before"], change["after"]
    if what == REMOVED:
        return "it is gone"
    if what == "deleting":
        return "marked for deletion"
    if before is None:
        return f"{what} {_value(after)}"
    return f"{what} {_value(before)} → {_value(after)}"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _write(values: Values) -> str:
    verb, _, sub = values["verb"].partition(" ")
    what = path_of(values["key"])
    if sub == "binding":
        return f"binds {what}"
    if sub == "eviction":
        return f"evicts {what}"
    verbs = {
        "create": "creates",
        "update": "updates",
        "patch": "patches",
        "delete": "deletes",
        "get": "reads",
    }
    verbs |= {"list": "lists", "watch": "watches"}
    return f"{verbs.get(verb, verb)} {f'the {sub} of ' if sub else ''}{what}"


def _step(values: Values) -> str:
    detail = {name: value for name, value in values["detail"].items() if value not in (None, "", (), [], {})}
    if "sources" in detail:
        ends = names(detail.pop("sources")), names(detail.pop("targets"))
        words = ("from", "to") if detail.pop("one_way") else ("between", "and")
        detail = {words[0]: f"{ends[0]} {words[1]} {ends[1]}", **detail}
    parts = []
    for part in sorted(detail.items(), key=lambda part: _PLACES.get(part[0].rpartition("_")[2], 1)):
        text = _part(*part)
        if text and text != values["kind"]:
            parts.append(text)
    phrase = " ".join(word for word in (values["kind"], "; ".join(parts)) if word)
    place = f" ({values['place']})" if values.get("place") else ""
    return f'step "{values["name"]}": {phrase}{place}'


# Order of the parts of a step: method, object, amount, duration.
_PLACES = {"how": 0, "what": 0, "milli": 2, "us": 3}
# Words for fields with special values; "" omits the field.
_SAID: Mapping[tuple[str, Any], str] = {
    ("on", True): "",
    ("on", False): "",
    **{said: words for fault in FAULTS for said, words in fault.words.items()},
}


def _part(name: str, value: Any) -> str:
    """One field of a step's action, in words."""
    if isinstance(value, int | float | str) and (name, value) in _SAID:
        return _SAID[name, value]
    match name:
        case "how" | "what":
            return str(value)
        case "scale":
            resource, namespace, owner, low, high = value
            return f"scales {resource}/{namespace}/{owner} from {low} to {high}"
        case "mean_gap_us":
            return f"one each {short(value)} on average"
        case "list_of":
            return f"lists {value}"
        case "grace_s":
            return f"grace period {value}s"
        case "prefix":
            return f"name {value}*"
        case "amount_us":
            return f"by {short(value)}"
        case "taints":
            return f"taints {names([_taint(one) for one in value])}"
    unit = name.rpartition("_")[2]
    shown_name = name.removesuffix("_us").removesuffix("_milli").replace("_", " ")
    if unit == "us":
        span = value if isinstance(value, list | tuple) else (value,)
        return f"{shown_name} {' to '.join(short(one) for one in dict.fromkeys(span))}"
    if unit == "milli":
        return f"{shown_name} {format_quantity_milli(value)}"
    return f"{shown_name} {_amount(value) if name in AMOUNTS else names(value)}"


def _taint(taint: Mapping[str, str]) -> str:
    """A taint in the notation of kubectl: key=value:effect."""
    value, effect = taint.get("value", ""), taint.get("effect", "")
    return taint["key"] + (f"={value}" if value else "") + (f":{effect}" if effect else "")


def _amount(value: Any) -> str:
    return format_quantity(value, BINARY_SI) if isinstance(value, int) else str(value)


_HAPPENS = {
    "start": "the process starts",
    "crash": "the process is gone",
    "terminate": "gets SIGTERM",
    "exit": "the process ends by itself",
    "pause": "stands still",
    "resume": "goes on",
    "slow": "becomes slow",
    **{what: words for fault in FAULTS for what, words in fault.happens.items()},
}


def _actor(values: Values) -> str:
    what = str(values["what"])
    text = _HAPPENS.get(what, what)
    return f"{text}: {values['reason']}" if values["reason"] else text


def _schedule(values: Values) -> str:
    if values["node"]:
        return f"chooses {values['node']} for pods/{values['pod']}"
    return f"finds no node for pods/{values['pod']}: {values['message']}"


def _decision(values: Values) -> str:
    target, why = values["target"], values["why"]
    silent = f"for {short(why['silent_us'])}" if "silent_us" in why else ""
    match values["what"]:
        case "unheard":
            return f"has had no heartbeat of {target} {silent}: it becomes Unknown"
        case "taint":
            return f"it is the turn of {target} (zone {why['zone']}): taint {why['taint']}"
        case "evict":
            return f"evicts {target}: {why.get('message') or 'its time on a tainted node is over'}"
        case "take-over":
            return f"takes over {target}: {why['holder'].partition('_')[0]} has not renewed it {silent}"
        case "refused-lease":
            return f"cannot lead: is refused {target}: {why['message']}"
        case "lost-lease":
            return f"stops leading: could not renew {target} {silent}"
        case "relist":
            return f"will list {target} again: {why['why'] or 'the watch ended in an error'}"
        case "close":
            return (
                f"takes no more requests: {why['requests']} are in flight, {why['watches']} watches continue"
            )
        case "back-off":
            return (
                f"container {why['container']} of {target} had exited ({why['exit_code']}): "
                f"waits {short(why['wait_us'])} before a restart"
            )
        case "autoscale":
            return f"scales {target} from {why['from']} to {why['to']}: {why['why'] or 'as decided before'}"
        case "instance-gone":
            return f"finds no instance of {target} in the cloud: it is deleted"
        case "instance-stopped":
            return f"finds the instance of {target} stopped: it is closed"
        case "restart":
            return f"restarts container {why['container']} of {target}, which had exited ({why['exit_code']})"
        case "unmount-fails":
            return (
                f"cannot unmount volume {why['volume']} of {target}: {why['error']}; "
                f"waits {short(why['wait_us'])} before it tries again"
            )
        case "pull-back-off":
            return (
                f"cannot pull image {why['image']} of {target}: {why['error']}; "
                f"waits {short(why['wait_us'])} before it tries again"
            )
        case "fails" | "unhealthy":
            return f"{why['reason']} of {target}: {why['message']}"
        case "unknown":
            return f"container {why['container']} of {target} needs what is not simulated: {why['message']}"
        case "drop":
            way = "to" if why["direction"] == "Egress" else "from"
            what = f"packets of {target} {way} {why['peer']}, port {why['port']}"
            return f"drops {what}: NetworkPolicies {names(why['policies'])} allow no such {why['direction'].lower()}"
        case "kill":
            return f"kills {names(why['containers'])} of {target}: {why['message']}"
    facts = ", ".join(f"{name} {_value(value)}" for name, value in why.items())
    return f"{values['what']} {target} ({facts})" if facts else f"{values['what']} {target}"


WORDS: Mapping[str, Callable[[Values], str]] = {
    "write": _write,
    "step": _step,
    "step-end": lambda values: f'step "{values["name"]}" ends',
    "actor": _actor,
    "schedule": _schedule,
    "decision": _decision,
    "change": lambda values: f"{path_of(values['key'])}: {changed(values)}",
    "command": lambda values: f"{values['what']} {values['target']}: {values['outcome']}",
    "zone": lambda values: f"zone {values['zone'].strip(':').replace(chr(0), '')} is {values['state']}",
    "refused": lambda values: f"{_write(values)}: refused: {values['message']}",
    "request": lambda values: (
        f"requests to {values['service']} are {values['outcome']}"
        + (f" at {values['pod']}" if values["pod"] else "")
    ),
    "rules": lambda values: (
        f"writes the rules of {values['services']} Services, {values['endpoints']} endpoints"
    ),
    "sync-error": lambda values: f"{values['queue']}: sync of {values['key']} failed: {values['error']}",
}
