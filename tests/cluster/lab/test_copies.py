"""Copies of a lab in processes of their own, and labs as they were at an instant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orrery import InputError, Lab
from sim.app.lab import copied
from sim.app.lab.copied import CopiedPortal
from sim.app.lab.portal import Portal
from sim.app.travel import FORKS
from sim.client import Client

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not FORKS, reason="no process can be forked")]


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(nodes=3, seed=1, checkpoints="1m") as found:
        yield found


def storm(lab: Lab) -> str:
    lab.fail(nodes={"name": "node-1"}, how="power-loss", for_="1m")
    lab.run("90s")
    return lab.trace_sha256


def test_fork_is_another_process_with_the_run_of_a_repetition(lab: Lab, tmp_path: Path) -> None:
    lab.run("70s")
    repeated = lab._repeated(lab._journal)
    with lab.fork() as first, first.fork() as second:
        assert [type(one._portal) for one in (repeated, first, second)] == [
            Portal,
            CopiedPortal,
            CopiedPortal,
        ]
        assert storm(first) == storm(second) == storm(repeated) != lab.trace_sha256
        for number, one in enumerate((first, repeated)):
            one.save_trace(tmp_path / f"{number}.trace")
        first.save_trace(tmp_path / "again.trace")
        assert (tmp_path / "0.trace").read_bytes() == (tmp_path / "1.trace").read_bytes()
        assert str(first.why("node/node-1")) == str(repeated.why("node/node-1"))
        assert first.nodes().to_dicts() == repeated.nodes().to_dicts()
        assert (first.timeline().chart.spec, repr(first.widget())) == (
            repeated.timeline().chart.spec,
            repr(repeated.widget()),
        )
    repeated.close()
    assert lab.now_s == 70


def test_copy_raises_what_its_calls_raise_and_continues(lab: Lab) -> None:
    with lab.fork() as twin:
        with pytest.raises(InputError, match="there is no node 'node-9'"):
            twin.fail(nodes={"name": "node-9"}, how="power-loss")
        assert twin.run("10s").ready == 3


@pytest.mark.parametrize("order", [1, -1])
def test_processes_and_folders_end_in_any_order_of_closing(lab: Lab, order: int) -> None:
    lab.run("70s")
    twins = [lab.fork(), lab.fork()]
    folders = [twin._portal.call(lambda session: session.folder) for twin in twins]
    pids = [twin._portal._pid for twin in twins]  # type: ignore[union-attr]
    assert len({*folders, lab._portal.call(lambda session: session.folder)}) == 3
    for twin in twins[::order]:
        twin.close()
    assert not any(folder.exists() for folder in folders)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_copy_that_is_killed_says_so(lab: Lab) -> None:
    twin = lab.fork()
    os.kill(twin._portal._pid, signal.SIGKILL)  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="the process of the lab has ended"):
        twin.run("1m")
    assert repr(twin) == "<a closed lab, seed 1>"


INTERRUPTED = """
import os, signal, threading
from sim import Lab

with Lab(nodes=3, seed=1) as lab, lab.fork() as twin:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        twin.run("10000h")
    except KeyboardInterrupt:
        before_s = twin.now_s
        twin.run("1s")
        print(0 < before_s < 36_000_000, round(twin.now_s - before_s, 3))
"""


def test_interrupt_of_a_call_leaves_the_copy_at_an_instant() -> None:
    # In a process of its own: a runner of tests has threads and handlers of signals.
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "True 1.0\n", done.stderr


async def _quiet(client: Client) -> None:
    await client.ctx.sleep_us(1_000_000_000)


def test_program_of_the_user_brings_a_copy_into_this_process(lab: Lab) -> None:
    lab.run("10s")
    with lab.fork() as twin:
        twin.add_program("quiet", _quiet)
        assert isinstance(twin._portal, Portal)
        twin.run("10s")
        with twin.fork() as third:  # it repeats the program
            assert third.trace_sha256 == twin.trace_sha256
            assert isinstance(third._portal, Portal)


def test_lab_as_it_was_is_that_of_the_instant(lab: Lab) -> None:
    hashes: dict[str, str] = {}
    for text in ("45s", "60s", "100s"):
        lab.run_until("pods named none are Running", limit=f"{int(text[:-1]) - round(lab.now_s)}s")
        if text == "60s":
            lab.fail(nodes={"name": "node-1"}, how="power-loss")
        hashes[text] = lab.trace_sha256
    lab.run("90s")
    kept: list[Any] = lab._portal.call(lambda session: [at_us for at_us, _ in session.checkpoints()])
    assert kept == [60_000_000, 120_000_000, 180_000_000]
    for text, expected in hashes.items():
        with lab.at(text) as then:
            assert (then.now_s, then.trace_sha256) == (int(text[:-1]), expected)
            assert isinstance(then._portal, Portal if text == "45s" else CopiedPortal)
            then.run("90s")
    with lab.at("100s") as then, pytest.raises(InputError, match="the lab has come to 1m40s, not to 2h"):
        then.at("2h")


def test_lab_is_repeated_without_forks(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied, "FORKS", False)
    lab.run("70s")
    with lab.fork() as twin, lab.at("65s") as then:
        assert isinstance(twin._portal, Portal)
        assert twin.trace_sha256 == lab.trace_sha256
        assert then.now_s == 65
