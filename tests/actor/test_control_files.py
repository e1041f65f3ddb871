"""What the control API hands out whole: the trace so far, and snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sim.kernel import read
from sim.kernel.trace import records
from tests.actor.steered import steered


async def test_trace_so_far_comes_in_parts_and_is_that_of_the_state(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(records, "PART", 1000)
    monkeypatch.setattr(records, "BATCH", 64)
    async with steered(tmp_path, nodes=1) as at:
        await at.ask("POST", "/time/run", {"for": "20s"})
        state = (await at.ask("GET", "/state")).json()
        answer = await at.ask("GET", "/trace")
    assert "content-length" not in answer.headers
    assert len(answer.content) > 10_000
    file = tmp_path / "copy.trace"
    file.write_bytes(answer.content)
    assert max(record.ident for record in read(file)) == state["records"]


async def test_snapshot_of_a_server_that_keeps_no_state_is_refused(tmp_path: Path) -> None:
    async with steered(tmp_path, nodes=1) as at:
        answer = await at.ask("POST", "/snapshots", {"name": "early"})
        status = answer.json()
        assert (answer.status_code, status["kind"], status["reason"]) == (409, "Status", "Conflict")
        assert "keeps no state" in status["message"]
        for body in ({}, {"name": ""}, {"name": 1}, {"name": "x" * 101}):
            assert (await at.ask("POST", "/snapshots", body)).status_code == 400
