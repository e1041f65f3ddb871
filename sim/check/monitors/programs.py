"""The resources `programs of pods` and `containers of pods`: what runs on machines.

Turns the containers that start on machines into objects that exist while they run, with the
metadata of their pods as the API last had them: a program is a pod that runs on one machine, and a
container one of its containers. A pod that the API no longer knows may still have programs, and a
pod of a StatefulSet that was moved while its old node was cut off has two.

Holds: an end is seen at its time, though it may be noticed later: at the next start, or after a
second.
"""

from __future__ import annotations

from typing import Any

from sim.api.store import Change
from sim.api.types import Obj
from sim.check.monitors.base import Emit, Monitor
from sim.units import SECOND

PROGRAMS, CONTAINERS = "programs", "containers"


class Programs(Monitor):
    """Reports what runs on machines.

    resource: PROGRAMS or CONTAINERS
    """

    wait_us = SECOND

    def __init__(self, resource: str, emit: Emit) -> None:
        super().__init__(resource, emit)
        self._pods: dict[str, Obj] = {}  # by uid, as the API last had them
        self._running: dict[str, list[Any]] = {}  # containers that have not ended, by program
        self._looked_us = 0

    def sources(self) -> frozenset[str]:
        """The pods, for their labels and owners."""
        return frozenset(("pods",))

    def see(self, resource: str, change: Change) -> None:
        """Take a commit of a pod."""
        obj = change.item.obj
        uid = obj["metadata"].get("uid", "")
        if change.deleted:
            if not self._of(uid):
                self._pods.pop(uid, None)
            return
        before = self._pods.get(uid)
        self._pods[uid] = obj
        if before is None or _selected_by(before) != _selected_by(obj):
            for program in self._of(uid):
                self._put(program, self._object(program, obj), change.at_us)

    def _of(self, uid: str) -> list[str]:
        """What runs of a pod."""
        return [program for program in self._running if uid in program]

    def program(self, node: str, pod: Any, container: Any, at_us: int) -> None:
        """A container starts on a machine."""
        self.advance(at_us)
        self._look(at_us)
        namespace, _, name = pod.key.partition("/")
        program = f"{namespace}/{name}@{node}/{pod.uid}"
        if self.resource == CONTAINERS:
            program += f"/{container.name}"
        if program not in self._running:
            self._running[program] = []
            self._put(program, self._object(program, self._pods.get(pod.uid, {})), at_us)
        self._running[program].append(container)
        self.due_us = self._looked_us + self.wait_us

    def _object(self, program: str, pod: Obj) -> Obj:
        """A program with the metadata of its pod.  pod: as the API had it last, {} if it never did"""
        namespace, machine, uid = program.split("/")[:3]
        name, _, node = machine.partition("@")
        meta = {**pod.get("metadata", {}), "namespace": namespace, "name": name, "uid": uid}
        return {"metadata": meta, "spec": {**pod.get("spec", {}), "nodeName": node}}

    def advance(self, at_us: int) -> None:
        """Notice ends, once a second."""
        if self.due_us is not None and at_us >= self.due_us:
            self._look(at_us)
            self.due_us = at_us + self.wait_us if self._running else None

    def _look(self, at_us: int) -> None:
        self._looked_us = at_us
        for program, containers in list(self._running.items()):
            left = [one for one in containers if not one.exited(at_us)]
            if left:
                self._running[program] = left
            else:
                del self._running[program]
                self._put(program, None, max(one.exit_us for one in containers))


def _selected_by(pod: Obj) -> tuple[Any, Any]:
    """What of a pod may change, and selections depend on."""
    meta = pod["metadata"]
    return meta.get("labels"), meta.get("ownerReferences")
