"""The back-off of restarts."""

from actors.node.backoff import Backoff
from sim.units import SECOND


def test_first_restart_does_not_wait_and_delay_doubles_to_five_minutes() -> None:
    backoff, at_us, delays = Backoff(), 0, []
    for _ in range(8):
        delays.append(backoff.held_us("k", at_us, at_us) // SECOND)
        backoff.next("k", at_us, at_us)
        at_us += SECOND
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]


def test_run_of_more_than_ten_minutes_resets_back_off_and_shorter_one_does_not() -> None:
    """Known timing case 33."""
    backoff = Backoff()
    for _ in range(7):
        backoff.next("k", 0, 0)
    assert backoff.held_us("k", 599 * SECOND, 599 * SECOND) == 300 * SECOND
    assert backoff.held_us("k", 601 * SECOND, 601 * SECOND) == 0
    backoff.next("k", 601 * SECOND, 601 * SECOND)
    assert backoff.held_us("k", 602 * SECOND, 602 * SECOND) == 10 * SECOND


def test_a_delay_holds_until_its_last_microsecond() -> None:
    backoff = Backoff(10, 40)
    assert (backoff.held_us("k", 0, 5), backoff.held_since_update_us("k", 5)) == (0, 0)
    backoff.next("k", 0, 100)
    assert [backoff.held_us("k", 95, now_us) for now_us in (100, 104, 105)] == [10, 10, 0]
    assert [backoff.held_since_update_us("k", now_us) for now_us in (100, 109, 110)] == [10, 10, 0]
    # a delay counts for twice the maximum after it was raised
    assert [backoff.held_us("k", at_us, at_us) for at_us in (180, 181)] == [10, 0]
    backoff.entries["k"] = (90, 100)
    assert [backoff.held_since_update_us("k", now_us) for now_us in (180, 181)] == [90, 0]


def test_a_delay_is_raised_to_its_maximum_and_starts_again_when_it_is_too_old() -> None:
    backoff = Backoff(10, 25)
    for wanted in (10, 20, 25, 25):
        backoff.next("k", 100, 100)
        assert backoff.entries["k"] == (wanted, 100)
    backoff.next("k", 150, 160)
    assert backoff.entries["k"] == (25, 160)
    backoff.next("k", 211, 220)
    assert backoff.entries["k"] == (10, 220)


def test_the_delays_of_a_pod_are_forgotten_and_others_stay() -> None:
    backoff = Backoff()
    backoff.forget("u")
    for key in ("u/a", "u/b", "v/a"):
        backoff.next(key, 0, 0)
    backoff.forget("u/")
    assert list(backoff.entries) == ["v/a"]
