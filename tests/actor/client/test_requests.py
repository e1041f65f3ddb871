"""Clients on a real API server: Retry-After, time-outs, buckets, servers that come and go, storage
that hangs.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from actors.apiserver.options import ApiServerOptions
from sim.api.types import Reply
from sim.client import Channel, Client, Informers
from sim.kernel import Context, Rule
from sim.units import SECOND
from tests.actor.apiserver.cluster import ADMIN, SCHEME, USER, lease
from tests.actor.client.rig import Rig, rig

FULL = ApiServerOptions(max_mutating_requests_inflight=0)


class Job:
    """A process that does one thing.  done: (seconds it took, what it returned)."""

    def __init__(
        self, r: Rig, work: Callable[[Client], Awaitable[Any]], name: str = "job", **more: Any
    ) -> None:
        self.done: tuple[float, Any] | None = None
        self.started_us = r.kernel.now_us

        async def main(ctx: Context) -> None:
            result = await work(r.client(ctx, **more))
            self.done = (ctx.kernel.now_us - self.started_us) / SECOND, result
            await ctx.forever()

        r.actor(name, main)


async def test_a_request_refused_for_load_is_sent_again_each_second_ten_times() -> None:
    async with rig(options=FULL) as r:
        job = Job(r, lambda client: client.create("leases", "default", lease("a")), user=USER)
        await r.run(30)
        assert job.done is not None
        took_s, reply = job.done
        tries = [at for at, request in r.tap.asked]
        assert len(tries) == 11 and reply.code == 429 and 10 <= took_s <= 10.1


@pytest.mark.parametrize(
    ("cut_s", "sent_s", "found_s"),
    [
        (40, 10, 85),  # though it was sent well before, and only its answer meets the cut
        (10, 30, 55),  # with the connection that it was sent on
        (10, 8, 55),  # so is what the server has not answered yet
        (10, 60, 105),  # that one is not there any more, and another cannot be made
    ],
)
async def test_what_a_cut_holds_up_is_given_up_when_its_connection_is_found_dead(
    cut_s: int, sent_s: int, found_s: int
) -> None:
    async with rig() as r:
        began_s = r.kernel.now_us / SECOND
        r.plane.server.overload(50 * SECOND, None)
        found: list[float] = []

        async def work(client: Client) -> None:
            await client.ctx.sleep_us(sent_s * SECOND)
            reply = await client.get("leases", "default", "a")
            found.extend([client.ctx.now_us() / SECOND - began_s] if reply.lost == "Timeout" else [])

        Job(r, work)
        await r.run_to(began_s + cut_s)
        r.cut("job")
        await r.run_to(began_s + 120)
        assert found == [pytest.approx(found_s, abs=0.01)]


async def test_paused_server_loses_requests_it_has_begun_and_those_it_has_not() -> None:
    async with rig() as r:
        r.taps["apiserver-0"] = r.plane.server
        r.plane.server.overload(20 * SECOND, None)
        jobs = [Job(r, lambda client: client.get("leases", "default", "a"), "early")]
        await r.run(10)
        r.supervisor["apiserver-0"].pause()
        jobs.append(Job(r, lambda client: client.get("leases", "default", "a"), "late"))
        await r.run(50)
        assert [job.done and (round(job.done[0]), job.done[1].lost) for job in jobs] == [
            (55, "Timeout"),
            (45, "Timeout"),
        ]


async def test_duplicated_request_is_carried_out_twice_and_its_first_reply_counts() -> None:
    nameless = {**lease("x"), "metadata": {"generateName": "x-", "namespace": "default"}}
    async with rig() as r:
        r.kernel.cause = 77
        r.kernel.network.impose(
            Rule("twice", frozenset({"job"}), None, duplication=0.999_999, both_ways=False)
        )
        r.kernel.cause = 0

        async def work(client: Client) -> list[Reply]:
            made = [await client.create("leases", "default", lease("a"))]
            made.append(await client.create("leases", "default", nameless))
            made.append(await client.patch("leases", "default", "a", {"spec": {"holderIdentity": "me"}}))
            made.append(await client.ask(client.request("watch", "leases", "default")))
            made.append(await client.list("leases", "default"))
            return made

        job = Job(r, work)
        await r.run(5)
        assert job.done is not None
        replies = job.done[1]
        assert [reply.code for reply in replies] == [201, 201, 200, 200, 200]
        assert len(replies[4].items) == 3  # one by name, two by generateName
        assert [request.verb for _, request in r.tap.asked] == [
            verb for verb in ("create", "create", "patch", "watch", "list") for _ in range(2)
        ]
        assert {request.cause for _, request in r.tap.asked[1::2]} == {77}
        assert r.tap.asked[0][1].cause != 77


async def test_client_gets_the_conflict_of_a_copy_that_is_answered_first() -> None:
    # by this seed's delays the reply to the copy overtakes the other one
    async with rig(seed=6) as r:
        network = r.kernel.network
        network.impose(Rule("twice", frozenset({"job"}), None, duplication=0.999_999, both_ways=False))
        network.impose(
            Rule("slow", frozenset({"apiserver-0"}), None, low_us=200, high_us=40_000, both_ways=False)
        )
        job = Job(r, lambda client: client.create("leases", "default", lease("a")))
        await r.run(5)
        assert job.done is not None and job.done[1].code == 409


@pytest.mark.parametrize("timeout_us", [0, 2 * SECOND])
async def test_duplicated_request_reports_one_loss(timeout_us: int) -> None:
    async with rig() as r:
        r.kernel.network.impose(
            Rule("twice", frozenset({"job"}), None, duplication=0.999_999, both_ways=False)
        )
        told: list[Reply] = []

        def main(ctx: Context) -> None:
            client = r.client(ctx)
            client.call(
                client.request("create", "leases", "default", body=lease("a")), told.append, timeout_us
            )

        r.actor("job", main)
        while not r.kernel.network.link("job", "apiserver-0").duplication:
            await r.run(0.0001)
        await r.run(0.0001)
        r.cut("job")
        await r.run(120)
        assert [reply.lost for reply in told] == ["Timeout"]


async def test_a_request_refused_for_load_succeeds_when_there_is_room_again() -> None:
    refused = Reply(429, body="Too many requests", headers={"Retry-After": "2"})
    async with rig() as r:
        r.tap.alter = lambda _, reply: refused if r.kernel.now_us < 6 * SECOND else reply
        job = Job(r, lambda client: client.get("leases", "default", "a"))
        await r.run(30)
        assert job.done is not None and job.done[1].code == 404 and 6 <= job.done[0] <= 6.1


@pytest.mark.parametrize(("after_us", "lost"), [(100, "ConnectionReset"), (2000, "")])
async def test_server_that_crashes_during_a_commit_has_written_and_not_replied(
    after_us: int, lost: str
) -> None:
    async with rig() as r:
        # as they are: no tap in between
        servers = {server.name: server for server in r.plane.servers}
        replies: list[Reply] = []
        written: list[int] = []
        r.plane.storage.store.subscribe("", lambda change: written.append(change.at_us))

        def main(ctx: Context) -> None:
            client = Client(ctx, SCHEME, [Channel(ctx, ctx.name, servers, "apiserver-0")], ADMIN, qps=0)
            client.call(client.request("create", "leases", "default", body=lease("a")), replies.append)

        r.actor("job", main)
        while not written:
            await r.kernel.run_until(r.kernel.now_us + 10)
        await r.kernel.run_until(written[0] + after_us)
        r.crash()
        await r.run(1)
        assert len(written) == 1 and [reply.lost for reply in replies] == [lost]


async def test_an_error_without_retry_after_is_final() -> None:
    async with rig() as r:
        r.tap.alter = lambda _, __: Reply(500, body={"reason": "InternalError"})
        job = Job(r, lambda client: client.get("leases", "default", "a"))
        await r.run(5)
        assert job.done is not None and job.done[1].code == 500 and len(r.tap.asked) == 1


async def test_a_watch_that_is_sent_again_takes_a_token_as_any_other() -> None:
    refused = Reply(429, body="Too many requests", headers={"Retry-After": "1"})
    async with rig() as r:
        r.tap.alter = lambda _, reply: refused

        async def work(client: Client) -> None:
            for _ in range(3):
                client.call(client.request("watch", "leases", "default"), lambda reply: None)

        Job(r, work, qps=0.1, burst=1)
        await r.run(25)
        began = r.tap.asked[0][0]
        assert [round((at - began) / SECOND) for at, _ in r.tap.asked] == [0, 0, 0, 1, 11, 21]


async def test_retries_take_tokens_and_watches_do_not() -> None:
    async with rig(options=FULL) as r:

        async def work(client: Client) -> Reply:
            for _ in range(5):
                client.call(client.request("watch", "leases", "default"), lambda reply: None)
            return await client.create("leases", "default", lease("a"))

        job = Job(r, work, qps=0.25, burst=1, user=USER)
        await r.run(60)
        tries = [at for at, request in r.tap.asked if request.verb == "create"]
        assert job.done is not None and len(tries) == 11
        assert all(b - a >= 3.9 * SECOND for a, b in itertools.pairwise(tries))


async def test_a_time_out_counts_from_the_sending_and_the_write_may_have_landed() -> None:
    async with rig() as r:

        async def work(client: Client) -> list[Reply]:
            first = client.answer(client.request("create", "leases", "default", body=lease("a")))
            second = client.answer(client.request("create", "leases", "default", body=lease("b")))
            r.plane.supervisor["storage"].pause()
            return [await first.wait(), await second.wait()]

        job = Job(r, work, qps=0.5, burst=1, timeout_us=3 * SECOND)
        await r.run(20)
        assert job.done is not None
        assert [reply.lost for reply in job.done[1]] == ["Timeout", "Timeout"] and 5 <= job.done[0] <= 5.01
        r.plane.supervisor["storage"].resume()
        await r.run(1)
        assert (await r.plane.ask("get", "leases", name="a")).ok


@pytest.mark.parametrize(("extra_s", "lands"), [(4, False), (2, True)])
async def test_what_a_client_has_given_up_is_not_begun_any_more(extra_s: int, lands: bool) -> None:
    """The server learns of it one link delay later: a handler that has reached the storage by then
    continues, any other does not.
    """
    async with rig() as r:
        server = r.plane.server
        r.taps["apiserver-0"] = server
        server.overload(extra_s * SECOND, None)
        r.plane.storage.extra_us = 2 * SECOND
        job = Job(r, lambda client: client.update("leases", lease("a")), timeout_us=3 * SECOND, user=USER)
        made = Job(
            r, lambda client: client.create("leases", "default", lease("b")), "other", timeout_us=3 * SECOND
        )
        await r.run(2.9)
        assert server.seats is not None and sum(map(len, [server.traffic.flights])) == 2
        await r.run(0.2)
        assert not server.traffic.flights
        for done in (job.done, made.done):
            assert done is not None and done[1].lost == "Timeout" and 3 <= done[0] <= 3.01
        await r.run(10)
        server.overload(0, None)
        r.plane.storage.extra_us = 0
        assert (await r.plane.ask("get", "leases", name="b")).ok is lands


async def test_paused_server_does_not_begin_requests_of_a_client_that_has_ended() -> None:
    for lasts_s, lands in ((2, True), (4, False)):
        async with rig() as r:
            r.taps["apiserver-0"] = r.plane.server
            r.supervisor["apiserver-0"].pause()
            job = Job(r, lambda client: client.create("leases", "default", lease("a")), timeout_us=3 * SECOND)
            await r.run(lasts_s)
            r.supervisor["apiserver-0"].resume()
            await r.run(3)
            assert job.done is not None and job.done[1].ok is lands
            assert (await r.plane.ask("get", "leases", name="a")).ok is lands


@pytest.mark.parametrize(("retry_s", "tries", "took"), [("1", 5, 5), ("2", 3, 6), ("7", 1, 7)])
async def test_a_time_out_is_that_of_all_tries_together(retry_s: str, tries: int, took: int) -> None:
    """A client with a Retry-After waits that long in any case, and then exceeds its timeout
    (rest/request.go, with_retry.go).
    """
    refused = Reply(429, body="Too many requests", headers={"Retry-After": retry_s})
    async with rig() as r:
        r.tap.alter = lambda _, reply: refused
        job = Job(r, lambda client: client.get("leases", "default", "a"), timeout_us=5 * SECOND)
        await r.run(30)
        assert job.done is not None and job.done[1].lost == "Timeout" and took <= job.done[0] <= took + 0.02
        assert len(r.tap.asked) == tries


async def test_a_try_for_which_there_is_no_token_in_time_is_not_made() -> None:
    """One token each four seconds: the second try would be at 4, the third at 8; it is given up
    when that is known.
    """
    refused = Reply(429, body="Too many requests", headers={"Retry-After": "1"})
    async with rig() as r:
        r.tap.alter = lambda _, reply: refused
        job = Job(
            r, lambda client: client.get("leases", "default", "a"), qps=0.25, burst=1, timeout_us=6 * SECOND
        )
        await r.run(30)
        assert job.done is not None and job.done[1].lost == "Timeout" and 5 <= job.done[0] <= 5.02
        assert len(r.tap.asked) == 2


async def test_without_a_time_out_a_dead_connection_is_found_after_45_seconds() -> None:
    async with rig() as r:
        r.cut("job")
        job = Job(r, lambda client: client.get("leases", "default", "a"))
        await r.run(60)
        assert job.done is not None and job.done[1].lost == "Timeout" and 45 <= job.done[0] <= 45.01


def create_after(us: int) -> Callable[[Client], Awaitable[Reply]]:
    async def work(client: Client) -> Reply:
        await client.ctx.sleep_us(us)
        return await client.create("leases", "default", lease("a"))

    return work


def unanswered(r: Rig, *jobs: str) -> None:
    """From now on requests of these hosts arrive, and the replies do not."""
    way = frozenset({"apiserver-0"}), frozenset(jobs)
    r.kernel.network.impose(Rule("cut job", *way, cut=True, both_ways=False))


async def test_client_cut_off_from_replies_gets_none_on_a_new_connection_either() -> None:
    """What is sent on a connection that was there arrives; another takes messages both ways to
    make.
    """
    async with rig() as r:
        Job(r, create_after(40 * SECOND), "early")
        Job(r, create_after(50 * SECOND), "late")
        await r.run(1)
        unanswered(r, "early", "late", "new")
        Job(r, create_after(SECOND), "new")
        await r.run(60)
        assert len(r.tap.asked) == 1 and r.tap.asked[0][0] < 45 * SECOND
        r.heal("job")
        await r.run(1)
        assert len(r.tap.asked) == 2  # the new one has been given up by then


@pytest.mark.parametrize("first", ["cut", "crash"])
async def test_restarted_server_gets_nothing_from_connections_of_before(first: str) -> None:
    """A client cut off from the server does not receive the reset of the connection either, before
    the link is healed; a client that knows of the loss opens a new one then.
    """
    async with rig() as r:
        job = Job(r, create_after(10 * SECOND))
        await r.run(5)
        if first == "cut":
            unanswered(r, "job")
        r.crash()
        await r.run(1)
        if first == "crash":
            unanswered(r, "job")
        r.start()
        await r.run(20)
        assert job.done is None and not r.tap.asked
        r.heal("job")
        await r.run(1)
        assert job.done is not None and 26 <= job.done[0] <= 26.1
        assert (job.done[1].lost, len(r.tap.asked)) == (("ConnectionReset", 0) if first == "cut" else ("", 1))


@pytest.mark.parametrize("answered", [False, True])
async def test_request_at_a_cut_link_continues_when_the_link_is_healed(answered: bool) -> None:
    """A request that was on its way, or the answer to one that was served."""
    async with rig() as r:
        job = Job(r, create_after(SECOND))
        await r.run(0.5)
        if answered:
            unanswered(r, "job")
        else:
            r.cut("job")
        await r.run(20)
        assert job.done is None and len(r.tap.asked) == (1 if answered else 0)
        r.heal("job")
        await r.run(1)
        assert job.done is not None and job.done[1].code == 201 and 20.5 <= job.done[0] <= 20.6
        assert len(r.tap.asked) == 1
        await r.run(60)
        assert job.done[1].code == 201


async def test_a_request_that_was_given_up_does_not_go_on_when_the_link_is_healed() -> None:
    async with rig() as r:
        r.cut("job")
        job = Job(r, lambda client: client.create("leases", "default", lease("a")), timeout_us=5 * SECOND)
        await r.run(10)
        assert job.done is not None and job.done[1].lost == "Timeout" and 5 <= job.done[0] <= 5.01
        r.heal("job")
        await r.run(10)
        assert not r.tap.asked


@pytest.mark.parametrize("verb", ["get", "create"])
async def test_a_reset_connection_is_tried_again_for_reads_only(verb: str) -> None:
    async with rig(replicas=2) as r:
        r.plane.supervisor["storage"].pause()  # so that the request is under way for long

        async def work(client: Client) -> Reply:
            if verb == "get":
                return await client.get("leases", "default", "a")
            return await client.create("leases", "default", lease("a"))

        job = Job(r, work)
        await r.run(1)
        r.crash()
        r.plane.supervisor["storage"].resume()
        await r.run(10)
        assert job.done is not None
        took_s, reply = job.done
        second = len(r.taps["apiserver-1"].asked)  # type: ignore[attr-defined]
        if verb == "get":
            assert reply.code == 404 and 2 <= took_s <= 2.1 and second == 1
        else:
            assert reply.lost == "ConnectionReset" and took_s <= 1.1 and second == 0


async def test_a_client_moves_to_the_next_server_and_stays() -> None:
    async with rig(replicas=3) as r:

        async def work(client: Client) -> list[int]:
            codes = []
            for _ in range(10):
                codes.append((await client.get("leases", "default", "a")).code)
                await client.ctx.sleep_us(SECOND)
            return codes

        job = Job(r, work)
        await r.run(3.5)
        r.crash("apiserver-0")
        await r.run(2)
        r.start("apiserver-0")
        await r.run(10)
        assert job.done is not None and job.done[1] == [404] * 10
        assert [len(tap.asked) for tap in r.taps.values()] == [4, 6, 0]  # type: ignore[attr-defined]


async def test_requests_of_a_crashed_client_are_served_without_a_receiver() -> None:
    async with rig() as r:
        seen: list[Reply] = []

        def main(ctx: Context) -> None:
            client = r.client(ctx)
            client.call(client.request("create", "leases", "default", body=lease("a")), seen.append)

        r.actor("short", main)
        await r.run(0.0009)
        r.supervisor["short"].crash()
        await r.run(5)
        assert seen == [] and (await r.plane.ask("get", "leases", name="a")).ok


async def test_a_watch_of_a_dead_client_is_closed_at_the_server() -> None:
    async with rig() as r:
        opened: list[Reply] = []

        def main(ctx: Context) -> None:
            client = r.client(ctx)
            client.call(client.request("watch", "leases", "default"), opened.append)

        r.actor("short", main)
        await r.run(1)
        source = opened[0].watch._source  # type: ignore[union-attr]
        assert not source.ended
        r.supervisor["short"].crash()
        assert source.ended


async def test_cause_after_a_write_is_the_requests_cause_and_of_its_watch_event_the_write() -> None:
    async with rig() as r:
        causes: dict[str, int] = {}

        async def main(ctx: Context) -> None:
            kernel = ctx.kernel
            asked = kernel.cause = ctx.record(kernel.kind("asked"), ())
            client = r.client(ctx)
            reply = await client.create("leases", "default", lease("a"))
            assert reply.item is not None
            causes.update(asked=asked, replied=kernel.cause, stored=reply.item.cause)
            informer = Informers(ctx, client)["leases"]
            informer.on(add=lambda obj: causes.update({obj["metadata"]["name"]: kernel.cause}))
            informer.start()
            await ctx.forever()

        r.actor("job", main)
        await r.run(2)
        assert causes["replied"] == causes["asked"] < causes["stored"] == causes["a"]
