"""Causes of missing messages."""

from __future__ import annotations

from sim.kernel import Network, Rule
from sim.kernel.causes import GONE_MAX, KEPT, LINGER_US, Standing


class Run:
    """A clock and a cause to set by hand."""

    def __init__(self) -> None:
        self.now_us = 0
        self.cause = 0
        self.standing = Standing(lambda: self.now_us, lambda: self.cause)

    def begin(self, at_us: int, cause: int, what: str, *hosts: str) -> None:
        self.now_us, self.cause = at_us, cause
        self.standing.begin(what, hosts)

    def end(self, at_us: int, what: str, *hosts: str, cause: int = 0) -> None:
        self.now_us, self.cause = at_us, cause
        self.standing.end(what, hosts)


def test_fault_explains_a_silence_while_active_and_one_that_began_before_its_end() -> None:
    run = Run()
    assert run.standing.silence("a", "o", 0) == 0
    run.begin(10, 7, "process", "a")
    assert run.standing.silence("a", "o", 5) == 7
    run.end(20, "process", "a")
    assert run.standing.silence("a", "o", 20) == 7
    assert run.standing.silence("a", "o", 21) == 0
    assert run.standing.silence("b", "o", 0) == 0


def test_clock_change_explains_a_silence_by_its_end_as_a_last_resort() -> None:
    run = Run()
    run.now_us, run.cause = 10, 7
    run.standing.begin("clock", ("a",), mute=False, lasting=True)
    assert run.standing.silence("a", "o", 15) == 7
    run.end(20, "clock", "a", cause=8)
    assert run.standing.silence("a", "o", 20) == 7
    assert run.standing.silence("a", "o", 21) == 8
    assert run.standing.silence("b", "a", 21) == 8  # a clock of the observer's
    assert run.standing.silence("b", "o", 21) == 0
    run.begin(30, 9, "process", "a")
    assert run.standing.silence("a", "o", 21) == 9


def test_hindrance_explains_a_silence_after_its_end_but_not_for_ever() -> None:
    run = Run()
    run.now_us, run.cause = 10, 7
    run.standing.begin("loss", ("a",), mute=False)
    run.end(20, "loss", "a", cause=8)
    assert run.standing.silence("a", "o", 21) == 7
    assert run.standing.silence("a", "o", 20 + LINGER_US) == 7
    assert run.standing.silence("a", "o", 21 + LINGER_US) == 0
    assert run.standing.silence("b", "o", 21) == 0


def test_latest_of_several_faults_of_a_host_explains_a_silence() -> None:
    run = Run()
    run.begin(10, 7, "process", "a")
    run.begin(11, 8, "cut", "a", "b")
    assert run.standing.silence("a", "o", 0) == 8
    run.end(12, "cut", "a", "b")
    assert run.standing.silence("a", "o", 13) == 7


def test_the_own_fault_goes_before_that_of_the_way_and_of_the_observer() -> None:
    run = Run()
    run.standing.shared = {"storage": None}
    run.begin(30, 3, "process", "o")
    assert run.standing.silence("a", "o", 0) == 3
    run.begin(20, 2, "process", "storage")
    assert run.standing.silence("a", "o", 0) == 2
    run.begin(10, 1, "process", "a")
    assert run.standing.silence("a", "o", 0) == 1


def test_a_cut_from_a_shared_host_is_the_fault_of_the_other_side() -> None:
    run = Run()
    run.standing.shared = {"apiserver-0": None}
    network = Network(1, run.standing)
    run.cause = 5
    network.impose(Rule("cut", frozenset({"a"}), frozenset({"apiserver-0"}), cut=True))
    assert (run.standing.silence("a", "o", 0), run.standing.silence("b", "o", 0)) == (5, 0)
    run.now_us = 9
    network.lift("cut")
    assert run.standing.silence("a", "o", 10) == 0
    network.impose(Rule("all", None, frozenset({"apiserver-0"}), cut=True))
    assert run.standing.silence("b", "o", 10) == 5


def test_a_host_that_fails_for_ever_is_remembered_by_its_latest_faults_only() -> None:
    run = Run()
    for number in range(3 * KEPT):
        run.begin(number, number + 1, "process", "a")
    assert len(run.standing._faults["a"]) == KEPT
    assert run.standing.silence("a", "o", 0) == 3 * KEPT


def test_relief_is_the_last_end_of_a_hindrance_and_own_ones_precede_shared_ones() -> None:
    run = Run()
    run.standing.shared["api"] = None
    assert run.standing.relief("a", 0) == 0
    run.begin(10, 1, "cut", "a")
    assert run.standing.relief("a", 0) == 0  # it is still active
    run.begin(11, 2, "hang", "a")
    run.begin(12, 3, "crash", "api")
    run.end(20, "hang", "a", cause=5)
    run.end(21, "cut", "a", cause=6)
    run.end(22, "crash", "api", cause=7)
    assert run.standing.relief("a", 15) == 6
    assert run.standing.relief("a", 22) == run.standing.relief("b", 15) == 7
    assert run.standing.relief("a", 23) == 0


def test_end_of_a_lesser_hindrance_is_no_relief_under_another_hindrance() -> None:
    run = Run()
    run.standing.shared = {"server": None}
    run.now_us, run.cause = 10, 7
    run.standing.begin("load", ("server",), mute=False)
    run.end(20, "load", "server", cause=8)
    assert run.standing.relief("a", 0) == 8
    run.now_us, run.cause = 15, 9
    run.standing.begin("clock", ("a",), mute=False, lasting=True)
    assert run.standing.silence("a", "o", 0) == 9
    assert run.standing.relief("a", 0) == 0
    run.end(30, "clock", "a", cause=10)
    assert run.standing.relief("a", 0) == 10


def test_made_returns_the_latest_record_and_the_earliest_is_forgotten_first() -> None:
    standing = Standing(lambda: 0, lambda: 0)
    for number in range(GONE_MAX):
        standing.make(f"uid-{number}", number + 1)
    standing.make("uid-0", 7)
    standing.make("one more", 8)
    assert [standing.made(what) for what in ("uid-0", "uid-1", "uid-2", "one more", "nobody")] == [
        7,
        0,
        3,
        8,
        0,
    ]
