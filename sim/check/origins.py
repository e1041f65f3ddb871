"""Where the causes of records begin: whether a step, a user or a rule is behind what happened.

Turns each new record of a trace into two facts about the chain of its causes: whether
a reason is on it (a step of the timeline, a decision of an autoscaler, a part that is not known),
and the first write on it. They are inherited from the cause, so that a record costs the same
however long its chain is.

Holds: records of series (renewals of leases) are not followed, and count as a reason that is not
known: nothing is held against a chain with a gap.
"""

from __future__ import annotations

from array import array
from typing import Any

# Decisions that are rules of their own: an autoscaler needs no user to scale down.
RULES = ("autoscale",)
_UNKNOWN = -1


class Origins:
    """The origins of all records so far.

    last, writer: the last write, and its user and verb
    """

    def __init__(self) -> None:
        self._reasons = array("b", [_UNKNOWN])
        self._firsts = array("q", [0])
        self._writes: dict[int, tuple[str, str, str]] = {}  # user, verb and key of first writes
        self.last = 0
        self.writer = ("", "")

    def see(self, kind: str, ident: int, cause: int, values: tuple[Any, ...]) -> None:
        """Take a record."""
        gap = ident - len(self._reasons)
        if gap:
            self._reasons.extend([_UNKNOWN] * gap)
            self._firsts.extend([0] * gap)
        reason, first = (self._reasons[cause], self._firsts[cause]) if cause else (0, 0)
        if kind in ("step", "step-end") or (kind == "decision" and values[1] in RULES):
            reason = 1
        elif kind == "write":
            self.last, self.writer = ident, (values[0], values[1])
            if not first and reason != _UNKNOWN:
                first = ident
                self._writes[ident] = (values[0], values[1], values[2])
        self._reasons.append(reason)
        self._firsts.append(first)

    def is_reasoned(self, record: int) -> bool:
        """True if a reason is among the causes of a record, or a part of them is not known."""
        return record >= len(self._reasons) or self._reasons[record] != 0

    def is_unknown(self, record: int) -> bool:
        """True if a part of the causes of a record is not known."""
        return record >= len(self._reasons) or self._reasons[record] == _UNKNOWN

    def first_write(self, record: int) -> tuple[str, str, str]:
        """User, verb and key of the first write among a record and its causes; empty without
        one."""
        return self._writes.get(self._firsts[record], ("", "", ""))
