"""An API server with a capacity: what requests cost, how they wait, and what they hold then."""

from __future__ import annotations

import pytest

from actors.apiserver.options import ApiServerOptions
from actors.apiserver.processors import READ_US, SLICE_US
from sim.api.types import Reply, Request, UserInfo
from sim.units import MS, NANO, SECOND
from tests.actor.apiserver.cluster import ADMIN, NAMES_ORCH, Plane, Seen, lease, plane, request

pytestmark = pytest.mark.slow
USER = UserInfo("user", (NAMES_ORCH.group_authenticated,))
ONE = ApiServerOptions(capacity_nano=NANO)
# Without priority and fairness.
UNFAIR = ApiServerOptions(capacity_nano=NANO, seats=0, max_requests_inflight=40)


def get(user: UserInfo = ADMIN) -> Request:
    return request("get", "leases", "default", "none", user=user)


def leases(user: UserInfo = ADMIN, **options: str) -> Request:
    return request("list", "leases", user=user, options=options)


class Timed:
    """Requests, their replies, and how long these took."""

    def __init__(self, p: Plane) -> None:
        self.p = p
        self.took_us: list[int] = []
        self.codes: list[int] = []

    def send(self, one: Request) -> None:
        began_us = self.p.kernel.now_us

        def respond(reply: Reply) -> None:
            self.took_us.append(self.p.kernel.now_us - began_us)
            self.codes.append(reply.code)

        self.p.server.handle(one, respond)


async def filled(p: Plane, count: int) -> None:
    for number in range(count):
        p.send_create(f"l-{number}")
    await p.run(5 * SECOND)


async def took_us(p: Plane, one: Request) -> int:
    timed = Timed(p)
    timed.send(one)
    await p.run(20 * SECOND)
    return timed.took_us[0]


async def test_request_of_an_idle_server_takes_what_it_costs() -> None:
    half = ApiServerOptions(capacity_nano=NANO // 2)
    for options, times in ((ONE, 1), (half, 2)):
        async with plane(options=options) as p:
            assert READ_US * times <= await took_us(p, get()) <= READ_US * times + 2 * MS


async def test_list_costs_by_its_objects_and_less_from_the_cache() -> None:
    async with plane(options=ONE) as p:
        await filled(p, 1_000)
        whole_us = await took_us(p, leases())
        assert 80 * MS <= whole_us <= 85 * MS
        assert 40 * MS <= await took_us(p, leases(resourceVersion="0")) <= 45 * MS
        assert await took_us(p, leases(limit="100")) <= 12 * MS
        none_us = await took_us(p, leases(labelSelector="a=b"))
        assert 44 * MS <= none_us <= 49 * MS


async def test_small_request_waits_for_the_slices_of_large_ones() -> None:
    """Measured: 32 ms beside one list, and 200 ms beside five."""
    async with plane(options=ONE) as p:
        await filled(p, 1_000)
        for count in (1, 5, 20):
            for _ in range(count):
                p.server.handle(leases(), lambda _: None)
            await p.run((5 + count) * MS)
            small_us = await took_us(p, get())
            assert 3 * count * SLICE_US * 0.6 <= small_us <= 3 * count * SLICE_US + 10 * MS


async def test_two_processors_serve_two_large_requests_at_once() -> None:
    async with plane(options=ApiServerOptions(capacity_nano=2 * NANO)) as p:
        await filled(p, 1_000)
        timed = Timed(p)
        timed.send(leases())
        timed.send(leases())
        await p.run(SECOND)
        assert all(us <= 85 * MS for us in timed.took_us) and len(timed.took_us) == 2


async def test_timed_out_request_holds_its_place_until_its_work_is_done() -> None:
    async with plane(options=UNFAIR) as p:
        await filled(p, 1_000)
        slow = Timed(p)
        for _ in range(40):
            slow.send(leases(USER, timeout="1s"))
        await p.run(1_200 * MS)
        # All have timed out, or are refused; their work continues.
        assert slow.codes.count(504) > 20
        late = Timed(p)
        late.send(get(USER))
        late.send(get(ADMIN))
        await p.run(SECOND)
        assert late.codes[0] == 429 and p.server.in_flight > 0
        await p.run(5 * SECOND)
        assert p.server.in_flight == 0 and late.codes == [429, 404]


async def test_lists_of_one_user_fill_its_level_and_no_other() -> None:
    async with plane(options=ONE) as p:
        await filled(p, 1_000)
        flood, other = Timed(p), Timed(p)
        for _ in range(200):
            flood.send(leases(USER))
        await p.run(100 * MS)
        other.send(get(ADMIN))
        await p.run(20 * SECOND)
        # 49 seats, of which each list takes up to eight: six run, and the last wait for 15 s.
        assert flood.codes.count(429) >= 5
        assert other.took_us[0] <= 3 * 8 * SLICE_US


async def test_event_costs_time_for_each_watch() -> None:
    async with plane(options=ONE) as p:
        plain_us = await took_us(p, request("create", "leases", "default", body=lease("a")))
        watches = [Seen(p.kernel, (await p.ask("watch", "leases")).watch) for _ in range(100)]
        timed = Timed(p)
        timed.send(request("create", "leases", "default", body=lease("b")))
        await p.run(plain_us)
        timed.send(get())
        await p.run(SECOND)
        assert len(watches[0].events) == 2
        assert timed.took_us[1] >= 3 * MS


async def test_crash_forgets_the_work() -> None:
    async with plane(options=UNFAIR) as p:
        await filled(p, 1_000)
        timed = Timed(p)
        for _ in range(10):
            timed.send(leases(USER))
        await p.run(50 * MS)
        actor = p.supervisor.actors["apiserver-0"]
        actor.crash("out of memory")
        actor.start()
        await p.run(100 * MS)
        assert timed.codes == [0] * 10 and p.server.in_flight == 0
        assert await took_us(p, get()) <= 3 * MS
