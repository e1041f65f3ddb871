"""Signal dispositions of the test suite, and fixtures of several of its folders.

The suite may be started with signals ignored: by `nohup` (SIGHUP), or in the background of a shell
without job control (SIGINT).  A process that a test starts would inherit that, and a signal that
the test sends would do nothing.  A handler is not inherited: a started process has the default
disposition of every signal that its parent handles.

Holds: a process that a test starts has the default disposition of each of SIGNALS; a signal that
the suite itself was started to ignore still does nothing to it.
"""

from __future__ import annotations

import signal
from types import FrameType

import pytest

from sim.wire.stack import make_room
from tests.actor.fronts import CHOSEN

# Once, at the begin: Hypothesis refuses a limit of calls that changes while a test runs.
make_room()

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def pytest_configure() -> None:
    """Replace each ignored disposition by a handler that does nothing."""
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)


@pytest.fixture(params=[True, False], ids=["direct", "hypercorn"])
def each_front(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test of the HTTP server over both of its fronts."""
    monkeypatch.setattr(CHOSEN, "direct", request.param)
