"""A process that a test starts does not inherit the ignored signals of the suite
(`tests/conftest.py`).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IGNORED = "import signal as s; print([n for n in ('SIGINT', 'SIGTERM', 'SIGHUP') if s.getsignal(getattr(s, n)) is s.SIG_IGN])"


def test_process_started_by_a_test_ignores_no_signal() -> None:
    shown = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


@pytest.mark.slow
def test_process_started_by_a_test_ignores_no_signal_under_nohup() -> None:
    test = f"{Path(__file__).relative_to(ROOT)}::{test_process_started_by_a_test_ignores_no_signal.__name__}"
    command = shlex.join([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test])
    ran = subprocess.run(
        ["sh", "-c", f"trap '' HUP INT TERM; exec {command}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=dict(os.environ),
    )
    assert ran.returncode == 0, ran.stdout
