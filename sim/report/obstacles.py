"""What is in the way of an object: refused writes, failed attempts, and what ended them.

Turns the records of a trace into those that say why something has not happened: a request that a
server refused, a pod that found no node, an image that cannot be pulled, a container that exits, a
volume that is not provisioned, attached, mounted or unmounted.

Holds: an obstacle of an object ends with the next write of the same verb and user (of a forbidden
    read: with the next write of that user to the object), of a pod without a node with the choice
    of one, else when the pod begins to run, is ready or gone, or when the claim is bound; what is
    known of a workload is that of its ReplicaSets, Jobs and pods, which are named after it, of a
    pod that of its claims, and of a deleted pod that of a pod in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sim.api.store import path_of
from sim.kernel import Record

FAILS = "fails"  # an operation, with its reason and message: see `sim.client.events.recorder`
DECISIONS = ("pull-back-off", "back-off", "unmount-fails", FAILS)
READS = ("get", "list", "watch")
CHILDREN = ("replicasets", "jobs", "pods", "persistentvolumeclaims", "statefulsets")
OWNERS = ("deployments", "statefulsets")
STEPS = ("step", "step-end")
RELIEFS = (("ready", "True"), ("phase", "Running"), ("phase", "Bound"))
ENDS = (*RELIEFS, ("phase", "Succeeded"), ("phase", "Failed"))


class Obstacles:
    """The obstacles of a trace, by the path of the object: "pods/default/web-1"."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._of: dict[str, list[Record]] = {}
        self._ended: dict[str, list[int]] = {}  # ids of the records that end what the key names
        self._claims: dict[str, list[str]] = {}  # paths of the claims of a pod
        self._deleted: set[str] = set()  # paths
        self._owners: set[str] = set()  # namespaces and names of workloads
        self._refused = False
        for record in records:
            if path := _path_of(record):
                self._of.setdefault(path, []).append(record)
                self._refused = self._refused or record.kind == "refused"
            self._index(record)

    def last(self, path: str) -> Record | None:
        """The last obstacle of an object or of its children that nothing has ended since."""
        lasting = [record for record in self._about(path) if self._end(record) is None]
        return max(lasting, key=_weight, default=None)

    def longest(self, path: str, since_us: int) -> tuple[Record | None, Record | None]:
        """Of the obstacles of an object that began since then and have ended, the one that lasted
        longest, and its end; two times None if there is none.
        """
        ended = [(r, end) for r in self._about(path) if r.at_us >= since_us and (end := self._end(r))]
        if not ended:
            return None, None
        return max(ended, key=lambda each: (each[1].at_us - each[0].at_us, -each[0].ident))

    def before(self, write: Record) -> Record | None:
        """The first of the refusals of a write before it succeeded."""
        if not self._refused:
            return None
        user, verb = write.values["user"], write.values["verb"]
        known = [record for path in _written(write) for record in self._of.get(path, ())]
        refused = [r for r in known if r.kind == "refused" and r.ident < write.ident]
        same = [r for r in refused if (r.values["user"], r.values["verb"]) == (user, verb)]
        return same[0] if same else None

    def failure(self, write: Record, changes: Iterable[Mapping[str, object]]) -> Record | None:
        """The last failure of an operation before the write that shows the success of all; that a
        driver was waited for only if it was noted twice.
        """
        path = path_of(write.values["key"])
        if not any((each["what"], str(each["after"])) in RELIEFS for each in changes):
            return None
        begun = max(
            (each for each in self._ended.get(f"life of {path}", ()) if each < write.ident), default=0
        )
        known = [record for each in self._with_claims(path) for record in self._of.get(each, ())]
        failed = [r for r in known if r.values.get("what") == FAILS and begun < r.ident < write.ident]
        found = max(failed, key=_weight, default=None)
        return None if found is None or (len(failed) == 1 and not _weight(found)[0]) else found

    def end_of(self, refused: Record, write: Record) -> Record | None:
        """The last step, or end of a step, between a refusal and the success."""
        steps = [r for r in self._records[refused.ident : write.ident - 1] if r.kind in STEPS]
        return steps[-1] if steps else None

    def _with_claims(self, path: str) -> Sequence[str]:
        return path, *self._claims.get(path, ())

    def _about(self, path: str) -> Iterator[Record]:
        """The obstacles of an object, of its children, and of a pod in the place of a deleted one."""
        resource, _, name = path.partition("/")
        paths = dict.fromkeys(self._with_claims(path))
        if resource == "pods" and path in self._deleted:
            paths[f"{path.rpartition('-')[0]}-"] = None
        if resource not in ("pods", "nodes", "persistentvolumeclaims"):
            others = tuple(f"{other}-" for other in self._owners if other.startswith(f"{name}-"))
            for key in self._of:
                child, _, its_name = key.partition("/")
                if child in CHILDREN and its_name.startswith(f"{name}-") and not its_name.startswith(others):
                    paths[key] = None
        for key in paths:
            yield from self._of.get(key, ())

    def _index(self, record: Record) -> None:
        """Note what a record ends."""
        values = record.values
        if record.kind == "schedule" and values["node"]:
            self._note(f"node of pods/{values['pod']}", record)
        elif record.kind == "change":
            self._index_change(path_of(values["key"]), record)
        elif record.kind == "write" and self._refused:
            for path in _written(record):
                self._note(f"{values['user']} {values['verb']} {path}", record)
                self._note(f"{values['user']} {path}", record)

    def _index_change(self, path: str, record: Record) -> None:
        what, after = record.values["what"], record.values["after"]
        if what == "removed":
            self._note(path, record)
            self._note(f"life of {path}", record)
        elif (what, str(after)) in ENDS:
            self._note(path, record)
        if what == "claims":
            namespace = path.split("/")[1]
            self._claims[path] = [f"persistentvolumeclaims/{namespace}/{name}" for name in after or ()]
        elif what in ("deleting", "removed"):
            self._deleted.add(path)
        elif path.partition("/")[0] in OWNERS:
            self._owners.add(path.partition("/")[2])

    def _note(self, key: str, record: Record) -> None:
        self._ended.setdefault(key, []).append(record.ident)

    def _end(self, obstacle: Record) -> Record | None:
        """The record that ended an obstacle (see "Holds" above), None if none did."""
        values = obstacle.values
        if obstacle.kind == "refused":
            path, verb = path_of(values["key"]), values["verb"]
            key = f"{values['user']} {path}" if verb in READS else f"{values['user']} {verb} {path}"
        elif obstacle.kind == "schedule":
            key = f"node of pods/{values['pod']}"
        else:
            key = str(values["target"])
        later = (ident for ident in self._ended.get(key, ()) if ident > obstacle.ident)
        return next((self._records[ident - 1] for ident in later), None)


def _written(record: Record) -> tuple[str, ...]:
    """The path of a written object; of a new one also the prefix of a generated name."""
    path = path_of(record.values["key"])
    return (path, f"{path.rpartition('-')[0]}-") if record.values["verb"] == "create" else (path,)


def _weight(record: Record) -> tuple[bool, int]:
    """The order of obstacles: what waits for another process, which may say why, then the others by
    time.
    """
    fails = record.values.get("what") == FAILS
    return not (fails and record.values["why"]["reason"] == "ExternalProvisioning"), record.ident


def _path_of(record: Record) -> str:
    """The object that a record is an obstacle of; "" if it is none."""
    values: Mapping[str, object] = record.values
    if record.kind == "refused":
        return path_of(str(values["key"]))
    if record.kind == "schedule":
        return "" if values["node"] else f"pods/{values['pod']}"
    if record.kind == "decision" and values["what"] in DECISIONS:
        return str(values["target"])
    return ""
