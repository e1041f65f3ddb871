"""Rights of users of the control API on each route, other sites, and hostile bodies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from sim.app.steering import PREFIX
from sim.app.steering.routes import ROUTES
from tests.actor.steered import BINDING, USERS, Steered, steered

ENDLESS = "/changes"
OPERATORS: dict[str, Any] = {
    **BINDING,
    "metadata": {"name": "operators"},
    "roleRef": {**BINDING["roleRef"], "name": "orrery-operator"},
    "subjects": [{**BINDING["subjects"][0], "name": USERS["runs"].name}],
}
DEEP = 100_000
BODIES = {
    "megabytes": b'{"name": "' + b"x" * (4 << 20) + b'"}',
    "deep list": b"[" * DEEP + b"]" * DEEP,
    "deep object": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep parameter": b'{"mark": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}",
    "no JSON": b"\xff\xfe\x00",
    "half": b'{"name": "x',
    "number": b"1e999",
    "null": b"null",
    "list": b"[]",
    "text": b'"x"',
    "surrogate": b'{"name": "\\ud800"}',
    "NUL": b'{"name": "\\u0000"}',
    "numbers": b'{"name": 1, "pace": "x", "events": 1.5, "for": 7}',
    "long number": b'{"events": ' + b"9" * 5000 + b"}",
    "twice": b'{"name": "a", "name": {}}',
    "many keys": b"{" + b",".join(b'"k%d": 1' % number for number in range(20_000)) + b"}",
}


def stranger_of(at: Steered) -> httpx.AsyncClient:
    """A client without credentials."""
    return httpx.AsyncClient(base_url=at.clients["root"].base_url)


async def answered(
    stranger: httpx.AsyncClient, method: str, path: str, headers: Mapping[str, str]
) -> httpx.Response:
    """The answer to a request with these headers only."""
    return await stranger.request(method, PREFIX + path, headers=headers, content=b"{}", timeout=60)


def paths() -> list[tuple[str, str]]:
    return [(route.method, route.path.replace("{name}", "x")) for route in ROUTES]


@pytest.mark.slow
async def test_each_route_is_for_its_users_alone(tmp_path: Path) -> None:
    async with steered(tmp_path, nodes=1) as at, stranger_of(at) as stranger:
        at.cluster.apply(OPERATORS)
        await at.ask("POST", "/time/run", {"for": "5s"})
        strangers = (
            {},
            {"Authorization": "Bearer x"},
            {"Authorization": "Basic cm9vdDpyb290"},
            {"Cookie": "token=root; Authorization=Bearer root"},
        )
        for method, path in paths():
            for headers in strangers:
                answer = await answered(stranger, method, path, headers)
                assert answer.status_code in (401, 403), (method, path, headers)
                assert "set-cookie" not in answer.headers
            assert (
                await answered(stranger, method, path, {"Authorization": "Bearer none"})
            ).status_code == 403
            if method != "GET":
                seen = await answered(stranger, method, path, {"Authorization": "Bearer sees"})
                assert seen.status_code == 403, (method, path)
            if path != ENDLESS:
                run = await answered(stranger, method, path, {"Authorization": "Bearer runs"})
                assert run.status_code in (200, 400, 409, 422), (method, path)
        assert at.control.paused


@pytest.mark.slow
async def test_no_route_answers_pages_of_other_sites(tmp_path: Path) -> None:
    async with steered(tmp_path, nodes=1) as at, stranger_of(at) as stranger:
        host = at.clients["root"].base_url.netloc.decode()
        before = (await at.ask("GET", "/state")).json()
        origins = (
            "https://elsewhere.example",
            "null",
            f"http://{host}.elsewhere.example",
            f"http://user@{host}",
            "http://localhost",
            f"http://elsewhere.example/{host}",
        )
        for method, path in paths():
            for origin in origins:
                answer = await answered(
                    stranger, method, path, {"Authorization": "Bearer root", "Origin": origin}
                )
                assert answer.status_code == 403, (method, path, origin)
                assert "access-control-allow-origin" not in answer.headers
        state = (await at.ask("GET", "/state")).json()
        assert (state["virtual_us"], state["paused"]) == (before["virtual_us"], before["paused"])


@pytest.mark.slow
async def test_hostile_bodies_are_refused_without_an_effect(tmp_path: Path) -> None:
    async with steered(tmp_path, nodes=1) as at:
        await at.ask("POST", "/time/run", {"for": "5s"})
        before = (await at.ask("GET", "/state")).json()
        for route in ROUTES:
            if route.body is None:
                continue
            for what, body in BODIES.items():
                answer = await at.ask(route.method, route.path, body)
                assert 400 <= answer.status_code < 500, (route.path, what, answer.status_code)
                assert answer.json()["kind"] == "Status"
                assert len(answer.content) < 10_000, (route.path, what)
        after = (await at.ask("GET", "/state")).json()
        for same in ("virtual_us", "pace", "paused", "held_by", "trace_sha256", "expectations"):
            assert after[same] == before[same], same
