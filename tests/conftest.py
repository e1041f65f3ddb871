"""Signal dispositions and compiled modules of the test suite, and fixtures of several folders.

The suite may be started with signals ignored: by `nohup` (SIGHUP), or in the background of a shell
without job control (SIGINT).  A process that a test starts would inherit that, and a signal that
the test sends would do nothing.  A handler is not inherited: a started process has the default
disposition of every signal that its parent handles.

Where the machine forbids Python to write compiled modules, each of the hundreds of processes that
tests start compiled all that it imports, which is three quarters of the cost of its start.

Holds: a process that a test starts has the default disposition of each of SIGNALS; a signal that
the suite itself was started to ignore still does nothing to it.  Each module is compiled once.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from sim.wire.stack import make_room
from tests.actor.fronts import CHOSEN

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Once, at the begin: Hypothesis refuses a limit of calls that changes while a test runs.
make_room()

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


@pytest.fixture(params=[True, False], ids=["direct", "hypercorn"])
def each_front(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test of the HTTP server over both of its fronts."""
    monkeypatch.setattr(CHOSEN, "direct", request.param)
