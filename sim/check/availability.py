"""Availability: how many pods serve over time, in truth and as the control plane sees it.

Turns commits of pods, and what becomes of machines, into two step functions.  A pod is available as
the control plane sees it while it is Ready and not being deleted.  It is available in truth if,
besides, its node has power and its network is not cut.  From a node's death until the control plane
gives its pods up, the two differ: this is the service that is lost while all seems well.

Holds: a commit costs as much as its one pod, and a machine as much as its number of pods that are
Ready.

Differs  A container that ends counts until its agent reports it, which takes about a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from sim.api.objects import is_deleting, is_ready
from sim.api.store import Change
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.series import Series


class AvailablePods:
    """The numbers of available pods of a selection over time: `truth` and `seen`.

    changed: called with the time and both numbers after a commit or an event of a machine
    """

    def __init__(self, changed: Callable[[int, int, int], None] | None = None) -> None:
        self.truth = Series()
        self.seen = Series()
        self._changed = changed
        self._node_of: dict[str, str] = {}  # of each pod that is Ready, by its key
        self._ready_on: Counter[str] = Counter()
        self._down: dict[str, None] = {}
        self._truth = self._seen = 0

    def pod(self, change: Change) -> None:
        """Take a commit of a pod of the selection."""
        key, pod, node = change.item.key, change.item.obj, None
        if not change.deleted and is_available(pod):
            node = (pod.get("spec") or {}).get("nodeName", "")
        before = self._node_of.pop(key, None)
        if node is not None:
            self._node_of[key] = node
        if node != before:
            self._count(before, -1)
            self._count(node, +1)
            self._note(change.at_us)

    def machine(self, node: str, serves: bool, at_us: int) -> None:
        """A node's machine begins or ceases to serve: power, or its network."""
        if serves is (node not in self._down):
            return
        if serves:
            del self._down[node]
        else:
            self._down[node] = None
        self._truth += self._ready_on[node] if serves else -self._ready_on[node]
        self._note(at_us)

    def _count(self, node: str | None, more: int) -> None:
        if node is None:
            return
        self._ready_on[node] += more
        self._seen += more
        if node not in self._down:
            self._truth += more

    def _note(self, at_us: int) -> None:
        self.truth.put(at_us, self._truth)
        self.seen.put(at_us, self._seen)
        if self._changed is not None:
            self._changed(at_us, self._truth, self._seen)


def is_available(pod: Obj) -> bool:
    """True if the control plane takes a pod for one that serves: Ready, and not being deleted."""
    return is_ready(pod) and not is_deleting(pod)


@dataclass(frozen=True, slots=True)
class Loss:
    """What was missing in a window.

    below_us: for how long fewer pods were available than wanted
    lowest: the lowest number of available pods
    missing_us: the missing pods, each counted with its time
    """

    below_us: int
    lowest: int
    missing_us: int


def loss(available: Series, wanted: Series | int, from_us: int, end_us: int) -> Loss:
    """The loss in a window.  wanted: a number, or one that changes"""
    whole = [(from_us, end_us, wanted)] if isinstance(wanted, int) else wanted.pieces(from_us, end_us)
    below_us = missing_us = 0
    lowest: int | None = None
    for begin_us, stop_us, there, bound in _together(available.pieces(from_us, end_us), whole):
        lowest = there if lowest is None else min(lowest, there)
        if there < bound:
            below_us += stop_us - begin_us
            missing_us += (bound - there) * (stop_us - begin_us)
    return Loss(below_us, lowest or 0, missing_us)


def _together(
    first: Sequence[tuple[int, int, int]], second: Sequence[tuple[int, int, int]]
) -> list[tuple[int, int, int, int]]:
    """Two coverings of one window, cut at the ends of both: (from, to, first value, second value)."""
    result, one, two = [], 0, 0
    while one < len(first) and two < len(second):
        begin_us = max(first[one][0], second[two][0])
        end_us = min(first[one][1], second[two][1])
        if end_us > begin_us:
            result.append((begin_us, end_us, first[one][2], second[two][2]))
        if first[one][1] == end_us:
            one += 1
        if two < len(second) and second[two][1] == end_us:
            two += 1
    return result
