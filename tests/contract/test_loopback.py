"""Runs with messages that cross sockets have the trace of runs over channels."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.api.store import Item
from sim.api.types import Reply, Request, UserInfo, WatchEvent
from sim.app.cli.main import main
from sim.app.run import run_plan
from sim.scenario.compile import load
from sim.units import Revision
from sim.wire import loopback
from sim.wire.loopback import Loopback

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("leader-failover", 5000), ("drain-blocked", 10_000)])
async def test_a_run_over_sockets_has_the_same_trace(
    name: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, crossed, carry = load(SCENARIOS / f"{name}.yaml"), 0, loopback._Wire.carry

    def counted(wire: loopback._Wire, bodies: list[bytes]) -> list[bytes]:
        nonlocal crossed
        crossed += len(bodies)
        return carry(wire, bodies)

    monkeypatch.setattr(loopback._Wire, "carry", counted)
    expected = await run_plan(plan, picture=False)
    assert crossed == 0
    found = await run_plan(plan, picture=False, sockets=True)
    assert found.trace_sha256 == expected.trace_sha256
    assert crossed > least


def test_messages_arrive_equal_and_are_others() -> None:
    wire = Loopback()
    try:
        body = {"metadata": {"name": "a"}, "data": {"text": "x" * (3 << 20)}}
        request = Request(verb="create", resource="configmaps", body=body, user=UserInfo("me"), cause=7)
        got = wire.request("server", request)
        assert (got, got.cause) == (request, 7)
        assert got.body is not body
        items = [Item(f"//configmaps/a/{number}", body, Revision(2), Revision(1)) for number in range(6)]
        reply = wire.reply("server", Reply(200, items=items, revision=Revision(9)))
        assert reply.items is not None
        assert [(each.key, each.obj) for each in reply.items] == [(each.key, each.obj) for each in items]
        assert reply.items[0].obj is not body
        (event,) = wire.events("server", [WatchEvent("ADDED", items[0], Revision(2), cause=3)])
        assert (event.type, event.revision, event.cause) == ("ADDED", 2, 3)
        assert wire.events("server", []) == []
    finally:
        wire.close()


def test_many_seeds_refuse_sockets(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", str(SCENARIOS / "leader-failover.yaml"), "--seeds", "2", "--transport", "sockets"]
    assert main(words) == 2
    assert "--transport: applies to a single run only" in capsys.readouterr().err
