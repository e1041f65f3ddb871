"""The back-off of restarts."""

from types import SimpleNamespace

from actors.node.backoff import Backoff
from actors.node.pods.restarts import held_back
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


class Agent:
    """An agent that notes what is decided and reported. Its clock is set by hand."""

    def __init__(self):
        self.ctx, self.restarts, self.us = self, Backoff(), 0
        self.decisions, self.events = [], []

    def said_us(self, at_us):
        return at_us

    def wall_us(self):
        return self.us

    def decided(self, what, about, why):
        self.decisions.append((what, about, why["wait_us"] // SECOND))

    def event(self, pod, kind, reason, message, container):
        self.events.append((reason, container))


def test_each_new_delay_of_a_restart_is_one_decision_and_each_try_one_event():
    agent = Agent()
    pod = {"metadata": {"namespace": "n", "name": "p"}}
    worker = SimpleNamespace(agent=agent, uid="u", pod=pod, reasons={})
    spec = {"name": "c", "image": "i"}

    def starts(at_s, ended_s):
        agent.us = at_s * SECOND
        ended = SimpleNamespace(exit_us=ended_s * SECOND, exit_code=1)
        return not held_back(worker, spec, ended)

    assert held_back(worker, spec, None) == "" and agent.decisions == []
    assert starts(5, 5)  # the first restart does not wait
    assert [starts(at_s, 6) for at_s in (6, 7, 15, 16)] == [False, False, False, True]
    assert not starts(17, 17)
    waits = [("restart", 0), ("back-off", 10), ("restart", 0), ("back-off", 20)]
    assert agent.decisions == [(what, "pods/n/p", wait_s) for what, wait_s in waits]
    assert agent.events == [("BackOff", "c")] * 4
    assert worker.reasons == {
        "c": ("CrashLoopBackOff", "back-off 20s restarting failed container=c pod=p_n(u)")
    }
