"""How an API server ends that is asked to: genericapiserver.go (preparedGenericAPIServer.Run) of
v1.25.
"""

from __future__ import annotations

from typing import Any

import pytest

from actors.apiserver.options import ApiServerOptions
from sim.api.types import Reply
from sim.units import MS, SECOND, format_micro_time
from tests.actor.apiserver.cluster import Plane, Seen, lease, offer, plane, request

DELAY_S, TIMEOUT_S = 10, 60
RETRYING = ApiServerOptions(shutdown_delay_us=DELAY_S * SECOND, shutdown_send_retry_after=True)
PLAIN = ApiServerOptions(shutdown_delay_us=DELAY_S * SECOND)


async def watched(at: Plane) -> Seen:
    return Seen(at.kernel, (await at.ask("watch", "leases", options={"resourceVersion": "0"})).watch)


async def told(at: Plane, name: str, server: int = 0) -> Reply:
    return await at.ask("create", "leases", body=lease(name), at=server)


def s(us: int | None) -> float:
    assert us is not None
    return us / SECOND


@pytest.mark.parametrize(("options", "lasts_s"), [(PLAIN, TIMEOUT_S), (RETRYING, 2)])
async def test_it_serves_for_the_delay_then_takes_nothing_new_and_its_watches_end_with_it(
    options: ApiServerOptions, lasts_s: int
) -> None:
    async with plane(2, options) as at:
        await at.run(SECOND)
        actor = at.supervisor["apiserver-0"]
        seen = await watched(at)
        began_us = at.kernel.now_us
        assert at.server.ready
        actor.terminate()
        await at.run(DELAY_S * SECOND - SECOND)
        assert (await told(at, "before")).code == 201
        assert at.server.running
        assert not at.server.ready
        await at.run(SECOND)
        refused = await told(at, "a")
        assert await told(at, "b") == refused
        if options.shutdown_send_retry_after:
            text = "The orch-apiserver is shutting down, please try again later.\n"
            assert (refused.code, refused.body) == (429, text)
            assert refused.headers == {"Retry-After": "5", "Connection": "close"}
        else:
            assert (refused.code, refused.lost) == (0, "ConnectionRefused")
        assert (await told(at, "else", 1)).code == 201
        await at.run(TIMEOUT_S * SECOND + SECOND)
        assert seen.short == [("ADDED", "before"), ("ADDED", "else")]
        assert s(seen.ended_us) == pytest.approx(s(began_us) + DELAY_S + lasts_s, abs=0.02)
        assert not actor.running


@pytest.mark.parametrize("options", [PLAIN, RETRYING])
async def test_server_without_watches_ends_with_its_last_request(
    options: ApiServerOptions,
) -> None:
    async with plane(1, options) as at:
        await at.run(SECOND)
        at.storage.extra_us = 3 * SECOND
        at.supervisor["apiserver-0"].terminate()
        await at.run(DELAY_S * SECOND - SECOND)
        replies = at.send_create("late")
        await at.run(2900 * MS)
        assert at.server.running
        assert replies == []
        await at.run(200 * MS)
        assert [reply.code for reply in replies] == [201]
        assert not at.server.running


async def test_a_watch_that_ends_by_itself_is_not_waited_for_any_longer() -> None:
    async with plane(1, PLAIN) as at:
        await at.run(SECOND)
        seen = await watched(at)
        at.supervisor["apiserver-0"].terminate()
        await at.run((DELAY_S + 20) * SECOND)
        seen.watch.stop()
        await at.run(600 * MS)
        assert not at.server.running


async def test_second_sigterm_changes_nothing_and_a_kill_ends_the_server_at_once() -> None:
    async with plane(1, PLAIN) as at:
        await at.run(SECOND)
        actor = at.supervisor["apiserver-0"]
        seen = await watched(at)
        actor.terminate()
        await at.run(DELAY_S * SECOND // 2)
        actor.terminate()
        await at.run(DELAY_S * SECOND // 2 + 10 * MS)
        assert at.send_create("a")[0].lost == "ConnectionRefused"
        actor.crash()
        assert s(seen.ended_us) == s(at.kernel.now_us)
        actor.start()
        assert at.server.ready
        assert (await told(at, "a")).code == 201


async def test_start_during_graceful_termination_happens_after_its_end() -> None:
    async with plane(1, PLAIN) as at:
        await at.run(SECOND)
        actor = at.supervisor["apiserver-0"]
        await watched(at)
        actor.terminate()
        actor.start()
        await at.run((DELAY_S + TIMEOUT_S - 1) * SECOND)
        assert actor.incarnations == 1
        await at.run(2 * SECOND)
        assert (actor.incarnations, at.server.ready) == (2, True)


async def test_terminating_server_renews_no_lease_by_fast_paths() -> None:
    """The fast path of lease renewals is closed from that instant on."""
    async with plane(1, PLAIN) as at:
        await at.run(SECOND)
        held = lease("l", renewTime=format_micro_time(SECOND))
        body: Any = (await at.ask("create", "leases", body=held)).obj
        asked = request("update", "leases", "default", "l", body=body)
        lease_path = offer(at.server, asked)
        assert lease_path is not None
        spec = {"renewTime": format_micro_time(2 * SECOND)}
        await at.ask("update", "leases", name="l", body={**body, "spec": spec})
        await watched(at)
        at.supervisor["apiserver-0"].terminate()
        await at.run(DELAY_S * SECOND - SECOND)
        assert lease_path.write(3 * SECOND) is not None
        await at.run(SECOND)
        assert lease_path.write(4 * SECOND) is None
        assert lease_path.beat(4 * SECOND, at.kernel.now_us) is None
        assert at.server.serve(request("get", "leases", "default", "l")) is None
