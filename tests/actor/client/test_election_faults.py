"""Elections while requests are slow, fail, or conflict with other writers: leaders by time, and the
final state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.api.store import Put
from sim.api.types import Reply, Request
from sim.kernel import Rule
from sim.units import SECOND, parse_time
from tests.actor.apiserver.cluster import SCHEME
from tests.actor.client.rig import Rig, Tap, rig
from tests.actor.client.test_election import LOCK, Election

KEY = SCHEME.key("leases", *LOCK)
ERROR = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "out of order",
    "reason": "InternalError",
    "code": 500,
}


class Gate:
    """In the place of a server's tap: what it refuses never reaches the server."""

    def __init__(self, r: Rig) -> None:
        self.refuses: Callable[[Request], bool] = lambda _: False
        tap = r.tap
        handle = tap.handle

        def guarded(request: Request, respond: Callable[[Reply], None]) -> None:
            if self.refuses(request):
                tap.asked.append((tap.kernel.now_us, request))
                respond(Reply(500, body=dict(ERROR)))
            else:
                handle(request, respond)

        tap.handle = guarded  # type: ignore[method-assign]


def asked(tap: Tap, verb: str, who: str, after_us: int) -> list[int]:
    """When such requests of a candidate came to the server."""
    return [
        at_us
        for at_us, request in tap.asked
        if at_us > after_us and request.verb == verb and request.manager == who
    ]


def write_record(r: Rig, **spec: Any) -> None:
    """Write a record with any content as another client."""
    store = r.plane.storage.store
    item = store.get(KEY)
    assert item is not None
    store.apply(Put(KEY, {**item.obj, "spec": {**item.obj["spec"], **spec}}, item.rev))


def micro(text: str) -> int:
    return parse_time(text)


@pytest.mark.parametrize("way_ms", [300, 1_500, 2_200])
async def test_a_candidate_decides_by_when_its_try_began_however_long_its_read_takes(way_ms: int) -> None:
    """It has seen the record when the reply came; it may take over in the first try that begins a
    lease after that.
    """
    way_us = way_ms * 1_000
    async with rig() as r:
        election = Election(r, ("a", "b"), restart=False)
        await r.run(30.3)
        (standby,) = {"a", "b"} - {election.leader}
        slow = Rule("slow", frozenset({standby}), None, low_us=way_us, high_us=way_us)
        r.kernel.network.impose(slow)
        await r.run(20)
        last_us = election.renewed_us
        r.supervisor[election.leader].crash()
        await r.run(60)
        began = [at_us - way_us for at_us in asked(r.tap, "get", standby, last_us)]
        seen_us = began[0] + 2 * way_us
        first = next(at_us for at_us in began if at_us >= seen_us + 15 * SECOND)
        (won_us,) = [at_us for at_us, spec in election.writes if spec["leaseTransitions"] == 1][:1]
        assert 3 * way_us <= won_us - first <= 3 * way_us + 5_000  # there and back, and there again
        spec = next(spec for _, spec in election.writes if spec["leaseTransitions"] == 1)
        epoch_us = r.kernel.epoch_us
        assert micro(spec["renewTime"]) == micro(spec["acquireTime"]) == first + epoch_us


@pytest.mark.parametrize("retry_ms", [250, 400])
async def test_renewals_within_one_second_are_one_record(retry_ms: int) -> None:
    """What is compared has whole seconds: a lease of 4 s counts from the try that first saw the
    last second's record.
    """
    async with rig() as r:
        election = Election(r, ("a", "b"), restart=False, periods_ms=(4_000, 2_000, retry_ms))
        for _ in range(6):
            await r.run(9.73)
            first, terms = election.leader, len(election.terms)
            r.supervisor[first].crash()
            last_us, second = election.renewed_us, election.writes[-1][1]["renewTime"][:19]
            (standby,) = {"a", "b"} - {first}
            begun_us = next(at for at, spec in election.writes if spec["renewTime"].startswith(second))
            await r.run(8)
            tries = asked(r.tap, "get", standby, begun_us)
            seen_us = tries[0] + 2_000  # at most: there, the read, and back
            due = next(at for at in tries if at >= seen_us + 4 * SECOND)
            assert tries[0] > begun_us and len(election.terms) == terms + 1
            assert 0 < election.terms[-1].began_us - due < 5_000
            assert begun_us <= last_us
            r.start(first)


async def test_leader_with_a_stolen_lease_retries_for_ten_seconds_and_does_not_write() -> None:
    """The round in which it sees the other's record is its last: it begins 2 s at most after the
    last one.
    """
    async with rig() as r:
        election = Election(r, ("a",), release=True, restart=False)
        await r.run(31.1)
        renewed_us = election.renewed_us
        write_record(r, holderIdentity="somebody")
        await r.run(20)
        (term,) = election.terms
        assert 12_000_000 <= term.ended_us - renewed_us <= 12_010_000
        assert [spec["holderIdentity"] for at, spec in election.writes if at > renewed_us] == ["somebody"]
        tries = [(at - renewed_us) / SECOND for at in asked(r.tap, "get", "a", renewed_us)]
        assert [round(each) for each in tries] == [2, 4, 6, 8, 10]


