"""The words for states of processes and links."""

from __future__ import annotations

from sim.app.control.rows import Processes, link_state
from sim.kernel import Rule


def test_process_is_what_its_records_say() -> None:
    processes = Processes()
    states = [processes.state("p")]
    for what in ("start", "lag", "end of lag", "pause", "resume", "crash", "start"):
        processes.see(what, "p")
        states.append(processes.state("p"))
    assert states == ["down", "running", "lag", "running", "paused", "running", "down", "running"]


def test_link_is_as_bad_as_the_worst_of_its_rules() -> None:
    zone, servers = ["n1", "n2"], ["s1"]
    whole = Rule("latency", None, None, low_us=1, high_us=2)
    one = Rule("cuts", frozenset({"n1"}), None, cut=True)
    slow = Rule("slow", frozenset({"n1", "n2"}), frozenset({"s1"}), low_us=1, high_us=2)
    other = Rule("elsewhere", frozenset({"n9"}), frozenset({"s1"}), cut=True)
    found = [link_state(zone, servers, rules) for rules in ([whole, other], [slow], [slow, one])]
    assert found == ["open", "slow", "partly cut"]
