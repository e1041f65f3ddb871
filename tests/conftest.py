"""Signal dispositions and compiled modules of the test suite, and fixtures of several folders.

The suite may be started with signals ignored: by `nohup` (SIGHUP), or in the background of a shell
without job control (SIGINT).  A process that a test starts would inherit that, and a signal that
the test sends would do nothing.  A handler is not inherited: a started process has the default
disposition of every signal that its parent handles.

Where the machine forbids Python to write compiled modules, each of the hundreds of processes that
tests start compiled all that it imports, which is three quarters of the cost of its start.

A test of servers and clients in real time that fails runs once more, since other work on the
machine may make a connection late; the summary shows how it failed.  Tests that compare runs never
do: a run that is not repeatable must fail at once.

A test that hangs is ended by pytest-timeout with an exception wherever Python is, which may be
Trio's loop itself: that run would never end, and each later test would be inside of it.  Its tasks
are cancelled instead, and only what then hangs again gets the exception.

Holds: a process that a test starts has the default disposition of each of SIGNALS; a signal that
the suite itself was started to ignore still does nothing to it.  Each module is compiled once.  A
test that hangs fails, and no other one does for it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import pytest_timeout
import trio
from hypothesis import HealthCheck, settings

from sim.wire.stack import make_room
from tests.actor.fronts import CHOSEN

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Once, at the begin: Hypothesis refuses a limit of calls that changes while a test runs.
make_room()

TESTS = Path(__file__).resolve().parent
REAL_TIME = (
    "actor/test_http",
    "cluster/cli/",
    "cluster/daemons/",
    "cluster/lab/",
    "contract/",
    "unit/sim/wire/",
)
COMPARED = ("test_fast_plain.py", "test_random_sessions.py", "test_replay.py", "test_scenarios.py")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_S = 60.0  # for the tasks of a test that hangs to end
_ENDED_AFTER = pytest.StashKey[float]()  # s, of a test that was cancelled; else 0


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def pytest_configure() -> None:
    """Replace each ignored disposition by a handler that does nothing, and time no property."""
    settings.register_profile(
        "suite", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("suite")
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests in real time run once more if they fail."""
    for item in items:
        place = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else ""
        if place.startswith(REAL_TIME) and item.path.name not in COMPARED:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Cancel the tasks of a test at its limit of time, and raise an exception GRACE_S later."""

    def end(number: int, frame: FrameType | None) -> None:
        if item.stash[_ENDED_AFTER] or not trio.lowlevel.in_trio_run():
            pytest_timeout.timeout_sigalrm(item, settings)
            return
        item.stash[_ENDED_AFTER] = settings.timeout
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)
        pytest_timeout.dump_stacks(item.config.get_terminal_writer())
        trio.lowlevel.current_trio_token().run_sync_soon(_cancel_main_task)

    def stop() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.stash[_ENDED_AFTER] = 0.0
    item.cancel_timeout = stop  # type: ignore[attr-defined]  # which pytest-timeout calls
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


def _cancel_main_task() -> None:
    root = trio.lowlevel.current_root_task()
    assert root is not None
    root.child_nurseries[-1].cancel_scope.cancel()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that was cancelled, however it took that."""
    error = None
    try:
        return (yield)
    except BaseException as raised:
        error = raised
        raise
    finally:
        if ended_after := item.stash.get(_ENDED_AFTER, 0.0):
            raise pytest.fail.Exception(f"it did not end within {ended_after:g} s") from error


@pytest.fixture(params=[True, False], ids=["direct", "hypercorn"])
def each_front(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test of the HTTP server over both of its fronts."""
    monkeypatch.setattr(CHOSEN, "direct", request.param)
