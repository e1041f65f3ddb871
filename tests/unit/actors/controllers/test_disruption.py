"""When the status of a budget needs a write."""

from __future__ import annotations

from actors.controllers.disruption import failed_status, is_up_to_date, next_status
from sim.api.types import Obj
from sim.units import parse_time

NOW_US = parse_time("2026-01-01T00:00:00Z")


def test_resolved_failure_is_removed_even_if_no_number_changes() -> None:
    budget: Obj = {"metadata": {"generation": 1}, "spec": {"minAvailable": 1}}
    status = next_status(budget, healthy=1, expected=1, disrupted={}, wall_us=NOW_US)
    stored = {**budget, "status": status}
    assert is_up_to_date(stored, status)
    failed = {**budget, "status": failed_status(stored, "no such kind", NOW_US)}
    assert failed["status"]["conditions"][0]["reason"] == "SyncFailed"
    assert not is_up_to_date(failed, status)
