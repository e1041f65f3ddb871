"""The checker of histories, by histories with known answers."""

from __future__ import annotations

import random

import pytest

from tests.bench.linearizability import Kind, Operation, Outcome, unexplained

OK, UNKNOWN = Outcome.OK, Outcome.UNKNOWN
END = float("inf")


def create(began: float, ended: float, turn: int, rev: int = 0, outcome: Outcome = OK) -> Operation:
    return Operation("k", Kind.CREATE, began, ended, outcome, turn, 0, rev)


def update(
    began: float, ended: float, turn: int, expect: int, rev: int = 0, outcome: Outcome = OK
) -> Operation:
    return Operation("k", Kind.UPDATE, began, ended, outcome, turn, expect, rev)


def delete(began: float, ended: float, outcome: Outcome = OK) -> Operation:
    return Operation("k", Kind.DELETE, began, ended, outcome)


def get(began: float, ended: float, turn: int = 0, rev: int = 0) -> Operation:
    return Operation("k", Kind.GET, began, ended, OK if turn else Outcome.ABSENT, turn, 0, rev)


GOOD = {
    "one after the other": [create(0, 1, 7, 1), get(2, 3, 7, 1), delete(4, 5), get(6, 7)],
    "a read during a write sees it": [create(0, 5, 7, 1), get(1, 2, 7, 1)],
    "or does not": [create(0, 5, 7, 1), get(1, 2)],
    "one of two creates": [create(0, 5, 7, 1), create(1, 4, 8, outcome=Outcome.EXISTS)],
    "the loser returns first": [create(0, 5, 7, 1), create(1, 2, 8, outcome=Outcome.EXISTS), get(3, 4, 7, 1)],
    "an update in time": [
        create(0, 1, 7, 1),
        update(2, 5, 8, 1, 2),
        update(2, 6, 9, 1, outcome=Outcome.CONFLICT),
    ],
    "no answer, and no effect": [create(0, 9, 7, outcome=UNKNOWN), get(10, 11)],
    "no answer, and an effect": [create(0, 9, 7, outcome=UNKNOWN), get(10, 11, 7, 4)],
    "no answer, an effect later": [create(0, END, 7, outcome=UNKNOWN), get(10, 11), get(12, 13, 7, 4)],
    "a revision that is found later": [
        create(0, 9, 7, outcome=UNKNOWN),
        update(10, 11, 8, 4, 5),
        get(12, 13, 8, 5),
    ],
}
BAD = {
    "an acknowledged write is gone": [create(0, 1, 7, 1), get(2, 3)],
    "a read sees what was not written": [create(0, 1, 7, 1), get(2, 3, 8, 1)],
    "a read sees a write before it begins": [get(0, 1, 7, 1), create(2, 3, 7, 1)],
    "two reads see the order differently": [create(0, 9, 7, 1), get(1, 2, 7, 1), get(3, 4)],
    "two creates": [create(0, 5, 7, 1), create(1, 4, 8, 2)],
    "two updates of one revision": [create(0, 1, 7, 1), update(2, 5, 8, 1, 2), update(3, 6, 9, 1, 3)],
    "a revision goes back": [create(0, 1, 7, 5), update(2, 3, 8, 5, 4)],
    "an effect after its time": [create(0, 9, 7, outcome=UNKNOWN), get(10, 11), get(12, 13, 7, 4)],
    "an old state comes back": [
        create(0, 1, 7, 1),
        update(2, 3, 8, 1, 2),
        get(4, 5, 8, 2),
        get(6, 7, 7, 1),
    ],
    "a deletion is taken back": [create(0, 1, 7, 1), delete(2, 3), get(4, 5, 7, 1)],
    "a conflict with the present revision": [
        create(0, 1, 7, 1),
        update(2, 3, 8, 1, outcome=Outcome.CONFLICT),
    ],
}


@pytest.mark.parametrize("name", GOOD)
def test_history_with_an_order_is_linearizable(name: str) -> None:
    assert unexplained(GOOD[name]) is None


@pytest.mark.parametrize("name", BAD)
def test_history_without_an_order_is_not(name: str) -> None:
    assert unexplained(BAD[name]) in BAD[name]


def test_keys_are_judged_alone() -> None:
    bad = [operation._replace(key="other") for operation in BAD["two creates"]]
    assert unexplained(GOOD["one after the other"]) is None
    assert unexplained([*GOOD["one after the other"], *bad]) in bad


def drawn_history(drawn: random.Random, count: int) -> list[Operation]:
    """A history of a register that is right: each operation takes effect at an instant within it."""
    points = sorted(drawn.random() * count for _ in range(count))
    found, turn, rev, newest = [], 0, 0, 0
    for number, at in enumerate(points, 1):
        began, ended = at - drawn.random() * 4, at + drawn.random() * 4
        kind = drawn.choice((Kind.GET, Kind.GET, Kind.CREATE, Kind.UPDATE, Kind.DELETE))
        outcome, expect, shown, told = OK, 0, number, 0
        if kind is Kind.CREATE and turn:
            outcome = Outcome.EXISTS
        elif kind is not Kind.CREATE and not turn:
            outcome = Outcome.ABSENT
        elif kind is Kind.GET:
            shown, told = turn, rev
        else:
            expect = rev if kind is Kind.UPDATE else 0
            newest, turn = newest + 1, 0 if kind is Kind.DELETE else number
            rev = told = newest
        if drawn.random() < 0.05 and kind is not Kind.GET:
            outcome, told = UNKNOWN if outcome is OK else outcome, 0
        found.append(Operation("k", kind, began, ended, outcome, shown, expect, told))
    return found


def test_random_histories_are_judged_right() -> None:
    for seed in range(3):
        drawn = random.Random(seed)
        history = drawn_history(drawn, 60)
        assert unexplained(history) is None, seed
        reads = [each for each in history if each.kind is Kind.GET and each.outcome is OK]
        wrong = drawn.choice(reads)
        history[history.index(wrong)] = wrong._replace(rev=wrong.rev + 1_000)
        assert unexplained(history) is not None, seed
