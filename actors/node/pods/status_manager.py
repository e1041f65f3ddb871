"""Pod statuses on their way to the API server, one write at a time.

Turns `set` (the status that a pod should have) into a read, a strategic-merge patch of /status,
and, once a deleted pod has stopped and nothing of it is left, the final deletion with grace period
0 and a precondition on its uid.

Holds: at most one request is under way; until the next 10 s batch, statuses are written in the
order in which they arrived, each as it was then; the batch replaces what still waits, or was not
written, by the present status, once for each pod; a terminal phase is not shown while containers
may still run.  For a pod without anything to write, as nearly all are, only its item is kept, and
no entry.

Mirrors  pkg/kubelet/status/status_manager.go: SetPodStatus, syncPod, mergePodStatus, canBeDeleted
         (v1.25).
Differs  the batch timer runs only while something waits or is to be repaired; pods are written in
         the order in which they arrived.
"""

from __future__ import annotations

from typing import Any

from actors.node.patches import TYPE, condition_order
from actors.node.pods.pod_status import OWN_CONDITIONS
from actors.node.requests import Api
from sim.api.objects import TERMINAL
from sim.api.store import Item
from sim.api.types import NOT_FOUND, Obj, Reply, Request
from sim.kernel.actor import Context
from sim.kernel.network import Purpose
from sim.units import SECOND

BATCH_US = 10 * SECOND  # status_manager.go: syncPeriod
WAITING_MAX = 1000  # status_manager.go: podStatusChannel; further statuses are left to the batch
PLACED = ("hostIP", "podIP", "podIPs", "nominatedNodeName")
NOTHING: Obj = {}


class Entry:
    """One pod's status.

    target: uid of the API object; a static pod's is that of its mirror
    key: of the pod, in the store
    held: the status, or the API's copy of the pod, which has the same status and takes less memory
        until it is read
    shown: the API's copy that has the status that was set last, if known: then nothing is to be
        written
    running: True while containers may run
    reclaimed: True once nothing of the pod is left on the node
    version: of what is held
    sent: the newest version that was sent to the API
    cause: the record that led to the present status
    failed: True if the status waits for the batch
    """

    __slots__ = (
        "cause", "failed", "held", "key", "reclaimed", "running", "sent", "shown", "target", "uid", "version",
    )  # fmt: skip

    def __init__(self, uid: str, item: Item, held: Obj | Item = NOTHING) -> None:
        self.uid = uid
        self.target = uid
        self.key = item.key
        self.held = held
        self.shown: Item | None = None
        self.running = True
        self.reclaimed = False
        self.version = self.sent = self.cause = 0
        self.failed = False

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.key.rsplit("/", 2)[-2]

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.key.rpartition("/")[2]

    @property
    def status(self) -> Obj:
        """The status that the pod should have."""
        return status_in(self.held)

    @property
    def is_unsent(self) -> bool:
        """True if the entry holds a status that was not sent."""
        return self.sent < self.version

    @property
    def is_settled(self) -> bool:
        """True if the entry holds nothing but its status."""
        unsettled = self.is_unsent or self.failed or self.reclaimed or not self.running
        return not unsettled and self.target == self.uid


def status_in(held: Obj | Item) -> Obj:
    """The status in what an entry holds."""
    return held if type(held) is dict else held.obj.get("status") or {}  # type: ignore[union-attr]


def outgoing(status: Obj, held: Obj, running: bool) -> Obj:
    """The status to show.

    Other clients' conditions stay, and a terminal phase is withheld while containers run.
    """
    api_conditions = held.get("conditions") or ()
    conditions = status.get("conditions") or []  # a refused pod has no conditions
    shown = status
    if not OWN_CONDITIONS.issuperset(map(TYPE, api_conditions)) or not OWN_CONDITIONS.issuperset(
        map(TYPE, conditions)
    ):
        foreign = [c for c in api_conditions if c["type"] not in OWN_CONDITIONS]
        shown = {**status, "conditions": [*foreign, *[c for c in conditions if c["type"] in OWN_CONDITIONS]]}
    if "containerStatuses" not in status:  # a refused pod has no other fields
        gone = [
            key for key in ("qosClass", *PLACED, "containerStatuses") if key in held and key not in status
        ]
        shown = {**shown, **dict.fromkeys(gone)} if gone else shown
    if running and status["phase"] in TERMINAL:
        shown = {**shown, "phase": held.get("phase") or "Pending"}
        for key in ("reason", "message"):
            shown.pop(key, None)
            if key in held:
                shown[key] = held[key]
    return shown


