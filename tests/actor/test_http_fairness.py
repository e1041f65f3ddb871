"""Priority and fairness as clients see it: headers, debugging pages and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import trio

from sim.api.types import Reply, Request, UserInfo
from sim.app.cluster import Cluster
from sim.app.serving.front import make_front
from sim.app.serving.identities import Files
from sim.ident import NAMES
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from sim.wire.http.app import Application
from sim.wire.http.fronts.server import serve
from tests.actor.test_http import signing_key

N = NAMES["kubernetes"]
MEMBER = (N.group_authenticated,)
TOKENS = {"root": UserInfo("admin", (N.group_masters,)), "ann": UserInfo("ann")}
SCHEMA, LEVEL = "X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID"
DEBUG = "/debug/api_priority_and_fairness"
SEATS = 49  # of global-default


@asynccontextmanager
async def served(**flags: Any) -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    plan = ClusterPlan(naming="kubernetes", nodes=(), api_server=ComponentPlan(flags=flags))
    async with Cluster(plan) as cluster, trio.open_nursery() as nursery:
        cluster.kernel.set_rate(0)
        files = Files.read(cluster.options.authentication, signing_key())
        port = await nursery.start(
            serve,
            Application(make_front(cluster, TOKENS, "127.0.0.1", files).answer),
            "127.0.0.1",
            0,
            None,
            None,
        )
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            yield cluster, client
        nursery.cancel_scope.cancel()


def by(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


@pytest.mark.parametrize(
    ("user", "path", "schema", "level"),
    [
        ("root", "/api/v1/nodes", "exempt", "exempt"),
        ("ann", "/api/v1/nodes", "global-default", "global-default"),
        ("ann", "/api/v1/nodes/none", "global-default", "global-default"),
        ("ann", "/healthz", "probes", "exempt"),
        ("ann", "/version", "global-default", "global-default"),
    ],
)
async def test_answer_names_the_objects_that_classified_the_request(
    user: str, path: str, schema: str, level: str
) -> None:
    async with served() as (cluster, client):
        answer = await client.get(path, headers=by(user))
        kinds = ("flowschemas", "prioritylevelconfigurations")
        uids = [
            cluster.request("get", kind, "", name).obj["metadata"]["uid"]
            for kind, name in zip(kinds, (schema, level), strict=True)
        ]
        assert [answer.headers[SCHEMA], answer.headers[LEVEL]] == uids


async def test_impersonated_user_is_the_one_that_is_classified() -> None:
    async with served() as (_, client):
        own = await client.get("/api/v1/nodes", headers=by("root"))
        other = await client.get("/api/v1/nodes", headers={**by("root"), "Impersonate-User": "bob"})
        plain = await client.get("/api/v1/nodes", headers=by("ann"))
        assert own.headers[SCHEMA] != other.headers[SCHEMA] == plain.headers[SCHEMA]


async def test_request_without_valid_credentials_is_not_classified() -> None:
    async with served() as (_, client):
        answer = await client.get("/api/v1/nodes", headers=by("wrong"))
        assert answer.status_code == 401
        assert SCHEMA not in answer.headers


async def test_without_priority_and_fairness_there_are_no_headers_and_pages() -> None:
    async with served(**{"enable-priority-and-fairness": False}) as (_, client):
        assert SCHEMA not in (await client.get("/api/v1/nodes", headers=by("root"))).headers
        assert (await client.get(f"{DEBUG}/dump_queues", headers=by("root"))).status_code == 404
        assert "apiserver_flowcontrol" not in (await client.get("/metrics", headers=by("root"))).text


def load(cluster: Cluster, count: int) -> list[Reply]:
    """Requests that take seats, while virtual time does not advance."""
    server = cluster.api_servers["apiserver-0"]
    server.overload(60 * SECOND, None)
    replies: list[Reply] = []
    for _ in range(count):
        user = UserInfo("ann", MEMBER)
        request = Request(verb="get", resource="pods", namespace="a", name="p", user=user)
        server.handle(request, replies.append)
    return replies


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines()[1:]]


async def test_pages_show_levels_queues_and_waiting_requests() -> None:
    async with served() as (cluster, client):
        load(cluster, SEATS + 2)
        page = await client.get(f"{DEBUG}/dump_priority_levels", headers=by("root"))
        assert page.headers["content-type"] == "text/plain; charset=utf-8"
        levels = {row[0]: row[1:] for row in rows(page.text)}
        assert levels["global-default"] == ["2", "false", "false", "2", str(SEATS)]
        assert levels["workload-low"] == ["0", "true", "false", "0", "0"]
        assert levels["exempt"] == ["<none>"] * 5
        queues = rows((await client.get(f"{DEBUG}/dump_queues", headers=by("root"))).text)
        own = [row for row in queues if row[0] == "global-default"]
        assert len(own) == 128
        assert sum(int(row[2]) for row in own) == 2
        assert sum(int(row[4]) for row in own) == SEATS
        waiting = rows((await client.get(f"{DEBUG}/dump_requests", headers=by("root"))).text)
        assert [(row[0], row[1], row[4]) for row in waiting] == [
            ("global-default", "global-default", "ann")
        ] * 2
        url = f"{DEBUG}/dump_requests?includeRequestDetails=1"
        waiting = rows((await client.get(url, headers=by("root"))).text)
        assert waiting[0][9:12] == ["ann", "get", "/api/v1/namespaces/a/pods/p"]
        assert (await client.get(f"{DEBUG}/dump", headers=by("root"))).status_code == 404


async def test_metrics_count_seats_and_waiting_requests() -> None:
    async with served() as (cluster, client):
        replies = load(cluster, SEATS + 2)
        text = (await client.get("/metrics", headers=by("root"))).text
        flow = '{flow_schema="global-default",priority_level="global-default"}'
        prefix = "apiserver_flowcontrol_"
        for line in (
            f"{prefix}current_executing_requests{flow} {SEATS}",
            f"{prefix}current_inqueue_requests{flow} 2",
            f"{prefix}dispatched_requests_total{flow} {SEATS}",
            f"{prefix}request_concurrency_in_use{flow} {SEATS}",
            f'{prefix}request_concurrency_limit{{priority_level="global-default"}} {SEATS}',
        ):
            assert line in text.replace(
                '{priority_level="global-default",flow_schema="global-default"}', flow
            )
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_for("20s")
        assert [reply.code for reply in replies] == [429, 429]
        text = (await client.get("/metrics", headers=by("root"))).text
        labels = 'priority_level="global-default",flow_schema="global-default"'
        assert f'{prefix}rejected_requests_total{{{labels},reason="time-out"}} 2' in text.replace(
            'flow_schema="global-default",priority_level="global-default"', labels
        )
        waits = f"{prefix}request_wait_duration_seconds"
        assert f"{waits}_count" in text
        sums = [
            line
            for line in text.splitlines()
            if line.startswith(f"{waits}_sum") and 'execute="false"' in line
        ]
        assert [line.split()[-1] for line in sums] == ["30"]
