"""An API server with slow requests: seats, queues, refusals after 15 s; fast requests need none."""

from __future__ import annotations

from typing import Any

import pytest

from actors.apiserver.fairness import asked
from actors.apiserver.options import ApiServerOptions
from sim.api.types import Reply, Request, UserInfo
from sim.units import MS, SECOND
from tests.actor.apiserver.cluster import NAMES_ORCH, SCHEME, Plane, lease, plane, request

S = SECOND
MEMBER = (NAMES_ORCH.group_authenticated,)
ALICE, BOB = UserInfo("alice", MEMBER), UserInfo("bob", MEMBER)
DEFAULT = 49  # seats of global-default


def get(user: UserInfo = ALICE) -> Request:
    return request("get", "leases", "default", "none", user=user)


def create(name: str, user: UserInfo = ALICE) -> Request:
    return request("create", "leases", "default", body=lease(name), user=user)


class Timed:
    """Requests and when they were answered."""

    def __init__(self, p: Plane) -> None:
        self.p = p
        self.done: list[tuple[int, Reply]] = []

    def send(self, *requests: Request) -> None:
        for one in requests:
            self.p.server.handle(one, lambda reply: self.done.append((self.p.kernel.now_us, reply)))

    def codes(self) -> dict[int, int]:
        out: dict[int, int] = {}
        for _, reply in self.done:
            out[reply.code] = out.get(reply.code, 0) + 1
        return out


async def test_requests_that_take_time_wait_for_the_seats_of_their_level() -> None:
    async with plane() as p:
        p.server.overload(1 * S, None)
        timed = Timed(p)
        timed.send(*[get() for _ in range(2 * DEFAULT)])
        await p.run(1 * S + 100 * MS)
        assert timed.codes() == {404: DEFAULT}
        await p.run(1 * S)
        assert timed.codes() == {404: 2 * DEFAULT}


async def test_request_that_waits_fifteen_seconds_is_refused() -> None:
    """Timing case 56."""
    async with plane() as p:
        await p.run(1 * S)
        p.server.overload(20 * S, None)
        timed = Timed(p)
        timed.send(*[get() for _ in range(DEFAULT + 1)])
        await p.run(30 * S)
        at_us, reply = timed.done[0]
        assert (at_us, reply.code, reply.headers) == (16 * S, 429, {"Retry-After": "1"})
        assert reply.body == "Too many requests, please try again later."
        assert timed.codes() == {429: 1, 404: DEFAULT}


async def test_a_flood_does_not_hold_up_another_user_nor_an_exempt_one() -> None:
    async with plane() as p:
        p.server.overload(1 * S, None)
        timed, bobs, masters = Timed(p), Timed(p), Timed(p)
        timed.send(*[get() for _ in range(5 * DEFAULT)])
        bobs.send(get(BOB))
        masters.send(request("get", "leases", "default", "none"))
        await p.run(1 * S + MS)
        assert len(masters.done) == 1 and not bobs.done
        await p.run(1 * S)
        assert len(bobs.done) == 1 and len(timed.done) < 3 * DEFAULT


async def test_a_slow_storage_fills_the_seats_too() -> None:
    async with plane() as p:
        p.storage.extra_us = 1 * S
        timed = Timed(p)
        timed.send(*[create(f"l-{n}") for n in range(DEFAULT + 1)])
        await p.run(8 * S)
        instants = sorted(at_us for at_us, _ in timed.done)
        assert timed.codes() == {201: DEFAULT + 1}
        assert instants[-1] >= instants[DEFAULT - 1] + 900 * MS


async def test_waiting_request_is_served_once_the_storage_recovers() -> None:
    async with plane() as p:
        p.storage.set_quorum(False)
        timed = Timed(p)
        timed.send(*[create(f"l-{n}") for n in range(2 * DEFAULT)])
        await p.run(3 * S)
        assert not timed.done
        p.storage.set_quorum(True)
        await p.run(10 * S)
        codes = timed.codes()
        assert codes[201] >= DEFAULT and sum(codes.values()) == 2 * DEFAULT
        assert not p.server.busy
        assert (await p.ask("create", "leases", body=lease("later"), wait_us=100 * MS)).code == 201


@pytest.mark.parametrize("seats", [0, 1, 600])
async def test_quick_requests_never_wait(seats: int) -> None:
    async with plane(options=ApiServerOptions(seats=seats)) as p:
        timed = Timed(p)
        timed.send(*[create(f"l-{n}") for n in range(500)])
        await p.run(5 * MS)
        assert timed.codes() == {201: 500}


async def test_no_request_waits_for_a_seat_without_fairness() -> None:
    async with plane(options=ApiServerOptions(seats=0)) as p:
        p.server.overload(1 * S, None)
        timed = Timed(p)
        timed.send(*[get() for _ in range(500)])
        await p.run(1 * S + MS)
        assert timed.codes() == {404: 500}


