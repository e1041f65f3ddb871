"""Election by an annotation and a Lease together, on a real API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sim.api.refusals import Refusal
from sim.api.types import Obj, Reply, Request
from sim.client import EventRecorder
from sim.client.election.multilock import PRIMARIES, spec_of, text_of
from sim.units import SECOND, format_time
from tests.actor.apiserver.cluster import SCHEME
from tests.actor.client.rig import Rig, rig
from tests.actor.client.test_election import LOCK, Election, Term

ANNOTATION = SCHEME.names.annotation_leader


async def stored(r: Rig, resource: str) -> Obj:
    reply = await r.plane.ask("get", resource, *LOCK)
    assert reply.ok, reply.message
    return reply.obj


async def records(r: Rig, primary: str) -> tuple[dict[str, Any], Obj]:
    """What the annotation says, and the Lease."""
    held = await stored(r, primary)
    return json.loads(held["metadata"]["annotations"][ANNOTATION]), (await stored(r, "leases"))["spec"]


async def merge(r: Rig, resource: str, patch: Obj) -> None:
    kind = SCHEME.names.media_merge_patch
    reply = await r.plane.ask("patch", resource, *LOCK, body=patch, content_type=kind)
    assert reply.ok, reply.message


def test_an_annotation_holds_whole_seconds_and_other_names() -> None:
    spec = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.900000Z",
        "renewTime": "2026-01-01T00:00:02.100000Z",
        "leaseTransitions": 3,
    }
    text = text_of(spec)
    assert text == (
        '{"holderIdentity":"a","leaseDurationSeconds":15,"acquireTime":"2026-01-01T00:00:00Z",'
        '"renewTime":"2026-01-01T00:00:02Z","leaderTransitions":3}'
    )
    whole = {"acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:02.000000Z"}
    assert spec_of(text) == {**spec, **whole}
    assert spec_of("") == {"holderIdentity": "", "leaseDurationSeconds": 0, "leaseTransitions": 0}
    for odd in ("[]", "{", '{"leaseDurationSeconds": 1e999}', "[" * 100_000):
        assert spec_of(odd) is None


@pytest.mark.parametrize("lock", PRIMARIES)
async def test_a_leader_writes_both_records_and_is_followed_in_both(lock: str) -> None:
    async with rig() as r:
        election = Election(r, ("a", "b"), lock=lock)
        await r.run(30)
        first = election.leader
        said, lease = await records(r, PRIMARIES[lock])
        assert said["holderIdentity"] == lease["holderIdentity"] == first
        assert (said["leaseDurationSeconds"], said["leaderTransitions"]) == (15, 0)
        assert said["renewTime"][:19] == lease["renewTime"][:19]
        r.supervisor[first].crash()
        crashed_us = r.kernel.now_us
        await r.run(30)
        said, lease = await records(r, PRIMARIES[lock])
        assert said["holderIdentity"] == lease["holderIdentity"] == election.leader != first
        assert said["leaderTransitions"] == lease["leaseTransitions"] == 1
        assert 13 <= (election.terms[1].began_us - crashed_us) / SECOND <= 23.8
        election.check_never_two()


async def test_one_that_knows_only_the_annotation_is_waited_for() -> None:
    async with rig() as r:
        wall = format_time(r.kernel.epoch_us + r.kernel.now_us)
        record = {"holderIdentity": "old", "leaseDurationSeconds": 15, "acquireTime": wall, "renewTime": wall}
        meta = {"name": LOCK[1], "annotations": {ANNOTATION: json.dumps(record | {"leaderTransitions": 4})}}
        made = {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta}
        assert (await r.plane.ask("create", "endpoints", LOCK[0], body=made)).ok
        election = Election(r, ("a",), lock="endpointsleases")
        await r.run(14)
        assert not election.terms
        await r.run(8)
        said, lease = await records(r, "endpoints")
        assert said["holderIdentity"] == lease["holderIdentity"] == "a"
        assert said["leaderTransitions"] == lease["leaseTransitions"] == 5


async def test_differing_records_have_no_leader_until_the_lease_expires() -> None:
    async with rig() as r:
        election = Election(r, ("a",), lock="configmapsleases")
        await r.run(20)
        await merge(r, "leases", {"spec": {"holderIdentity": "intruder"}})
        at_us = r.kernel.now_us
        await r.run(30)
        first, second = election.terms
        assert 9 <= (first.ended_us - at_us) / SECOND <= 12.1
        assert (second.began_us - at_us) / SECOND >= 15
        said, lease = await records(r, "configmaps")
        assert said["holderIdentity"] == lease["holderIdentity"] == "a"


async def test_a_lease_that_is_gone_is_made_again_by_its_leader() -> None:
    async with rig() as r:
        election = Election(r, ("a",), lock="endpointsleases")
        await r.run(20)
        assert (await r.plane.ask("delete", "leases", *LOCK)).ok
        await r.run(5)
        assert (await stored(r, "leases"))["spec"]["holderIdentity"] == "a"
        assert len(election.terms) == 1


async def test_a_leader_that_goes_in_peace_leaves_both_records_free() -> None:
    async with rig() as r:
        election = Election(r, ("a",), lock="endpointsleases", release=True, restart=False)
        await r.run(20.5)
        r.kernel.call_later(0, lambda _: election.electors["a"].stop())
        await r.run(2)
        said, lease = await records(r, "endpoints")
        assert said["holderIdentity"] == lease["holderIdentity"] == ""
        assert (said["leaseDurationSeconds"], lease["leaseDurationSeconds"]) == (1, 1)


async def test_leader_with_a_foreign_first_record_records_events_about_the_lease_only() -> None:
    """It was not there when it was looked for, and is when it is to be made."""
    async with rig() as r:
        namespace, name = LOCK
        made = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "namespace": namespace}}
        assert (await r.plane.ask("create", "endpoints", namespace, body=made)).ok
        absent = Refusal(404, "NotFound", "not there yet", {}).reply()
        looked: list[int] = []

        def alter(request: Request, reply: Reply) -> Reply:
            if request.resource == "endpoints" and request.verb == "get":
                looked.append(1)
                return absent if len(looked) == 1 else reply
            return reply

        told: list[str] = []

        class Told(EventRecorder):
            def event(self, obj: Obj, *_: Any, **__: Any) -> None:
                told.append(f"{obj['kind']} {obj['metadata']['name']}")

        class Announced(list[Term]):
            def append(self, term: Term) -> None:
                super().append(term)
                election.electors["a"].announce(Told.__new__(Told))

        r.tap.alter = alter
        election = Election(r, ("a",), lock="endpointsleases")
        election.terms = Announced()
        await r.run(3)
        assert told == ["Lease lock"]
        election.electors["a"].announce(Told.__new__(Told))  # a round later it has read both
        assert told[1:] == ["Endpoints lock", "Lease lock"]
