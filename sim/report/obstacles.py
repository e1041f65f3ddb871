"""What is in the way of an object: refused writes, failed attempts, and what ended them.

Turns the records of a trace into those that say why something has not happened: a write that a
server refused, a pod that found no node, an image that cannot be pulled, a container that exits, a
volume that cannot be unmounted.

Holds: an obstacle of an object ends with the next write of the same verb and user, of a pod without
    a node with the choice of one, else when the pod is ready or gone; what is known of a workload
    is that of its ReplicaSets, Jobs and pods, which are named after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sim.kernel import Record

DECISIONS = ("pull-back-off", "back-off", "unmount-fails")
CHILDREN = ("replicasets", "jobs", "pods", "persistentvolumeclaims", "statefulsets")
STEPS = ("step", "step-end")
ENDS = (("ready", "True"), ("phase", "Succeeded"), ("phase", "Failed"))


class Obstacles:
    """The obstacles of a trace, by the path of the object: "pods/default/web-1"."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._of: dict[str, list[Record]] = {}
        self._ended: dict[str, int] = {}  # id of the last record that ends what the key names
        self._refused = False
        for record in records:
            if path := _path_of(record):
                self._of.setdefault(path, []).append(record)
                self._refused = self._refused or record.kind == "refused"
            self._index(record)

    def last(self, path: str) -> Record | None:
        """The last obstacle of an object or of its children that nothing has ended since."""
        resource, _, name = path.partition("/")
        found = list(self._of.get(path, ()))
        for child in CHILDREN if resource not in ("pods", "nodes") else ():
            prefix = f"{child}/{name}-"
            found += [r for key, rs in self._of.items() if key.startswith(prefix) for r in rs]
        found = [record for record in found if not self._is_over(record)]
        return max(found, key=lambda record: record.ident, default=None)

    def before(self, write: Record) -> Record | None:
        """The first of the refusals of a write before it succeeded."""
        if not self._refused:
            return None
        user, verb = write.values["user"], write.values["verb"]
        known = [record for path in _written(write) for record in self._of.get(path, ())]
        refused = [r for r in known if r.kind == "refused" and r.ident < write.ident]
        same = [r for r in refused if (r.values["user"], r.values["verb"]) == (user, verb)]
        return same[0] if same else None

    def end_of(self, refused: Record, write: Record) -> Record | None:
        """The last step, or end of a step, between a refusal and the success."""
        steps = [r for r in self._records[refused.ident : write.ident - 1] if r.kind in STEPS]
        return steps[-1] if steps else None

    def _index(self, record: Record) -> None:
        """Note what a record ends."""
        values = record.values
        if record.kind == "schedule" and values["node"]:
            self._ended[f"node of pods/{values['pod']}"] = record.ident
        elif record.kind == "change":
            if values["what"] == "removed" or (values["what"], str(values["after"])) in ENDS:
                self._ended[path_of(values["key"])] = record.ident
        elif record.kind == "write" and self._refused:
            for path in _written(record):
                self._ended[f"{values['user']} {values['verb']} {path}"] = record.ident

    def _is_over(self, record: Record) -> bool:
        """True if the same user has written since, the pod has a node, or it is ready or gone."""
        values = record.values
        if record.kind == "refused":
            ended = f"{values['user']} {values['verb']} {path_of(values['key'])}"
        elif record.kind == "schedule":
            ended = f"node of pods/{values['pod']}"
        else:
            ended = str(values["target"])
        return self._ended.get(ended, 0) > record.ident


def _written(record: Record) -> tuple[str, ...]:
    """The path of a written object; of a new one also the prefix of a generated name."""
    path = path_of(record.values["key"])
    return (path, f"{path.rpartition('-')[0]}-") if record.values["verb"] == "create" else (path,)


def path_of(key: str) -> str:
    """A store's key as a path: "//pods/default/web-1" is "pods/default/web-1"."""
    _, _, resource, namespace, name = key.split("/", 4)
    return f"{resource}/{namespace}/{name}" if namespace else f"{resource}/{name}"


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
