"""The invariant `no-endless-rewrite`: no object is written again and again."""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from sim.api.store import Change, path_of
from sim.api.types import Obj
from sim.check.invariants.base import Invariant
from sim.check.world import World
from sim.check.writes import changed_fields, listed, written_resources
from sim.dataclass import dataclass
from sim.faults.disturbances import LAST_DISTURBANCE
from sim.units import MINUTE
from sim.verdict import Verdict

TURNS_MAX = 6  # times that an object may return to the state before its last write
PARTS = ("labels", "annotations", "finalizers", "ownerReferences")


@dataclass(slots=True)
class _Writes:
    """The writes of one object in the window.

    times_us: of the last minute
    before, last: its states before the last write and after it
    turns: how often it has returned to a state that it had two writes before
    """

    times_us: deque[int]
    before: Any
    last: Any
    turns: int = 0
    most: int = 0


class NoEndlessRewrite(Invariant):
    """No object is written for ever, as by two controllers that disagree about it.

    Broken by more than `atMost` writes of one object in a minute, or by an object that returns six
    times to the state that it had before its last write. Only what is wanted of an object counts:
    its spec, data, labels, annotations, finalizers and owners, not its status.
    """

    name_in_file = "no-endless-rewrite"
    at_most_default = 30
    after_default = LAST_DISTURBANCE
    example: ClassVar[str] = "{name: no fight, invariant: {name: no-endless-rewrite, atMost: 60}, after: 2m}"

    def reset(self) -> None:
        """Forget the writes before the window."""
        super().reset()
        self._writes: dict[str, _Writes] = {}
        self._fights: dict[str, str] = {}

    def resources(self) -> frozenset[str]:
        """All resources."""
        return written_resources(self.names)

    def take(self, world: World, resource: str, change: Change) -> None:
        """Count a write that changes what is wanted of an object."""
        key = change.item.key
        if change.deleted:
            self._writes.pop(key, None)
        elif change.prev is not None and self.in_window(change.at_us):
            before, after = _wanted(change.prev.obj), _wanted(change.item.obj)
            if before != after:
                self._count(key, before, after, change)

    def _count(self, key: str, before: Any, after: Any, change: Change) -> None:
        writes = self._writes.get(key)
        if writes is None:
            writes = self._writes[key] = _Writes(deque(), None, None)
        times_us = writes.times_us
        times_us.append(change.at_us)
        while times_us[0] <= change.at_us - MINUTE:
            times_us.popleft()
        writes.turns += writes.before is not None and after == writes.before
        writes.before, writes.last = before, after
        writes.most = max(writes.most, len(times_us))
        if writes.most > self.at_most or writes.turns >= TURNS_MAX:
            self.note(change.at_us, key, change.item.rev)
            assert change.prev is not None
            self._fights[key] = listed(changed_fields(change.prev.obj, change.item.obj))

    def at_fault(self) -> tuple[str, ...]:
        """The objects that are rewritten."""
        return tuple(self._fights)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the object with the most writes."""
        target = f"at most {self.at_most} writes a minute"
        if never := self.unopened(target):
            return never
        most = max((one.most for one in self._writes.values()), default=0)
        if not self._fights:
            return self.kept(str(most), target, (float(most),))
        parts = [self._words(key, fields) for key, fields in self._fights.items()]
        return self.broken(listed(parts), target, (float(most),))

    def _words(self, key: str, fields: str) -> str:
        writes = self._writes.get(key)
        if writes is None:
            return f"{path_of(key)} ({fields}), until it was deleted"
        turned = f", {writes.turns} times back and forth" if writes.turns else ""
        return f"{path_of(key)} ({fields}): {writes.most} in a minute{turned}"


def _wanted(obj: Obj) -> Any:
    """What is wanted of an object: all but its status and what each write changes."""
    meta = obj["metadata"]
    rest = [(part, value) for part, value in obj.items() if part not in ("metadata", "status")]
    return rest, [meta.get(part) for part in PARTS]
