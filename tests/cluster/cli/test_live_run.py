"""`orrery run --live`: a run with a page has the trace of one without, unless a user steers it."""

from __future__ import annotations

import json
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sim.app.cli.main import main
from sim.app.inspect.traces import records
from tests.cluster.cli.terminals import terminal

SCENARIO = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: tiny}
spec:
  duration: 10m
  cluster: {nodes: [{count: 3}], naming: kubernetes}
  objects:
    - {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: nginx}]}}
  timeline: [{at: 1m, name: outage, fail: {nodes: {name: node-0}, how: power-loss}, for: 2m}]
  expect: [{name: noticed, when: any nodes have Ready=Unknown, after: outage, within: [10s, 60s]}]
"""
RUN = [sys.executable, "-m", "sim.app.cli.main", "run", "tiny.yaml", "--json"]
LIMIT_S = 60.0


def plain(folder: Path, *words: str) -> Any:
    """What a run without a page prints."""
    done = subprocess.run([*RUN, *words], cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


class Live:
    """A run with a page, in a process of its own."""

    def __init__(self, command: subprocess.Popen[str], config: Path) -> None:
        self.command, self._config = command, config
        self.said = ""
        self.printed: Any = None

    def until(self, text: str) -> str:
        """Read its notes up to a line with a text; that line."""
        assert self.command.stderr is not None
        for line in self.command.stderr:
            self.said += line
            if text in line:
                return line
        raise AssertionError(self.said)

    def ctl(self, *words: str) -> int:
        """The exit status of a command that steers it."""
        return main(["ctl", *words, "--client-config", str(self._config)])


@contextmanager
def live(folder: Path, *words: str) -> Iterator[Live]:
    """A run with a page that is ended by Ctrl-C."""
    config = folder / "config"
    command = [*RUN, "--live", "--client-config", str(config), *words]
    with subprocess.Popen(
        command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield (run := Live(process, config))
            process.send_signal(signal.SIGINT)
            run.printed = json.loads(process.communicate(timeout=LIMIT_S)[0])
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    return tmp_path


@pytest.mark.slow
def test_run_that_is_watched_on_its_page_has_the_hash_of_one_without(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = plain(folder)
    with live(folder) as run:
        link = run.until("for one login").split()[-1]
        page, code = link.split("/#code=")
        unchecked = ssl._create_unverified_context()
        asked = urllib.request.Request(f"{page}/orrery/login", json.dumps({"code": code}).encode())
        with urllib.request.urlopen(asked, context=unchecked) as answer:
            token = json.load(answer)["token"]
        asked = urllib.request.Request(
            f"{page}/orrery/v1/state", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(asked, context=unchecked) as answer:
            state = json.load(answer)
        assert (state["paused"], state["end_us"], state["virtual_us"]) == (True, 600_000_000, 0)
        until = time.monotonic() + LIMIT_S
        while not (folder / "config").exists():
            assert time.monotonic() < until
        assert run.ctl("run", "2m") == 0
        assert run.ctl("pace", "max") == 0
        assert run.ctl("resume") == 0
        run.until("the run has ended")
        assert run.ctl("expectations") == 0
        assert "holds   noticed" in capsys.readouterr().out
        assert run.ctl("mark", "--step-name", "late") == 2
        assert "the run has ended" in capsys.readouterr().err
        assert run.command.poll() is None
    assert run.command.returncode == 0
    assert run.printed["trace_sha256"] == expected["trace_sha256"]
    assert [one["ok"] for one in run.printed["expectations"]] == [True]
    assert run.printed["expectations"] == expected["expectations"]


@pytest.mark.slow
def test_steps_of_users_are_in_the_trace_and_in_the_saved_scenario(folder: Path) -> None:
    with live(folder, "--trace", "steered.trace") as run:
        run.until("time rests")
        assert run.ctl("run", "5m") == 0
        assert run.ctl("fail", "--nodes", "name=node-1", "--how", "power-loss", "--for", "1m") == 0
        assert run.ctl("save", str(folder / "saved.yaml")) == 0
        assert run.ctl("pace", "max") == 0
        assert run.ctl("resume") == 0
        run.until("the run has ended")
    steps = [record.values for record in records(folder / "steered.trace") if record.kind == "step"]
    assert [one["detail"].get("by") for one in steps] == [None, "admin"]
    (folder / "tiny.yaml").write_text((folder / "saved.yaml").read_text())
    assert plain(folder)["trace_sha256"] == run.printed["trace_sha256"]


@pytest.mark.slow
def test_options_of_the_page_are_refused_without_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(folder / "tiny.yaml"), "--pace", "60"]) == 2
    assert "--pace: is of the page of a run (add --live)" in capsys.readouterr().err
    assert main(["run", str(folder / "tiny.yaml"), "--seeds", "3", "--live"]) == 2
    assert "--live" in capsys.readouterr().err


@pytest.mark.slow
def test_live_run_in_a_terminal_is_shown_and_steered_there(folder: Path) -> None:
    with terminal(folder, "run", "tiny.yaml", "--live", "--no-report") as shown:
        shown.until("live page, for one login: https://")
        shown.until("of 10m0s  paused")
        shown.press(" ")
        shown.until(r"pace 1\s")
        shown.press("+" * 11)
        shown.until("the run has ended")
        shown.press("\x03")
        assert re.search("sha256", shown.until("trace sha256 [0-9a-f]+").group())
        assert shown.ended() == 0
