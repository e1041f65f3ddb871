"""Sessions that are drawn at random, and each replayed; `tests.bench.sessions` has hundreds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_random_sessions_are_replayed_as_they_were_served() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.bench.sessions",
        "--sessions",
        "2",
        "--seed",
        "7",
        "--actions",
        "20",
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines()[-1:] == ["2 of 2 sessions are replayed as they were served"], (
        ended.stdout
    )
    assert (ended.returncode, ended.stderr) == (0, "")
