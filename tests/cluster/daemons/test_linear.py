"""Single objects of an API server that runs alone stay linearizable under kills and pauses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.linear import run
from tests.bench.linearizability import unexplained

OPERATIONS = 2_000


@pytest.mark.slow
def test_history_under_kills_and_pauses_is_linearizable(tmp_path: Path) -> None:
    history, faults = run(OPERATIONS, 3, tmp_path)
    assert min(faults["kills"], faults["pauses"]) >= 2
    assert unexplained(history.operations) is None