def status_patch(held: Obj, wanted: Obj) -> Obj:
    """The strategic-merge patch from one `status` to the other; empty if they are equal."""
    patch: Obj = {}
    for key, value in wanted.items():
        old = held.get(key)
        if old is value:
            continue
        if value is None:
            patch[key] = None
        elif key == "conditions":
            patch |= _condition_part(old or NO_CONDITIONS, value) if value or not old else {key: None}
        elif key == "podIPs":
            # Addresses are merged by `ip`: the new sandbox's replaces the old one only if that is
            # deleted.
            gone = [{"$patch": "delete", "ip": entry["ip"]} for entry in old or () if entry not in value]
            if gone or old != value:
                patch[key] = [*value, *gone]
        elif old != value:
            patch[key] = value
    for key in ("reason", "message", "initContainerStatuses"):
        if key in held and key not in wanted:
            patch[key] = None
    return patch


NO_CONDITIONS: list[Obj] = []
# By the identity of both lists, which pods with equal changes in one second share.
_condition_parts: dict[tuple[int, int], tuple[list[Obj], list[Obj], Obj]] = {}
_CONDITION_PARTS_MAX = 4096


def _condition_part(old: list[Obj], new: list[Obj]) -> Obj:
    """The part of the patch for conditions."""
    known = _condition_parts.get((id(old), id(new)))
    if known is None:
        if len(_condition_parts) >= _CONDITION_PARTS_MAX:
            _condition_parts.clear()
        changed = _conditions_patch(old, new)
        part = {"conditions": changed, **condition_order(old, new)} if changed else {}
        known = _condition_parts[id(old), id(new)] = (old, new, part)
    return known[2]


def _conditions_patch(old: list[Obj], new: list[Obj]) -> list[Obj]:
    before = {c["type"]: c for c in old}
    changed = []
    for condition in new:
        held = before.get(condition["type"])
        if held is None:
            changed.append(condition)
        elif held != condition and not _same_condition(held, condition):
            gone: Obj = {key: None for key in ("reason", "message") if key in held and key not in condition}
            changed.append({**condition, **gone} if gone else condition)
    kept = {c["type"]: None for c in new}
    return [*changed, *({"$patch": "delete", "type": type_} for type_ in before if type_ not in kept)]


def _same_condition(a: Obj, b: Obj) -> bool:
    """True if the fields that we set are equal: servers may add null fields."""
    return bool(
        a["status"] == b["status"]
        and a.get("lastTransitionTime") == b.get("lastTransitionTime")
        and a.get("reason") == b.get("reason")
        and a.get("message") == b.get("message")
    )


# an entry, its version, what it held then, and the cause of that
QueuedStatus = tuple[Entry, int, Obj | Item, int]
NO_VERSION: tuple[int, Obj | Item] = (0, NOTHING)


