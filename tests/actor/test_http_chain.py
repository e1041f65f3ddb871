"""The chain of stages of a running cluster, without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.storage.postings import ITEMS_MIN
from sim.api import status
from sim.app.cluster import Cluster
from sim.kernel import NEVER_US
from sim.wire.exchange import OPENED, PEER, Exchange, Response
from sim.wire.http.chain.front import Front
from tests.actor.test_http import MAPS, front_of


@asynccontextmanager
async def fronted() -> AsyncIterator[tuple[Cluster, Front]]:
    async with Cluster(naming="kubernetes") as cluster:
        cluster.kernel.set_rate(0)
        cluster.kernel.set_goal(NEVER_US)
        yield cluster, front_of(cluster)


def exchange_of(method: str, target: str, body: bytes = b"", *more: tuple[bytes, bytes]) -> Exchange:
    path, _, query = target.partition("?")
    scope = {
        "method": method,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"authorization", b"Bearer root"), *more],
        "extensions": {PEER: None, OPENED: []},
    }
    exchange = Exchange(scope)
    exchange.body.take(body, False)
    return exchange


async def asked(front: Front, method: str, target: str, body: bytes = b"") -> Response:
    return await front.answer(exchange_of(method, target, body))


async def test_request_from_outside_is_authorized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fronted() as (cluster, front):
        judged: list[str] = []
        authorization = cluster.authorization
        authorize, refusal = authorization._chain.authorize, authorization.refusal

        def noted(name: str, judge: Any) -> Any:
            def called(subject: Any, *more: Any) -> Any:
                if getattr(subject, "user", subject).name == "admin":
                    judged.append(name)
                return judge(subject, *more)

            return called

        monkeypatch.setattr(authorization._chain, "authorize", noted("chain", authorize))
        monkeypatch.setattr(authorization, "refusal", noted("replica", refusal))
        made = await asked(front, "POST", MAPS, b'{"metadata":{"name":"a"}}')
        assert (made.code, judged) == (201, ["chain"])


async def test_requests_leave_nothing_behind_at_the_gate() -> None:
    async with fronted() as (cluster, front):
        for method, target, body in (
            ("POST", MAPS, b'{"metadata":{"name":"a"}}'),
            ("GET", f"{MAPS}/a", b""),
            ("GET", f"{MAPS}/none", b""),
            ("DELETE", f"{MAPS}/a", b""),
        ):
            await asked(front, method, target, body)
        (server,) = cluster.api_servers.values()
        assert (front.gateway._sent, front.gateway._waiting, server.traffic.flights) == ({}, {}, {})


async def test_read_that_cannot_be_served_at_once_takes_the_ordinary_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with fronted() as (cluster, front):
        await asked(front, "POST", MAPS, b'{"metadata":{"name":"a"}}')
        plain = await asked(front, "GET", f"{MAPS}/a")
        (server,) = cluster.api_servers.values()

        monkeypatch.setattr(server, "serve", lambda _: None)
        found = await asked(front, "GET", f"{MAPS}/a")
        assert (found.code, found.body) == (200, plain.body)


async def test_read_that_meets_a_defect_is_answered_without_a_second_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with fronted() as (cluster, front):
        (server,) = cluster.api_servers.values()

        def broken(_: Any) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(server, "serve", broken)
        found = await asked(front, "GET", f"{MAPS}/a")
        assert (found.code, found.body) == (500, status.PANIC.encode())
        assert [each.getMessage().partition(": ")[0] for each in caplog.records] == [
            "get of default/configmaps/a met an error of the server"
        ]


async def test_list_that_reads_postings_counts_all_objects_of_its_range_as_fetched() -> None:
    async with fronted() as (cluster, front):
        for number in range(ITEMS_MIN):
            body = b'{"metadata":{"name":"m%d","labels":{"l":"%d"}}}' % (number, number % 2)
            assert (await asked(front, "POST", MAPS, body)).code == 201
        front.gateway.begin_counting()
        found = await asked(front, "GET", f"{MAPS}?labelSelector=l%3D1")
        assert isinstance(found.body, bytes)
        assert found.body.count(b'"name":"m') == ITEMS_MIN // 2
        assert cluster.kernel.meters is not None
        families = cluster.kernel.meters.counters
        fetched, returned = (
            families[f"apiserver_storage_list_{what}_objects_total"][("configmaps",)]
            for what in ("fetched", "returned")
        )
        assert (fetched, returned) == (ITEMS_MIN, ITEMS_MIN // 2)
