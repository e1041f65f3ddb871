"""Is a history of operations on single objects linearizable?

Turns recorded operations, each with the instants between which it took place, into the first one
that no order explains, or None. Keys are independent of each other, so each is judged alone: the
possible states are followed from instant to instant, as sets of (open operations that have taken
effect, state).

Mirrors  G. Lowe, Testing for linearizability (2017), just-in-time linearization; J. Wing and C.
         Gong, Testing and verifying concurrent objects (1993).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

UNKNOWN_REV = 0


class Kind(Enum):
    """What an operation does."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    GET = "get"


class Outcome(Enum):
    """What its answer says.  UNKNOWN: there was none"""

    OK = "ok"
    EXISTS = "exists"
    CONFLICT = "conflict"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Operation(NamedTuple):
    """One operation.

    began, ended: instants between which it took place; of one without an answer, the instant after
        which it cannot take effect any more
    turn: what it writes, which no other operation writes; of a get, what it reads
    expect: the revision that an update or a deletion requires, 0 for none
    rev: the revision that the answer shows
    """

    key: str
    kind: Kind
    began: float
    ended: float
    outcome: Outcome
    turn: int = 0
    expect: int = 0
    rev: int = 0


class State(NamedTuple):
    """An object.  turn: 0 if it is not there; rev: the newest that is known, or UNKNOWN_REV"""

    turn: int
    rev: int


Possible = tuple[frozenset[int], State]
NOTHING = State(0, UNKNOWN_REV)


def step(operation: Operation, state: State) -> State | None:
    """The state after an operation with its answer; None if the answer is not possible here.

    One without an answer has to take effect; that it does not is no step.
    """
    kind, outcome, is_there = operation.kind, operation.outcome, bool(state.turn)
    known = state.rev != UNKNOWN_REV
    meets = not operation.expect or not known or operation.expect == state.rev
    if outcome is Outcome.ABSENT:
        return None if is_there or kind is Kind.CREATE else state
    if outcome is Outcome.EXISTS:
        return state if is_there and kind is Kind.CREATE else None
    if outcome is Outcome.CONFLICT:
        differs = operation.expect and (not known or operation.expect != state.rev)
        return state if is_there and differs else None
    if kind is Kind.GET:
        same = is_there and operation.turn == state.turn and (not known or operation.rev == state.rev)
        return State(state.turn, operation.rev) if same else None
    if kind is Kind.CREATE:
        applies = not is_there
    else:
        applies = is_there and meets
    grows = operation.rev == UNKNOWN_REV or not known or operation.rev > state.rev
    if not applies or not grows:
        return None
    return State(0 if kind is Kind.DELETE else operation.turn, operation.rev)


def unexplained(history: Iterable[Operation]) -> Operation | None:
    """The first operation of a key that no order explains; None if the history is linearizable."""
    by_key: dict[str, list[Operation]] = defaultdict(list)
    for operation in history:
        by_key[operation.key].append(operation)
    for _, operations in sorted(by_key.items()):
        found = _unexplained(operations)
        if found is not None:
            return found
    return None


def _unexplained(operations: Sequence[Operation]) -> Operation | None:
    instants = [(operation.began, 0, number) for number, operation in enumerate(operations)]
    instants += [(operation.ended, 1, number) for number, operation in enumerate(operations)]
    possible: set[Possible] = {(frozenset(), NOTHING)}
    current: set[int] = set()
    for _, is_end, number in sorted(instants):
        if not is_end:
            current.add(number)
            continue
        reached = _reached(possible, operations, current)
        current.remove(number)
        is_open = operations[number].outcome is Outcome.UNKNOWN
        possible = {(done - {number}, state) for done, state in reached if is_open or number in done}
        if not possible:
            return operations[number]
    return None


def _reached(possible: set[Possible], operations: Sequence[Operation], current: set[int]) -> set[Possible]:
    """What is possible after any of the current operations has taken effect, in any order."""
    reached, rest = set(possible), list(possible)
    while rest:
        done, state = rest.pop()
        for number in current - done:
            after = step(operations[number], state)
            if after is not None and (found := (done | {number}, after)) not in reached:
                reached.add(found)
                rest.append(found)
    return reached
