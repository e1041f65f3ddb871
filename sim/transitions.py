"""State machines as tables: the states of a machine, and the moves between them.

A machine names its states in an enum and its moves in one `Transitions`, and keeps its present
state in one attribute.  `docs/explanation/state-machines.md` shows each table as a diagram; a test
compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

State = TypeVar("State", bound=Enum)


class Transitions(Generic[State]):
    """The moves of one kind of machine.

    start: the state of a new machine
    successors: for each state the states that may follow it, with the cause of the move in words
    """

    __slots__ = ("_pairs", "start", "successors")

    def __init__(self, start: State, successors: Mapping[State, Mapping[State, str]]) -> None:
        self.start = start
        self.successors = successors
        # By identity: the hash of a member of an enum is computed in Python.
        self._pairs = frozenset((id(one), id(other)) for one, after in successors.items() for other in after)

    def move(self, before: State, after: State) -> State:
        """The state `after`, which has to be one that may follow `before`."""
        assert (id(before), id(after)) in self._pairs, f"no move from {before} to {after}"
        return after

    def diagram(self) -> str:
        """The table as a state diagram in Mermaid's notation; a state without a move is an end."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.start.value}"]
        for before, successors in self.successors.items():
            lines += [f"    {before.value} --> {after.value}: {cause}" for after, cause in successors.items()]
            if not successors:
                lines.append(f"    {before.value} --> [*]")
        return "\n".join(lines)
