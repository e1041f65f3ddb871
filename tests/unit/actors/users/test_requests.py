"""The course of one request of a user."""

from __future__ import annotations

from collections.abc import Callable

from actors.users.requests import Outcome, Reach, RequestSpec, course
from sim.units import SECOND

YES, NO, DARK = Reach.ANSWERS, Reach.REFUSES, Reach.SILENT


def ended(
    lookups: list[Reach] | None,
    reach: Reach,
    timeout_s: int = 30,
    takes_s: int = 0,
    *,
    connected: bool = True,
) -> tuple[Outcome, float]:
    """The outcome of a request and the seconds until then."""
    answers = iter(lookups or ())
    lookup: Callable[[], Reach] | None = None if lookups is None else lambda: next(answers)
    spec = RequestSpec(("default", "web"), SECOND, timeout_us=timeout_s * SECOND, takes_us=takes_s * SECOND)
    run, took_us = course(spec, lookup, lambda: reach, lambda: connected), 0
    while True:
        try:
            took_us += next(run)
        except StopIteration as end:
            assert next(answers, None) is None, "a lookup is missing"
            return end.value, took_us / SECOND


def test_request_to_a_known_address_is_answered_or_refused_at_once() -> None:
    assert ended(None, YES) == (Outcome.ANSWERED, 0)
    assert ended(None, NO) == (Outcome.REFUSED, 0)


def test_request_without_an_answer_ends_with_the_patience_of_the_client() -> None:
    assert ended(None, DARK, 3) == (Outcome.TIMED_OUT, 3)


def test_silent_server_of_names_is_asked_again_after_five_seconds() -> None:
    assert ended([DARK, YES], YES) == (Outcome.ANSWERED, 5)
    assert ended([DARK, DARK], YES) == (Outcome.NO_NAME, 10)


def test_refused_lookup_is_tried_again_at_once() -> None:
    assert ended([NO, YES], YES) == (Outcome.ANSWERED, 0)
    assert ended([NO, NO], YES) == (Outcome.NO_NAME, 0)


def test_patience_of_the_client_includes_the_lookup() -> None:
    assert ended([DARK], YES, 4) == (Outcome.NO_NAME, 4)
    assert ended([DARK, YES], DARK, 7) == (Outcome.TIMED_OUT, 7)


def test_request_is_cut_off_if_its_server_ends_before_it_is_done() -> None:
    assert ended(None, YES, takes_s=2) == (Outcome.ANSWERED, 2)
    assert ended(None, YES, takes_s=2, connected=False) == (Outcome.CUT_OFF, 2)
    assert ended(None, NO, takes_s=2) == (Outcome.REFUSED, 0)


def test_request_that_takes_longer_than_the_client_waits_times_out() -> None:
    assert ended(None, YES, 3, takes_s=4) == (Outcome.TIMED_OUT, 3)
    assert ended([DARK, YES], YES, 7, takes_s=3) == (Outcome.TIMED_OUT, 7)
    assert ended(None, YES, 3, takes_s=3) == (Outcome.ANSWERED, 3)
