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