class StatusManager:
    """Writes the pod statuses of one node.

    _sent: the entry with a request under way
    _wanted: the version and the status that this request writes
    _patch: the patch that this request writes
    _batch_planned: True if the next batch is scheduled
    """

    __slots__ = (
        "_api", "_batch_planned", "_began_us", "_calls", "_ctx", "_entries", "_patch", "_queue", "_sent",
        "_wanted",
    )  # fmt: skip

    def __init__(self, ctx: Context, api: Api) -> None:
        self._ctx = ctx
        self._api = api
        self._began_us = ctx.now_us()
        self._queue: list[QueuedStatus] = []
        self._calls = api.exchanges("pods", purpose=Purpose.POD_STATUS)
        self._sent: Entry | None = None
        self._wanted = NO_VERSION
        self._patch: Obj = NOTHING
        self._batch_planned = False
        self._entries: dict[str, Entry | Item] = {}

    def track(self, uid: str, item: Item) -> Entry:
        """Keep a status of the pod from now on."""
        entry = self.entry(uid)
        if entry is None:
            entry = self._entries[uid] = Entry(uid, item)
        return entry

    def entry(self, uid: str) -> Entry | None:
        """The pod's entry, for a caller that changes it."""
        found = self._entries.get(uid)
        if isinstance(found, Item):
            found = self._entries[uid] = Entry(uid, found, held=found)
        return found

    def status(self, uid: str) -> Obj | None:
        """The status that the pod should have; None for an unknown pod."""
        found = self._entries.get(uid)
        if found is None:
            return None
        return status_in(found if isinstance(found, Item) else found.held)

    def forget(self, uid: str) -> None:
        """Drop the pod's status."""
        entry = self.entry(uid)
        if entry is not None:
            del self._entries[uid]
            entry.sent = entry.version

    def set(self, uid: str, status: Obj, shown: Item | None = None) -> bool:
        """Set the pod's status; returns False if it equals the last one.

        A pod that was deleted by force while it ran has no status to write.

        shown: the API's copy that has the same status: it is held instead, so that memory is shared
        """
        held = self.status(uid)
        if held is None:
            return True
        if held == status:
            return False
        entry = self.entry(uid)
        assert entry is not None
        entry.held = status if shown is None else shown
        if shown is not None and (len(status["conditions"]) > len(OWN_CONDITIONS) or entry.target != uid):
            # A condition of another client may be there twice and is then written; the API object
            # may be a mirror.
            shown = None
        entry.shown = shown
        self._push(entry)
        return True

    def reconcile(self, uid: str, item: Item) -> bool:
        """Observe the stored state of the pod.

        Returns True if its status equals ours: then it is held instead of ours, so that memory is
        shared.  The next batch restores what other clients changed.
        """
        self._catch_up()
        entry = self.entry(uid)
        if entry is None or not entry.held or entry.is_unsent or entry.failed:
            return False
        held, status = status_in(item), entry.status
        if held != status:
            if status_patch(held, outgoing(status, held, entry.running)):
                self._leave_to_batch(entry)
                return False
            if held.get("phase") != status["phase"]:
                return False  # a terminal phase that is still withheld
        entry.held = item
        if entry is not self._sent:
            self._release(entry)
        return True

    def _release(self, entry: Entry) -> None:
        """Keep only the item of a pod if its entry holds nothing else."""
        if entry.is_settled and isinstance(entry.held, Item) and self._entries.get(entry.uid) is entry:
            self._entries[entry.uid] = entry.held

    def stopped(self, uid: str) -> None:
        """Nothing of the pod is on the node: the batch takes what waited for that."""
        entry = self._entries.get(uid)
        if isinstance(entry, Entry) and entry.running:
            entry.running, entry.reclaimed = False, True
            self._leave_to_batch(entry)

    def retarget(self, uid: str, target: str) -> None:
        """Write the pod's status to the API object with the uid `target` from now on."""
        entry = self.entry(uid)
        if entry is not None and entry.target != target:
            entry.target = target
            self.push(uid)

    def leave(self, uid: str) -> None:
        """Leave the pod's status to the batch."""
        entry = self.entry(uid)
        if entry is not None:
            self._leave_to_batch(entry)

    def push(self, uid: str) -> None:
        """Write the pod's status, even if it is unchanged, as soon as the queue allows."""
        entry = self.entry(uid)
        if entry is None:
            return
        self._catch_up()
        # A status that the batch queued while it was being sent is not sent again.
        waits = entry.is_unsent and any(e is entry and v == entry.version for e, v, *_ in self._queue)
        if not waits:
            self._push(entry)

    def _push(self, entry: Entry) -> None:
        entry.version += 1
        entry.cause = cause = self._ctx.kernel.cause
        idle = self._idle()
        if len(self._queue) < WAITING_MAX:
            self._queue.append((entry, entry.version, entry.held, cause))
        if idle:
            self._write_next()
        else:
            self._calls.plan()  # so that the next write follows
            self._batch_later()

    def _catch_up(self) -> None:
        """Count a read as answered from the instant at which its reply arrives.

        No event delivers the reply to a read on the fast path.
        """
        if self._sent is not None and self._calls.read_us <= self._ctx.kernel.now_us:
            self._sent.sent = self._wanted[0]

    def _idle(self) -> bool:
        """True if no request is under way.

        A write that nothing waits for may be over without a reply.
        """
        sent = self._sent
        if sent is not None and self._calls.claim():
            self._sent, self._wanted, self._patch = None, NO_VERSION, NOTHING
            self._release(sent)
        return self._sent is None

    def tidy(self) -> None:
        """Release memory; called from time to time."""
        self._idle()

    def _write_next(self) -> None:
        if self._sent is not None:
            self._release(self._sent)
        while self._queue:
            entry, version, held, cause = self._queue.pop(0)
            if held and (entry.sent < version or entry.failed):
                self._sent, self._wanted = entry, (version, held)
                self._ctx.kernel.follow(cause)
                self._start_write()
                return
        self._queue = []  # a new list, to release the memory of the old one
        self._sent, self._wanted = None, NO_VERSION

    def _start_write(self) -> None:
        """Read the pod that is next, and write its status."""
        entry = self._sent
        assert entry is not None
        read = (self._look, self._read_request, self._read)
        write = (self._write, self._write_request, self._written)
        if self._queue or entry.failed or entry.reclaimed:
            self._calls.call(*read)
        else:
            self._calls.read_modify_write(read, self._compose, write, self._status_written)

    def _compose(self, item: Item, _: int = 0) -> bool:
        """True if there is something to write, which `_patch` then holds."""
        entry, (version, wanted) = self._sent, self._wanted
        assert entry is not None
        if item is entry.shown and version == entry.version:
            self._patch = NOTHING
            return False
        pod = item.obj
        if pod["metadata"]["uid"] != entry.target:
            return False
        held = pod.get("status") or {}
        patch = status_patch(held, outgoing(status_in(wanted), held, entry.running))
        self._patch = {"metadata": {"uid": entry.target}, "status": patch} if patch else NOTHING
        return bool(patch)

    def _status_written(self, item: Item, at_us: int) -> None:
        """The server has written the status."""
        assert self._sent is not None
        self._sent.sent = self._wanted[0]

    def _look(self, way: Any) -> tuple[Item, int] | None:
        assert self._sent is not None
        served: tuple[Item, int] | None = way.look(self._sent.key)
        return served

    def _read_request(self) -> Request:
        assert self._sent is not None
        return self._api.pod_read(self._sent.namespace, self._sent.name)

    def _read(self, reply: Reply) -> None:
        entry = self._sent
        assert entry is not None
        if reply.code == NOT_FOUND:  # deleted in between: the source will show it
            self._write_next()
            return
        if not reply.ok:
            self._request_failed(entry)
            return
        entry.sent = self._wanted[0]
        item = reply.item
        assert item is not None
        if item is not entry.shown and item.obj["metadata"]["uid"] != entry.target:
            self._write_next()
            return
        if self._compose(item):
            # On the fast path, the reply has no news about a settled entry.
            quiet = not self._queue and not entry.failed
            self._calls.call(self._write, self._write_request, self._written, quiet=quiet)
        else:
            self._finish_write(entry, reply)

    def _write(self, way: Any) -> tuple[Item, int] | None:
        assert self._sent is not None
        served: tuple[Item, int] | None = way.patch(self._sent.key, self._patch)
        return served

    def _write_request(self) -> Request:
        assert self._sent is not None
        return self._api.pod_status_patch(self._sent.namespace, self._sent.name, self._patch)

    def _written(self, reply: Reply) -> None:
        self._patch = NOTHING
        entry = self._sent
        assert entry is not None
        entry.sent = self._wanted[0]
        if reply.code == NOT_FOUND:
            self._write_next()
        elif not reply.ok:
            self._request_failed(entry)
        else:
            self._finish_write(entry, reply)

    def _finish_write(self, entry: Entry, reply: Reply) -> None:
        """The status is stored: delete the pod if that is due and nothing of it is left."""
        entry.failed = False
        going = entry.reclaimed and entry.target == entry.uid and self._wanted[0] == entry.version
        if going and reply.obj["metadata"].get("deletionTimestamp"):
            self._api.delete_pod(entry.namespace, entry.name, entry.uid, self._deleted)
        else:
            self._write_next()

    def _deleted(self, reply: Reply) -> None:
        entry = self._sent
        assert entry is not None
        if reply.ok or reply.code == NOT_FOUND or reply.reason == "Conflict":
            self._write_next()
        else:
            self._request_failed(entry)

    def _request_failed(self, entry: Entry) -> None:
        self._leave_to_batch(entry)
        self._write_next()

    def _leave_to_batch(self, entry: Entry) -> None:
        """Leave the entry to the next batch."""
        self._catch_up()
        entry.failed = True
        if not entry.is_unsent:
            entry.cause = self._ctx.kernel.cause
        if entry is self._sent:
            self._idle()
        self._batch_later()

    def _batch_later(self) -> None:
        if not self._batch_planned:
            self._batch_planned = True
            since_us = self._ctx.now_us() - self._began_us
            self._ctx.call_later_us(BATCH_US - since_us % BATCH_US, self._batch)

    def _batch(self, _: object) -> None:
        """Replace the queue by the present statuses of all pods that have something to write."""
        self._batch_planned = False
        self._catch_up()
        entries = [entry for entry in self._entries.values() if isinstance(entry, Entry)]
        self._queue = [(e, e.version, e.held, e.cause) for e in entries if e.is_unsent or e.failed]
        if self._queue:
            if self._idle():
                self._write_next()
            else:
                self._calls.plan()
            self._batch_later()
