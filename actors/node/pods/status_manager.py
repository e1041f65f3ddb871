"""Pod statuses on their way to the API server, one write at a time.

Turns `set` (the status a pod should have) into GET, strategic-merge PATCH of /status, and, once a deleted pod
has stopped and is cleaned up, the final DELETE with grace 0 and a uid precondition.

Holds: one request is under way at most; statuses are written in the order in which they came, each as it was then, until
the next 10 s batch: what waits then, or was not written, goes as it is now, once for each pod; a terminal phase is not
shown while containers may still run.  Of a pod of which there is nothing to tell, as of nearly all, its item is kept, not an entry.

Mirrors  pkg/kubelet/status/status_manager.go: SetPodStatus, syncPod, mergePodStatus, canBeDeleted (v1.25).
Differs  the batch timer runs only while something waits or is to be repaired; pods go in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from actors.node.pods.pod_status import OWN_CONDITIONS
from actors.node.requests import Api
from sim.api.objects import TERMINAL
from sim.api.store import Item
from sim.api.types import NOT_FOUND, Obj, Reply, Request
from sim.kernel.actor import Context
from sim.units import SECOND

BATCH_US = 10 * SECOND  # status_manager.go: syncPeriod
WAITING_MAX = 1000  # status_manager.go: podStatusChannel; what comes beyond that is left to the batch
PLACED = ("hostIP", "podIP", "podIPs", "nominatedNodeName")
TYPE = itemgetter("type")
NOTHING: Obj = {}


class Entry:
    """One pod's status.  `running`: containers may run; `reclaimed`: nothing of it is left on the node.

    held: the status, or the API's copy of the pod, which says the same and takes less memory while nobody reads it
    shown: the API's copy that says what was set last, as far as that is known: while it is there, nothing is to be written
    key: of the pod, in the store; version: of what is held; sent: the newest that was sent to the API
    cause: the record that led to what there is to tell
    """

    __slots__ = (
        "cause", "failed", "held", "key", "reclaimed", "running", "sent", "shown", "target", "uid", "version",
    )  # fmt: skip

    def __init__(self, uid: str, item: Item, held: Obj | Item = NOTHING) -> None:
        self.uid = uid
        self.target = uid  # the API object's uid: differs for static pods, whose mirror is written
        self.key = item.key
        self.held = held
        self.shown: Item | None = None
        self.running = True
        self.reclaimed = False
        self.version = self.sent = self.cause = 0
        self.failed = False

    @property
    def namespace(self) -> str:
        return self.key.rsplit("/", 2)[-2]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def status(self) -> Obj:
        return status_in(self.held)

    @property
    def dirty(self) -> bool:
        """Whether it holds something that was not sent."""
        return self.sent < self.version

    @property
    def untroubled(self) -> bool:
        """Whether what it holds says all there is to say."""
        odd = self.dirty or self.failed or self.reclaimed or not self.running
        return not odd and self.target == self.uid


def status_in(held: Obj | Item) -> Obj:
    """A status that is held as it is, or as that of an item."""
    return held if isinstance(held, dict) else held.obj.get("status") or {}


def outgoing(status: Obj, held: Obj, running: bool) -> Obj:
    """What to show: foreign conditions of the API's copy kept, a terminal phase withheld while containers run."""
    theirs = held.get("conditions") or ()
    conditions = status.get("conditions") or []  # a refused pod has none of its own
    shown = status
    if not OWN_CONDITIONS.issuperset(map(TYPE, theirs)) or not OWN_CONDITIONS.issuperset(
        map(TYPE, conditions)
    ):
        foreign = [c for c in theirs if c["type"] not in OWN_CONDITIONS]
        shown = {**status, "conditions": [*foreign, *[c for c in conditions if c["type"] in OWN_CONDITIONS]]}
    if "containerStatuses" not in status:  # of a refused pod nothing else is told
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
    """The strategic-merge patch of `status` that turns one into the other; {} if they are equal."""
    patch: Obj = {}
    for key, value in wanted.items():
        old = held.get(key)
        if old is value:
            continue
        if value is None:
            patch[key] = None
        elif key == "conditions":
            patch |= _conditions_part(old or NO_CONDITIONS, value) if value or not old else {key: None}
        elif key == "podIPs":
            # merged by address: a new sandbox's takes the place of the old one's only if that is deleted
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
# By the identity of both lists, which pods that come to the same in one second share.
_parts: dict[tuple[int, int], tuple[list[Obj], list[Obj], Obj]] = {}
_PARTS_MAX = 4096


