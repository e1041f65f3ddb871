"""The log of requests: its lines, its bound, and what it does not wait for."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sim.api.types import UserInfo
from sim.app.serving import request_log
from sim.app.serving.request_log import LINES_MAX, RequestLog
from sim.errors import InputError
from sim.units import Wall
from sim.wire.exchange import Exchange
from sim.wire.http.chain.request import HttpRequest

EPOCH_US = Wall(1_767_225_600_000_000)


def request(path: str = "/api/v1/nodes", agent: str = "kubectl/v1.25", user: str = "admin") -> HttpRequest:
    """A request that came 90 s after the beginning."""

    scope = {
        "method": "GET", "raw_path": path.encode(), "query_string": b"watch=1", "http_version": "1.1",
        "headers": [(b"User-Agent", agent.encode())], "scheme": "https",
    }  # fmt: skip
    scheme: Any = None
    made = HttpRequest(Exchange(scope), EPOCH_US + 90_000_000, None, scheme)
    if user:
        made.user = UserInfo(user)
    return made


def log_of(file: Path, form: str = "text") -> RequestLog:
    return RequestLog(str(file), form, EPOCH_US, lambda: Wall(EPOCH_US + 5_000_000))


async def written(log: RequestLog, file: Path) -> list[str]:
    """The lines of a log that ends."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await log.run()
    return (await trio.Path(file).read_text()).splitlines()


async def test_log_has_a_line_of_text_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "requests"
    log = log_of(file)
    log.note(request(), 200, 0.0012)
    log.note(request("/x\x1b[2J", 'a"\n\x1b', ""), 401, 1.5)
    start = "2026-01-01T00:00:05.000000Z 1m30.000s GET"
    assert await written(log, file) == [
        f'{start} /api/v1/nodes?watch=1 200 admin 1.200ms "kubectl/v1.25"',
        f'{start} /x\u241b[2J?watch=1 401 - 1500.000ms "a"\u240a\u241b"',
    ]
    assert file.stat().st_mode & 0o077 == 0


async def test_log_has_a_json_value_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "requests"
    log = log_of(file, "json")
    log.note(request(), 200, 0.0012)
    assert [json.loads(line) for line in await written(log, file)] == [
        {
            "time": "2026-01-01T00:00:05.000000Z", "virtual": "1m30.000s", "method": "GET",
            "path": "/api/v1/nodes?watch=1", "user": "admin", "code": 200, "ms": 1.2,
            "agent": "kubectl/v1.25",
        }
    ]  # fmt: skip


async def test_log_leaves_out_what_waits_beyond_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "requests"
    log = log_of(file, "json")
    for _ in range(LINES_MAX + 3):
        log.note(request(), 200, 0.0)
    lines = await written(log, file)
    assert len(lines) == LINES_MAX + 1
    assert json.loads(lines[-1]) == {"left_out": 3}


async def test_log_ends_with_a_note_where_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(request_log, "write_all", full)
    log = log_of(tmp_path / "requests")
    log.note(request(), 200, 0.0)
    await written(log, tmp_path / "requests")
    assert "the log of requests ends: No space left on device" in capsys.readouterr().err


def test_log_waits_for_no_writer_beyond_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(request_log, "write_all", lambda *_: release.wait())

    async def ends() -> bool:
        log = log_of(tmp_path / "requests")
        log.note(request(), 200, 0.0)
        await written(log, tmp_path / "requests")
        return True

    assert trio.run(ends, clock=MockClock(autojump_threshold=0.01))
    release.set()


def test_file_that_exists_is_kept(tmp_path: Path) -> None:
    (tmp_path / "requests").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        log_of(tmp_path / "requests")
    assert (tmp_path / "requests").read_text() == "mine"
