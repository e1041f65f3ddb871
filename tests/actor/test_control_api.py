"""The control API over HTTP: time, faults, expectations and causes, and the rights of users."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec
import pytest
import trio
import yaml

from sim.app.control import changes as changes_module
from sim.app.run import Outside, run_plan
from sim.app.steering import PREFIX
from sim.app.steering.routes import ROUTES
from sim.kernel import DEFAULT_EPOCH_US
from sim.scenario.actions import KINDS
from sim.scenario.compile import load
from tests.actor.steered import BINDING, Steered, steered

POWER_LOSS = {"fail": {"nodes": {"name": "node-0"}, "how": "power-loss"}, "for": "10m"}
UNKNOWN = {"condition": "any nodes have Ready=Unknown"}


async def ok(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ready(at: Steered) -> None:
    """Run until the nodes are there."""
    assert (await ok(await at.ask("POST", "/time/run", {"for": "5s"})))["reached"]


async def test_fault_that_a_user_imposes_has_its_effect_and_its_cause(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        await ready(at)
        done = await ok(await at.ask("POST", "/steps", POWER_LOSS))
        assert done == {"name": "fail-1"}
        (fault,) = (await ok(await at.ask("GET", "/faults")))["items"]
        assert (fault["name"], fault["kind"]) == ("fail-1", "fail")
        ran = await ok(await at.ask("POST", "/time/run", UNKNOWN))
        assert ran["reached"]
        assert ran["paused"]
        assert 30e6 < ran["virtual_us"] - fault["since_us"] < 50e6
        story = await ok(await at.ask("GET", "/why?target=node/node-0"))
        assert "by admin" in story["chain"][0]["text"]
        assert "Unknown" in story["chain"][-1]["text"]
        await ok(await at.ask("DELETE", "/faults/fail-1"))
        assert (await ok(await at.ask("GET", "/faults")))["items"] == []
        again = await at.ask("DELETE", "/faults/fail-1")
        assert again.status_code == 422


@pytest.mark.slow
async def test_what_was_done_by_hand_is_a_scenario_with_the_same_trace(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        await ready(at)
        await ok(await at.ask("POST", "/steps", POWER_LOSS))
        await ok(
            await at.ask(
                "POST",
                "/expectations",
                {"name": "lost", "when": UNKNOWN["condition"], "within": ["30s", "50s"]},
            )
        )
        await ok(await at.ask("POST", "/time/run", UNKNOWN))
        await ok(await at.ask("POST", "/time/step", {"events": 7}))
        await ok(await at.ask("POST", "/steps", {"cordon": {"nodes": {"name": "node-1"}}}))
        await ok(await at.ask("POST", "/time/run", {"for": "20s"}))
        state = await ok(await at.ask("GET", "/state"))
        saved = (await at.ask("GET", "/scenario?name=mine")).text
        operations = at.cluster.kernel.gate.journal
        plan = at.session.plan()
    document = yaml.safe_load(saved)
    assert document["metadata"]["name"] == "mine"
    assert [step["by"] for step in document["spec"]["timeline"]] == ["admin", "admin"]
    # The cluster of this test has a binding besides, which is an object of the scenario then.
    document["spec"]["objects"] = [BINDING]
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(document))
    result = await run_plan(load(file))
    assert result.virtual_us == state["virtual_us"]
    assert [verdict.ok for verdict in result.verdicts] == [True]
    outside = Outside(DEFAULT_EPOCH_US, list(operations), "")  # type: ignore[call-overload]
    assert plan.cluster.served
    assert len(outside.operations) > 2


async def test_time_rests_continues_and_is_stepped(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        begun = await ok(await at.ask("GET", "/state"))
        assert begun["paused"]
        ran = await ok(await at.ask("POST", "/time/run", {"for": "90s"}))
        assert ran["virtual_us"] == 90_000_000
        stepped = await ok(await at.ask("POST", "/time/step", {"events": 3}))
        assert stepped["events"] == ran["events"] + 3
        until = await ok(await at.ask("POST", "/time/run", {"until": "2m"}))
        assert until["virtual_us"] == 120_000_000
        past = await at.ask("POST", "/time/run", {"until": "1m"})
        assert past.status_code == 422
        await ok(await at.ask("PUT", "/time/pace", {"pace": 60}))
        going = await ok(await at.ask("POST", "/time/resume"))
        assert (going["pace"], going["paused"]) == (60, False)
        rests = await ok(await at.ask("POST", "/time/pause"))
        assert rests["paused"]
        assert (await ok(await at.ask("GET", "/state")))["virtual_us"] == rests["virtual_us"]


async def test_condition_that_never_holds_ends_at_its_limit(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        wanted = {"condition": "any nodes have Ready=Unknown", "limit": "3m"}
        ran = await ok(await at.ask("POST", "/time/run", wanted))
        assert (ran["reached"], ran["virtual_us"]) == (False, 180_000_000)


async def test_condition_that_only_some_of_the_objects_meet_is_waited_for(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        await ready(at)
        lost = {"fail": {"nodes": {"name": "node-2"}, "how": "power-loss"}}
        await ok(await at.ask("POST", "/steps", lost))
        await ok(await at.ask("POST", "/time/run", UNKNOWN))
        wanted = {"condition": "all nodes are ready", "limit": "1m"}
        assert not (await ok(await at.ask("POST", "/time/run", wanted)))["reached"]


async def test_time_rests_while_a_client_holds_it(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        held = await ok(await at.ask("POST", "/time/hold", {"name": "operator"}))
        assert held["held_by"] == ["operator"]
        await ok(await at.ask("POST", "/time/resume"))
        before = (await ok(await at.ask("GET", "/state")))["virtual_us"]
        assert (await ok(await at.ask("GET", "/state")))["virtual_us"] == before
        released = await ok(await at.ask("POST", "/time/release", {"name": "operator"}))
        assert released["held_by"] == []
        assert (await at.ask("POST", "/time/release", {"name": "operator"})).status_code == 422
        await ok(await at.ask("POST", "/time/pause"))


async def test_expectation_is_judged_while_time_passes(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        await ready(at)
        entries = [
            {"name": "lost", "when": "any nodes have Ready=Unknown", "within": ["30s", "50s"]},
            {"name": "never", "never": "any nodes have Ready=Unknown"},
        ]
        for entry in entries:
            assert await ok(await at.ask("POST", "/expectations", entry)) == {"name": entry["name"]}
        states = [one["state"] for one in (await ok(await at.ask("GET", "/expectations")))["items"]]
        assert states == ["waits", "waits"]
        await ok(await at.ask("POST", "/steps", POWER_LOSS))
        await ok(await at.ask("POST", "/time/run", {"for": "10s"}))
        states = [one["state"] for one in (await ok(await at.ask("GET", "/expectations")))["items"]]
        assert states == ["open", "holds"]
        await ok(await at.ask("POST", "/time/run", UNKNOWN))
        states = [one["state"] for one in (await ok(await at.ask("GET", "/expectations")))["items"]]
        assert states == ["holds", "failed"]
        again = await at.ask("POST", "/expectations", entries[0])
        assert again.status_code == 422


BAD = (
    ("POST", "/steps", {}, 422, "exactly one action"),
    ("POST", "/steps", {"fial": {}}, 422, "fail"),
    ("POST", "/steps", {"fail": {"nodes": {"name": "node-9"}, "how": "power-loss"}}, 422, "nodes.name: "),
    ("POST", "/steps", {"fail": {"nodes": {"name": "node-0"}, "how": "magic"}}, 422, "fail.how: "),
    ("POST", "/steps", {"at": "5m", "mark": {}}, 422, "'at'"),
    ("POST", "/steps", {"by": "somebody", "mark": {}}, 422, "'by'"),
    ("POST", "/steps", {"heal": {"step": "nothing"}}, 422, "nothing"),
    ("POST", "/steps", {"name": "a/b", "mark": {}}, 422, "name"),
    ("POST", "/steps", b"{", 400, "body"),
    ("POST", "/steps", b"[1]", 400, "body"),
    ("PUT", "/time/pace", {"pace": 0}, 422, "pace"),
    ("PUT", "/time/pace", {"pace": -1}, 422, "pace"),
    ("PUT", "/time/pace", {"pace": "fast"}, 400, "body"),
    ("POST", "/time/run", {}, 422, "exactly one"),
    ("POST", "/time/run", {"for": "soon"}, 422, "duration"),
    ("POST", "/time/run", {"condition": "cows fly"}, 422, "cows"),
    ("POST", "/time/run", {"until": "5m", "what": 1}, 400, "what"),
    ("POST", "/time/step", {"events": 0}, 422, "0"),
    ("POST", "/time/step", {"events": "all"}, 400, "body"),
    ("POST", "/expectations", {"never": "cows fly"}, 422, "cows"),
    ("POST", "/expectations", {"bogus": 1}, 422, "bogus"),
    ("GET", "/why", None, 422, "target"),
    ("GET", "/why?target=pod/nobody", None, 422, "nobody"),
    ("GET", "/history?from=x", None, 422, "duration"),
    ("GET", "/nothing", None, 404, "nothing"),
    ("DELETE", "/state", None, 405, "GET"),
)


async def test_bad_requests_are_refused_with_their_reason_and_have_no_effect(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        await ready(at)
        before = await ok(await at.ask("GET", "/state"))
        for method, path, body, code, said in BAD:
            answer = await at.ask(method, path, body)
            status = answer.json()
            assert (answer.status_code, status["kind"]) == (code, "Status"), (path, body, answer.text)
            assert said in status["message"], (path, body)
        after = await ok(await at.ask("GET", "/state"))
        assert after["trace_sha256"] == before["trace_sha256"]
        assert after["expectations"] == []


async def test_only_operators_steer_and_only_viewers_look(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        await ready(at)
        for route in ROUTES:
            if route.path == "/changes":
                continue
            path = route.path.replace("{name}", "x")
            codes = {
                token: (await at.ask(route.method, path, {} if route.body else None, token=token)).status_code
                for token in ("sees", "none")
            }
            assert codes["none"] == 403, route
            assert (codes["sees"] == 403) == (route.method != "GET"), route
        async with httpx.AsyncClient(base_url=at.clients["root"].base_url) as anonymous:
            assert (await anonymous.get(f"{PREFIX}/state")).status_code == 403


async def test_requests_of_other_sites_are_refused(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        client = at.clients["root"]
        for origin, code in (("https://elsewhere.example", 403), (str(client.base_url).rstrip("/"), 200)):
            answer = await client.post(f"{PREFIX}/time/pause", json={}, headers={"Origin": origin})
            assert answer.status_code == code


@asynccontextmanager
async def messages_of(client: httpx.AsyncClient) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """The messages of changes for one viewer, one after the other."""
    port, credentials = client.base_url.port, client.headers["Authorization"]
    assert port is not None
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        head = f"GET {PREFIX}/changes HTTP/1.1\r\nHost: x\r\nAuthorization: {credentials}\r\n\r\n"
        await stream.send_all(head.encode())
        rest = b""

        async def following() -> Any:
            nonlocal rest
            while b"data: " not in rest or b"\n\n" not in rest.partition(b"data: ")[2]:
                rest += await stream.receive_some()
            message, _, rest = rest.partition(b"data: ")[2].partition(b"\n\n")
            return json.loads(message)

        yield following


async def test_viewer_gets_a_snapshot_and_then_what_changes(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        await ready(at)
        async with messages_of(at.clients["sees"]) as following:
            first = await following()
            assert first["reset"]
            states = {row[2]: row[4] for row in first["rows"] if row[0] == "node"}
            assert states == {"node-0": "ready", "node-1": "ready", "node-2": "ready"}
            await ok(await at.ask("POST", "/steps", {"cordon": {"nodes": {"name": "node-1"}}}))
            await ok(await at.ask("POST", "/time/run", {"for": "1s"}))
            rows: list[Any] = []
            with trio.fail_after(30):
                while not any(row[0] == "node" for row in rows):
                    rows += (await following())["rows"]
            assert [row[2:] for row in rows if row[0] == "node"] == [["node-1", "", "cordoned"]]
            assert [row[2:] for row in rows if row[0] == "step"] == [["cordon-1", "cordon", "begin"]]


async def test_viewer_that_is_far_behind_gets_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "BEHIND_MAX", 0)
    async with steered(tmp_path) as at:
        await ready(at)
        async with messages_of(at.clients["sees"]) as following:
            await following()
            await ok(await at.ask("POST", "/steps", {"cordon": {"nodes": {"name": "node-1"}}}))
            await ok(await at.ask("POST", "/time/run", {"for": "1s"}))
            with trio.fail_after(30):
                while not (found := await following()).get("reset"):
                    pass
            assert len([row for row in found["rows"] if row[0] == "node"]) == 3


async def test_history_has_the_rows_of_a_time(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        await ready(at)
        await ok(await at.ask("POST", "/steps", POWER_LOSS))
        await ok(await at.ask("POST", "/time/run", UNKNOWN))
        rows = (await ok(await at.ask("GET", "/history?from=30s")))["rows"]
        assert [row[2:] for row in rows if row[0] == "node"] == [["node-0", "", "unknown"]]


async def test_document_describes_each_route(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        document = await ok(await at.ask("GET", "/openapi"))
        described = {(path, method) for path, methods in document["paths"].items() for method in methods}
        assert described == {(PREFIX + route.path, route.method.lower()) for route in ROUTES}
        body = document["paths"][f"{PREFIX}/time/run"]["post"]["requestBody"]
        assert "condition" in body["content"]["application/json"]["schema"]["properties"]


async def test_page_logs_in_once_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    async with (
        steered(tmp_path) as at,
        httpx.AsyncClient(base_url=at.clients["root"].base_url) as browser,
    ):
        page = await browser.get("/", headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "://" not in page.text
        for name in ("app.js", "page.css"):
            assert (await browser.get(f"/orrery/page/{name}")).status_code == 200
        for name in ("nothing.js", "../__init__.py", "%2e%2e/__init__.py"):
            assert (await browser.get(f"/orrery/page/{name}")).status_code in (403, 404)
        first = await browser.post("/orrery/login", json={"code": at.code})
        assert first.json()["token"]
        for code in (at.code, "", "x"):
            assert (await browser.post("/orrery/login", json={"code": code})).status_code == 401
        assert (await browser.post("/orrery/login", content=b"[")).status_code == 401
        assert (await browser.get("/")).status_code == 403  # of a client that is no browser


WORDS = (
    "",
    "x",
    "node-0",
    "5m",
    "-1s",
    "1e999",
    "/",
    "a/b",
    "\x00",
    "<script>",
    "é" * 50,
    "all nodes are ready",
)


def drawn_value(random: Random, depth: int = 0) -> Any:
    """A value of JSON of any kind."""
    kind = random.randrange(8 if depth < 3 else 5)
    if kind < 2:
        return random.choice(WORDS)
    if kind < 5:
        return random.choice((0, -1, 2**63, 1.5, True, None, 10**30))
    if kind == 5:
        return [drawn_value(random, depth + 1) for _ in range(random.randrange(3))]
    keys = [
        *WORDS,
        *KINDS,
        "name",
        "for",
        "how",
        "nodes",
        "step",
        "actor",
        "when",
        "within",
        "never",
        "after",
    ]
    return {random.choice(keys): drawn_value(random, depth + 1) for _ in range(random.randrange(4))}


def drawn_step(random: Random) -> Any:
    """A step of a known kind with parameters of any kind."""
    kind = random.choice([*KINDS.values()])
    names = [field.encode_name for field in msgspec.structs.fields(kind.parameters)]
    return {kind.name: {name: drawn_value(random) for name in names if random.random() < 0.7}}


@pytest.mark.slow
async def test_random_requests_meet_no_error_of_the_server(tmp_path: Path) -> None:
    random = Random(11)
    paths = [route for route in ROUTES if route.path not in ("/changes", "/time/run", "/time/resume")]
    async with steered(tmp_path, nodes=1) as at:
        await ready(at)
        for _ in range(400):
            route = random.choice(paths)
            path = route.path.replace("{name}", random.choice(["x", "fail-1", "%00", "a%2Fb"]))
            body = drawn_step(random) if route.path == "/steps" else drawn_value(random)
            query = f"?{random.choice(['target', 'from', 'name'])}={random.choice(['pod/*', '5m', '%ff'])}"
            answer = await at.ask(route.method, path + query, body)
            assert answer.status_code < 500, (route, body, answer.text)