def _conditions_part(old: list[Obj], new: list[Obj]) -> Obj:
    """What the patch says of conditions."""
    known = _parts.get((id(old), id(new)))
    if known is None:
        if len(_parts) >= _PARTS_MAX:
            _parts.clear()
        changed = _conditions_patch(old, new)
        part = {"conditions": changed, **condition_order(old, new)} if changed else {}
        known = _parts[id(old), id(new)] = (old, new, part)
    return known[2]


def condition_order(old: list[Obj], new: list[Obj]) -> Obj:
    """The directive for the order of conditions; none where merging in place keeps it (upstream always sends it)."""
    types = [*map(TYPE, new)]
    if types == [*map(TYPE, old)]:
        return {}
    return {"$setElementOrder/conditions": [{"type": type_} for type_ in types]}


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
    """Equal in what we set: servers may add null fields."""
    return bool(
        a["status"] == b["status"]
        and a.get("lastTransitionTime") == b.get("lastTransitionTime")
        and a.get("reason") == b.get("reason")
        and a.get("message") == b.get("message")
    )


# An entry, which version of it, what it held then, and the cause of that.
Wanted = tuple[Entry, int, Obj | Item, int]
NO_VERSION: tuple[int, Obj | Item] = (0, NOTHING)


class StatusManager:
    """The one consumer of a node's pod statuses.  _sent: whose request is under way; _wanted: what it is to write."""

    __slots__ = (
        "_api", "_began_us", "_calls", "_ctx", "_entries", "_patch", "_queue", "_retrying", "_sent", "_wanted", "on_deleted",
    )  # fmt: skip

    def __init__(self, ctx: Context, api: Api, on_deleted: Callable[[str], None]) -> None:
        self._ctx = ctx
        self._api = api
        self._began_us = ctx.now_us()
        self._queue: list[Wanted] = []
        self._calls = api.exchanges("pods")
        self._sent: Entry | None = None
        self._wanted = NO_VERSION  # and what was held then
        self._patch: Obj = NOTHING  # of it
        self._retrying = False
        self._entries: dict[str, Entry | Item] = {}
        self.on_deleted = on_deleted

    def track(self, uid: str, item: Item) -> Entry:
        """From now on the pod has a status here."""
        entry = self.entry(uid)
        if entry is None:
            entry = self._entries[uid] = Entry(uid, item)
        return entry

    def entry(self, uid: str) -> Entry | None:
        """For whom to change it."""
        found = self._entries.get(uid)
        if isinstance(found, Item):
            found = self._entries[uid] = Entry(uid, found, held=found)
        return found

    def status(self, uid: str) -> Obj | None:
        found = self._entries.get(uid)
        if found is None:
            return None
        return status_in(found if isinstance(found, Item) else found.held)

    def forget(self, uid: str) -> None:
        entry = self.entry(uid)
        if entry is not None:
            del self._entries[uid]
            entry.sent = entry.version

    def set(self, uid: str, status: Obj, shown: Item | None = None) -> bool:
        """The pod's status is now this; written if it differs from the last one, which is answered.

        A pod whose object is gone already (deleted by force while it ran) has nobody to tell.
        shown: the API's copy that was seen to say the same: held in its place, so that memory is shared
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
            shown = None  # of conditions of others one may be there twice, and is written; what is written may be a mirror
        entry.shown = shown
        self._push(entry)
        return True

    def reconcile(self, uid: str, item: Item) -> bool:
        """The API shows the pod so.  True if its status says what ours says: then it is held in place of ours, so that
        memory is shared.  What others changed of ours is put right by the next batch."""
        entry = self.entry(uid)
        if entry is None or not entry.held or entry.dirty or entry.failed:
            return False
        held, status = status_in(item), entry.status
        if held != status:
            if status_patch(held, outgoing(status, held, entry.running)):
                self._fail(entry)
                return False
            if held.get("phase") != status["phase"]:
                return False  # a terminal phase that is still withheld
        entry.held = item
        if entry is not self._sent:
            self._let_go(entry)
        return True

    def _let_go(self, entry: Entry) -> None:
        """If there is nothing left to tell of it, what it holds says all."""
        if entry.untroubled and isinstance(entry.held, Item) and self._entries.get(entry.uid) is entry:
            self._entries[entry.uid] = entry.held

    def stopped(self, uid: str) -> None:
        """It is known now that nothing of the pod is here: what waited for that is left to the batch."""
        entry = self._entries.get(uid)
        if isinstance(entry, Entry) and entry.running:
            entry.running, entry.reclaimed = False, True
            self._fail(entry)

    def leave(self, uid: str) -> None:
        """Leave the pod's status to the batch."""
        entry = self.entry(uid)
        if entry is not None:
            self._fail(entry)

    def push(self, uid: str) -> None:
        """Write the pod's status, though it may be the same, as soon as the queue allows."""
        entry = self.entry(uid)
        if entry is None:
            return
        # What the batch queued while it was being sent is not sent again.
        waits = entry.dirty and any(e is entry and v == entry.version for e, v, *_ in self._queue)
        if not waits:
            self._push(entry)

    def _push(self, entry: Entry) -> None:
        entry.version += 1
        entry.cause = cause = self._ctx.kernel.cause
        idle = self._idle()
        if len(self._queue) < WAITING_MAX:
            self._queue.append((entry, entry.version, entry.held, cause))
        if idle:
            self._next()
        else:
            self._calls.plan()  # so that the next one follows
            self._batch_later()

    def _idle(self) -> bool:
        """Whether no request is under way.  The reply to a write that nobody waits for is not told."""
        sent = self._sent
        if sent is not None and self._calls.claim():
            self._sent, self._wanted, self._patch = None, NO_VERSION, NOTHING
            self._let_go(sent)
        return self._sent is None

    def tidy(self) -> None:
        """To be called now and then, for the sake of memory."""
        self._idle()

    def _next(self) -> None:
        if self._sent is not None:
            self._let_go(self._sent)
        while self._queue:
            entry, version, held, cause = self._queue.pop(0)
            if held and (entry.sent < version or entry.failed):
                self._sent, self._wanted = entry, (version, held)
                self._ctx.kernel.cause = cause
                self._ask()
                return
        self._queue = []  # of the room that it had
        self._sent, self._wanted = None, NO_VERSION

    def _ask(self) -> None:
        """Read the pod whose turn it is, and write its status."""
        entry = self._sent
        assert entry is not None
        read = (self._look, self._read_request, self._read)
        write = (self._write, self._write_request, self._written)
        alone = not (self._queue or entry.failed or entry.reclaimed)
        if not (
            alone and self._calls.exchange(read, self._compose, write, self._told)
        ) and not self._calls.send(*read):
            self._api.call(self._read_request(), self._read)

    def _compose(self, item: Item, _: int = 0) -> bool:
        """Whether there is something to write, which is then `_patch`."""
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

    def _told(self, item: Item, at_us: int) -> None:
        """It is written."""
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
        if reply.code == NOT_FOUND:  # deleted meanwhile: the source will say so
            self._next()
            return
        if not reply.ok:
            self._failed(entry)
            return
        entry.sent = self._wanted[0]
        item = reply.item
        assert item is not None
        if item is not entry.shown and item.obj["metadata"]["uid"] != entry.target:
            self._next()
            return
        if self._compose(item):
            # By a short way, the reply says nothing new of an entry in order.
            quiet = not self._queue and not entry.failed
            if not self._calls.send(self._write, self._write_request, self._written, quiet=quiet):
                self._api.call(self._write_request(), self._written)
        else:
            self._settle(entry, reply)

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
            self._next()
        elif not reply.ok:
            self._failed(entry)
        else:
            self._settle(entry, reply)

    def _settle(self, entry: Entry, reply: Reply) -> None:
        """The API has our status: delete the pod if it is to go and nothing of it is left."""
        entry.failed = False
        going = entry.reclaimed and entry.target == entry.uid and self._wanted[0] == entry.version
        if going and reply.obj["metadata"].get("deletionTimestamp"):
            self._api.delete_pod(entry.namespace, entry.name, entry.uid, self._deleted)
        else:
            self._next()

    def _deleted(self, reply: Reply) -> None:
        entry = self._sent
        assert entry is not None
        if reply.ok or reply.code == NOT_FOUND or reply.reason == "Conflict":
            self.on_deleted(entry.uid)
            self._next()
        else:
            self._failed(entry)

    def _failed(self, entry: Entry) -> None:
        self._fail(entry)
        self._next()

    def _fail(self, entry: Entry) -> None:
        """Leave it to the next batch."""
        entry.failed = True
        if not entry.dirty:
            entry.cause = self._ctx.kernel.cause
        if entry is self._sent:
            self._idle()
        self._batch_later()

    def _batch_later(self) -> None:
        if not self._retrying:
            self._retrying = True
            since_us = self._ctx.now_us() - self._began_us
            self._ctx.call_later_us(BATCH_US - since_us % BATCH_US, self._batch)

    def _batch(self, _: object) -> None:
        """What waits gives way to what is held now of all pods of which there is something to tell."""
        self._retrying = False
        entries = [entry for entry in self._entries.values() if isinstance(entry, Entry)]
        self._queue = [(e, e.version, e.held, e.cause) for e in entries if e.dirty or e.failed]
        if self._queue:
            if self._idle():
                self._next()
            else:
                self._calls.plan()
            self._batch_later()
