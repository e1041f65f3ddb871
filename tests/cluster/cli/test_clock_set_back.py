"""A data directory after the machine's clock was set back: virtual time continues where it was."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sim.app.cli.main import main

# The program with a clock that is some seconds behind, in virtual time and in certificates.
PROGRAM = """
import datetime, sys, time
back_s = int(sys.argv.pop(1))
now_ns, now = time.time_ns, datetime.datetime.now
time.time_ns = lambda: now_ns() - back_s * 1_000_000_000
class Behind:
    @staticmethod
    def now(zone):
        return now(zone) - datetime.timedelta(seconds=back_s)
from sim.wire import authority
authority.datetime = Behind
from sim.app.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
MONTH_S = 30 * 24 * 3600
START_S = 60.0


@contextmanager
def served(folder: Path, back_s: int) -> Iterator[None]:
    """A server that is killed in the end, with a clock that is behind."""
    config = folder / "config"
    config.unlink(missing_ok=True)
    words = ["serve", "--port", "0", "--pace", "0", "--client-config", str(config)]
    words += ["--data-dir", str(folder / "data"), *(() if back_s else ("--nodes", "2"))]
    command = [sys.executable, "-c", PROGRAM, str(back_s), *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            end_s = time.monotonic() + START_S
            while not config.exists():
                assert server.poll() is None and time.monotonic() < end_s
                time.sleep(0.05)  # until another process has made a file
            yield
        finally:
            server.kill()
            server.communicate()


@pytest.mark.slow
def test_virtual_time_continues_after_the_clock_of_the_machine_was_set_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ctl(*words: str) -> Any:
        assert main(["ctl", *words, "--json", "--client-config", str(tmp_path / "config")]) == 0
        return json.loads(capsys.readouterr().out)

    with served(tmp_path, 0):
        ctl("fail", "--nodes", "name=node-0", "--how", "power-loss", "--for", "5m")
        ctl("run", "90s")
        before = ctl("state")
    with served(tmp_path, MONTH_S):
        after = ctl("state")
        kept = ("virtual_us", "wall_us", "records", "trace_sha256", "faults", "nodes", "ready")
        assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
        ctl("run", "5m")  # in which the fault ends as it was planned
        healed = ctl("state")
        assert (healed["virtual_us"], healed["faults"]) == (before["virtual_us"] + 300_000_000, [])
        assert healed["wall_us"] == before["wall_us"] + 300_000_000
        assert healed["ready"] == 2
    assert main(["replay", str(tmp_path / "data" / "journal"), "--no-report", "--quiet"]) == 0
