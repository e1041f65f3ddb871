"""The cordons and taints that steps keep on nodes.

Holds: the end of a step removes only the marks that no other step keeps; a step that removes
marks removes them from all steps that keep them.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.users import Admin, Cordon, Taint
from sim.faults.shared.kinds import Stage, Undo

CLOSED = "", ""  # a cordon
# The node, and key and effect of a taint.  An effect of "" means each effect, where marks are
# removed.
Mark = tuple[str, tuple[str, str]]


class Marks:
    """The marks of a run, by the step that keeps them."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Mark, ...]] = {}

    def keep(self, step: str, marks: Sequence[Mark]) -> None:
        """A step keeps these marks until `release`."""
        self._kept[step] = tuple(marks)

    def take_away(self, marks: Sequence[Mark]) -> None:
        """No step keeps these marks any more."""
        for step, kept in self._kept.items():
            self._kept[step] = tuple(mark for mark in kept if not _covers(marks, mark))

    def release(self, step: str, admin: Admin) -> None:
        """The step ends: the admin removes its marks, except those that another step keeps."""
        marks = self._kept.pop(step)
        held = {mark: None for kept in self._kept.values() for mark in kept}
        free = [mark for mark in marks if mark not in held]
        for kind in dict.fromkeys(kind for _, kind in free):
            nodes = tuple(node for node, one in free if one == kind)
            gone = () if kind == CLOSED else ({"key": kind[0], "effect": kind[1]},)
            admin.do(Taint(nodes, (), gone) if gone else Cordon(nodes, False))


def change_marks(stage: Stage, step: str, marks: Sequence[Mark], on: bool) -> Undo | None:
    """Keep marks for a step, or remove them; returns what ends the step, if it has an end."""
    kept = stage.state(Marks)
    if not on:
        kept.take_away(marks)
        return None
    kept.keep(step, marks)
    return lambda: kept.release(step, stage.cluster.admin)


def _covers(marks: Sequence[Mark], mark: Mark) -> bool:
    node, (key, _) = mark
    return mark in marks or (node, (key, "")) in marks