async def test_leader_that_gets_its_lease_back_in_time_keeps_leading() -> None:
    async with rig() as r:
        election = Election(r, ("a",), restart=False)
        await r.run(31.1)
        write_record(r, holderIdentity="somebody", leaseTransitions=7)
        await r.run(8.5)
        write_record(r, holderIdentity="a")
        await r.run(30)
        (term,) = election.terms
        assert term.ended_us < 0 and r.kernel.now_us - election.renewed_us <= 2.1 * SECOND
        spec = election.writes[-1][1]
        assert spec["leaseTransitions"] == 7 and spec["acquireTime"] == election.writes[0][1]["acquireTime"]


async def test_leader_creates_its_deleted_lease_again_and_keeps_leading() -> None:
    async with rig(seed=2) as r:
        election = Election(r, ("a", "b"), restart=False)
        await r.run(31.1)
        leader = election.leader
        write_record(r, leaseTransitions=5)
        await r.run(4)
        await r.plane.ask("delete", "leases", LOCK[0], LOCK[1])
        await r.run(40)
        assert election.leader == leader and len(election.terms) == 1 and election.terms[0].ended_us < 0
        spec = election.writes[-1][1]
        assert spec["leaseTransitions"] == 0
        assert spec["acquireTime"] > election.writes[0][1]["acquireTime"]


async def test_a_record_without_a_holder_is_taken_by_the_next_try_and_counts_on() -> None:
    async with rig() as r:
        election = Election(r, ("a", "b"), restart=False)
        await r.run(31.1)
        r.supervisor[election.leader].crash()
        write_record(r, holderIdentity="", leaseTransitions=41)
        began_us = r.kernel.now_us
        await r.run(5)
        assert election.terms[-1].began_us - began_us <= 4.41 * SECOND
        assert election.writes[-1][1]["leaseTransitions"] == 42


@pytest.mark.parametrize("code_of", ["get", "update"])
async def test_leader_refused_for_less_than_its_deadline_stays_and_for_longer_ends(
    code_of: str,
) -> None:
    for lasts_s, stays in ((8.5, True), (12.1, False)):
        async with rig() as r:
            gate = Gate(r)
            election = Election(r, ("a",), restart=False)
            await r.run(31.1)
            renewed_us = election.renewed_us
            r.crash()  # the plan of a crashed leader continues step by step
            r.start()
            gate.refuses = lambda request: request.verb == code_of
            await r.run(lasts_s)
            gate.refuses = lambda _: False
            await r.run(10)
            (term,) = election.terms
            assert (term.ended_us < 0) is stays
            if not stays:
                assert 12_000_000 <= term.ended_us - renewed_us <= 12_010_000


@pytest.mark.parametrize(("lost", "released"), [("update", True), ("get", False)])
async def test_a_leader_that_could_not_read_its_lease_has_nothing_to_release(
    lost: str, released: bool
) -> None:
    """The lease that it would write is what it read last, and a read that failed leaves nothing."""
    async with rig() as r:
        gate = Gate(r)
        election = Election(r, ("a",), release=True, restart=False)
        await r.run(31.1)
        count = len(election.writes)
        r.crash()
        r.start()
        gate.refuses = lambda request: (
            request.verb == lost and (lost == "get" or request.body["spec"]["holderIdentity"] == "a")
        )
        await r.run(20)
        holders = [spec["holderIdentity"] for _, spec in election.writes[count:]]
        assert election.terms[0].ended_us > 0 and holders == ([""] if released else [])


@pytest.mark.parametrize(("at_s", "released"), [(2.8, False), (3.8, False), (5.0, True)])
async def test_a_leader_that_goes_while_it_waits_for_a_reply_gives_the_request_up(
    at_s: float, released: bool
) -> None:
    """That of a read leaves nothing to release; one of a write that lands has made the release's
    revision old.
    """
    async with rig() as r:
        election = Election(r, ("a",), release=True, restart=False)
        await r.run(31.1)
        slow = Rule("slow", frozenset({"a"}), None, low_us=500_000, high_us=500_000)
        r.kernel.network.impose(slow)
        await r.run(4)
        renewed_us = election.renewed_us
        await r.run_to(renewed_us / SECOND + at_s)
        election.electors["a"].stop()
        stopped_us = r.kernel.now_us
        await r.run(10)
        assert election.terms[0].ended_us == stopped_us
        assert (election.writes[-1][1]["holderIdentity"] == "") is released


@pytest.mark.parametrize(("still_s", "healthy"), [(34.0, True), (36.1, False)])
async def test_a_leader_that_has_not_renewed_for_a_lease_and_twenty_seconds_is_not_healthy(
    still_s: float, healthy: bool
) -> None:
    """Like a pause: a process that observes the resume sees how long the pause was."""
    async with rig() as r:
        election = Election(r, ("a",), restart=False)
        await r.run(30.1)
        renewed_us, elector = election.renewed_us, election.electors["a"]
        r.supervisor["a"].pause()
        await r.run_to(renewed_us / SECOND + still_s)
        assert elector.leading and elector.healthy is healthy
        r.supervisor["a"].resume()
        await r.run(15)
        assert elector.leading and elector.healthy  # no other candidate was there to take it