def level(name: str, shares: int) -> dict[str, Any]:
    response = {"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 1}}
    return {
        "metadata": {"name": name},
        "spec": {
            "type": "Limited",
            "limited": {"assuredConcurrencyShares": shares, "limitResponse": response},
        },
    }


def schema(name: str, level_name: str, user: str) -> dict[str, Any]:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    rule = {"subjects": [{"kind": "User", "user": {"name": user}}], "resourceRules": [everything]}
    spec = {"priorityLevelConfiguration": {"name": level_name}, "rules": [rule]}
    return {"metadata": {"name": name}, "spec": spec}


async def test_a_schema_and_a_level_of_ones_own_count_from_when_the_caches_show_them() -> None:
    async with plane(options=ApiServerOptions(seats=246)) as p:
        assert (await p.ask("create", "prioritylevelconfigurations", "", body=level("slow", 1))).code == 201
        assert (await p.ask("create", "flowschemas", "", body=schema("alice", "slow", "alice"))).code == 201
        p.server.overload(1 * S, None)
        timed, bobs = Timed(p), Timed(p)
        timed.send(get(), get(), get())
        bobs.send(get(BOB), get(BOB))
        await p.run(10 * MS)
        assert timed.codes() == {429: 1}  # one runs, one waits
        await p.run(1 * S)
        assert timed.codes() == {429: 1, 404: 1} and bobs.codes() == {404: 2}
        gone = await p.ask("delete", "flowschemas", "", "alice")
        assert gone.code == 200
        timed = Timed(p)
        timed.send(get(), get(), get())
        await p.run(1 * S + 10 * MS)
        assert timed.codes() == {404: 3}


async def test_a_schema_counts_once_the_caches_have_caught_up_though_its_history_is_gone() -> None:
    async with plane(options=ApiServerOptions(seats=246)) as p:
        await p.run(1 * S)
        p.server.trail.freeze(True)
        await p.ask("create", "prioritylevelconfigurations", "", body=level("slow", 1))
        await p.ask("create", "flowschemas", "", body=schema("alice", "slow", "alice"))
        p.storage.store.compact(p.storage.store.revision)
        p.server.overload(1 * S, None)
        for frozen, codes in ((True, {404: 3}), (False, {404: 2, 429: 1})):
            p.server.trail.freeze(frozen)
            timed = Timed(p)
            timed.send(get(), get(), get())
            await p.run(2 * S + 10 * MS)
            assert timed.codes() == codes


async def test_watches_of_one_object_count_for_that_object_alone() -> None:
    async with plane() as p:
        assert p.server.life is not None
        cache = p.server.life.caches.of(SCHEME.resource("leases"))
        key = SCHEME.key("leases", "default", "a")
        opened = [p.send_watch({}), p.send_watch({}), p.send_watch({"fieldSelector": "metadata.name=a"})]
        await p.run(10 * MS)
        other = SCHEME.key("leases", "default", "b")
        elsewhere = SCHEME.key("leases", "elsewhere", "a")
        opened += [p.send(request("watch", "leases", space)) for space in ("", "elsewhere")]
        await p.run(10 * MS)
        assert (cache.interested(key), cache.interested(other), cache.interested(elsewhere)) == (4, 3, 2)
        for replies in opened:
            watch = replies[0].watch
            assert watch is not None
            watch.stop()
            watch.stop()
        assert not any(cache.interested(each) for each in (key, other, elsewhere))


async def test_a_deletion_of_a_collection_takes_one_seat_however_many_watch() -> None:
    """width.go knows four verbs that write; a write of one object holds seats for its events, eight
    here at most.
    """
    async with plane() as p:
        watches = [p.send_watch({}) for _ in range(120)]
        await p.run(10 * MS)
        assert all(replies[0].watch for replies in watches)
        p.server.overload(1 * S, None)
        seats = p.server.seats
        assert seats is not None
        for verb, wanted in (("deletecollection", (1, 0)), ("delete", (1, 8))):
            one = request(verb, "leases", "default", "" if verb == "deletecollection" else "a", user=ALICE)
            flow = seats._current_plan().flow(asked(one))
            work = seats._work(one, flow.level)
            assert (work.seats, work.final_seats) == wanted


async def test_flow_schema_status_shows_whether_its_level_exists() -> None:
    async with plane(replicas=2) as p:
        seen: list[str] = []

        async def told() -> tuple[str, str]:
            await p.run(100 * MS)
            obj = (await p.ask("get", "flowschemas", "", "alice")).obj
            (condition,) = obj["status"]["conditions"]
            seen.append(obj["metadata"]["resourceVersion"])
            return condition["status"], condition["reason"]

        await p.ask("create", "flowschemas", "", body=schema("alice", "slow", "alice"))
        assert await told() == ("True", "NotFound")
        await p.ask("create", "prioritylevelconfigurations", "", body=level("slow", 1))
        assert await told() == ("False", "Found")
        before = p.storage.store.revision
        await p.run(600 * S)
        assert p.storage.store.revision == before
        await p.ask("delete", "prioritylevelconfigurations", "", "slow")
        assert await told() == ("True", "NotFound")
        assert len(set(seen)) == 3


async def test_crashed_server_forgets_waiting_requests() -> None:
    async with plane() as p:
        p.server.overload(1 * S, None)
        timed = Timed(p)
        timed.send(*[get() for _ in range(2 * DEFAULT)])
        p.supervisor["apiserver-0"].crash()
        await p.run(10 * MS)
        assert [reply.lost for _, reply in timed.done] == ["ConnectionReset"] * 2 * DEFAULT
        p.server.overload(0, None)
        p.supervisor["apiserver-0"].start()
        await p.run(20 * S)
        assert len(timed.done) == 2 * DEFAULT
        assert (await p.ask("create", "leases", body=lease("later"))).code == 201
