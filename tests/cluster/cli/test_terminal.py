"""The live view of `serve` and `run` in a terminal: its keys, its end, and nothing in a pipe."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sim.app.cli.main import main
from tests.cluster.cli.terminals import BEHIND, terminal

SCENARIO = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: tiny}
spec:
  duration: 4h
  cluster: {nodes: [{count: 3}]}
  timeline: [{at: 1m, name: outage, fail: {nodes: {name: node-0}, how: power-loss}, for: 2m}]
  expect: [{name: noticed, when: any nodes have Ready=Unknown, after: outage, within: [10s, 60s]}]
"""
SERVE = ("serve", "--port", "0", "--nodes", "2", "--pace", "0")


@pytest.mark.slow
def test_serve_in_a_terminal_is_steered_by_keys(tmp_path: Path) -> None:
    with terminal(tmp_path, *SERVE) as shown:
        before = shown.modes()
        shown.until("served  .*  paused")
        shown.press(".")
        shown.until(r"events +\d|nodes ready \d/2")
        shown.press(" ")
        shown.until(r"pace 1\s")
        shown.press("+++++")
        shown.until(r"pace 32\s")
        shown.press("-")
        shown.until(r"pace 16\s")
        shown.press("+++++++")
        shown.until("nodes ready 2/2")
        shown.until(r"as fast as possible \([\d,]+x\)")
        shown.press(" ")
        shown.until("  paused")
        assert shown.modes() != before
        shown.press("q")
        assert shown.ended() == 0
        assert shown.modes() == before


@pytest.mark.slow
def test_terminal_is_restored_after_signals_and_shows_verdicts(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    with terminal(tmp_path, "serve", "tiny.yaml", "--port", "0", "--pace", "max") as shown:
        before = shown.modes()
        shown.until("1 holds")
        shown.command.send_signal(signal.SIGTERM)
        shown.until("noticed +[0-9.]+s")
        assert shown.ended() == 0
        assert shown.modes() == before
        assert shown.raw.rindex("\x1b[?25h") > shown.raw.rindex("\x1b[?25l")


@pytest.mark.slow
def test_narrow_terminal_shows_one_line(tmp_path: Path) -> None:
    with terminal(tmp_path, *SERVE, columns=60) as shown:
        shown.until(r"0s  paused  nodes 0/0  pods 0/0")
        shown.press("q")
        assert shown.ended() == 0
        assert "space pauses" not in shown.raw


@pytest.mark.slow
def test_run_that_is_paused_has_the_hash_of_one_that_is_not(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    words = ("run", "tiny.yaml", "--no-report")
    command = [sys.executable, "-m", "sim.app.cli.main", *words, "--json"]
    piped = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    sha256 = json.loads(piped.stdout)["trace_sha256"]
    assert piped.stderr == ""
    with terminal(tmp_path, *words) as shown:
        before = shown.modes()
        shown.until("of 4h")
        shown.press(" ")
        shown.until("  paused")
        shown.press(".....-")
        shown.press(" ")
        shown.until(r"pace 1024\s")
        shown.press("+")
        shown.until(f"trace sha256 {sha256}")
        assert shown.ended() == 0
        assert shown.modes() == before


@pytest.mark.slow
def test_run_is_ended_by_q_as_by_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(SCENARIO.replace("4h", "2000h"))
    for key in ("q", "\x03"):
        with terminal(tmp_path, "run", "tiny.yaml", "--no-report") as shown:
            before = shown.modes()
            shown.until("of 2000h")
            shown.press(key)
            shown.until("orrery: interrupted")
            assert shown.ended() == 130
            assert shown.modes() == before


@pytest.mark.slow
def test_requests_are_lines_of_the_output_in_place_of_the_view(tmp_path: Path) -> None:
    words = (*SERVE, "--log", "-", "--log-format", "json", "--client-config", "config")
    with terminal(tmp_path, *words, columns=400) as shown:
        shown.until("live page")
        assert main(["ctl", "state", "--client-config", str(tmp_path / "config")]) == 0
        line = shown.until(r'\{"time": .*/orrery/v1/state.*\}').group()
        found = json.loads(line)
        assert (found["method"], found["path"], found["user"]) == ("GET", "/orrery/v1/state", "admin")
        assert (found["code"], found["virtual"]) == (200, "0m00.000s")
        shown.command.send_signal(signal.SIGINT)
        assert shown.ended() == 0
        assert "space pauses" not in shown.raw


@pytest.mark.slow
def test_job_in_the_background_leaves_the_terminal_alone(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    with terminal(tmp_path, "run", "tiny.yaml", "--no-report", program=BEHIND) as shown:
        before = shown.modes()
        shown.until("trace sha256")
        assert shown.ended() == 0
        assert shown.modes() == before
        assert "space pauses" not in shown.raw
