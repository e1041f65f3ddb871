"""Counts of the pods of each owner, updated on every pod event.

Turns pod events into `Counts` by owner uid: active and ready pods, and how many carry each set of
labels. A controller with the right number of pods decides from the counts alone; it lists the pods
only when it has to choose among them.

Holds: an update that changes none of the counts costs a few lookups; the counts always equal a
       recount over the informer's pods
       (`tests/unit/actors/controllers/shared/test_owned_pod_counts.py`).
"""

from __future__ import annotations

from dataclasses import field

from actors.controllers.shared.pod_owners import ready_changed, route_by_controller
from sim.api.memo import IdentityMemo
from sim.api.objects import controller_of, is_active, is_ready
from sim.api.types import Obj
from sim.client import Informer
from sim.dataclass import dataclass

Labels = tuple[tuple[str, str], ...]
_NO_LABELS: dict[str, str] = {}


@dataclass(slots=True)
class Counts:
    """Counts of one owner's active pods.

    labels: set of labels as sorted pairs -> number of pods
    """

    active: int = 0
    ready: int = 0
    labels: dict[Labels, int] = field(default_factory=dict)

    def add(self, labels: Labels, ready: bool, sign: int) -> None:
        """Count a pod (sign +1) or take it out again (sign -1)."""
        self.active += sign
        self.ready += sign * ready
        left = self.labels.get(labels, 0) + sign
        if left:
            self.labels[labels] = left
        else:
            del self.labels[labels]


class OwnedTally:
    """Counts by owner uid, over the pods that are controlled by one kind of owner."""

    def __init__(self, kind: str, pods: Informer) -> None:
        self._kind = kind
        self._counts: dict[str, Counts] = {}
        self._labels: IdentityMemo[Labels] = IdentityMemo()
        route_by_controller(pods)
        pods.on(add=self._add, update=self._update, delete=self._remove, about=kind)

    def of(self, uid: str) -> Counts:
        """The counts of an owner."""
        return self._counts.get(uid) or Counts()

    def _add(self, pod: Obj) -> None:
        self._count(pod, +1)

    def _remove(self, pod: Obj) -> None:
        self._count(pod, -1)

    def _update(self, old: Obj, new: Obj) -> None:
        was, now = old["metadata"], new["metadata"]
        if now.get("ownerReferences") is was.get("ownerReferences") and now.get("labels") is was.get(
            "labels"
        ):
            active = is_active(new)
            if active == is_active(old):
                if active and ready_changed(old, new):
                    self._count_readiness(new)
                return
        self._count(new, +1)
        self._count(old, -1)

    def _count_readiness(self, pod: Obj) -> None:
        """Count that an active pod became ready or not ready."""
        ref = controller_of(pod)
        if ref is not None and ref["kind"] == self._kind:
            self._counts[ref["uid"]].ready += 1 if is_ready(pod) else -1

    def _count(self, pod: Obj, sign: int) -> None:
        ref = controller_of(pod)
        if ref is None or ref["kind"] != self._kind or not is_active(pod):
            return
        uid = ref["uid"]
        counts = self._counts.get(uid)
        if counts is None:
            counts = self._counts[uid] = Counts()
        labels = pod["metadata"].get("labels") or _NO_LABELS
        pairs = self._labels.get(labels)
        if pairs is None:
            pairs = self._labels.put(tuple(sorted(labels.items())), labels)
        counts.add(pairs, is_ready(pod), sign)
        if not counts.active:
            del self._counts[uid]
