"""All planted bugs."""

from __future__ import annotations

from tests.planted import (
    broken_revision,
    counted_twice,
    early_start,
    foreign_clock,
    forgotten_zone,
    garbled_owner,
    leaked_expectations,
    overdrawn_budget,
    revived_pod,
    skipped_event,
    stale_taint,
    unmarked_pods,
)

PLANTED = (
    forgotten_zone.BUG,
    leaked_expectations.BUG,
    foreign_clock.BUG,
    garbled_owner.BUG,
    broken_revision.BUG,
    counted_twice.BUG,
    overdrawn_budget.BUG,
    revived_pod.BUG,
    skipped_event.BUG,
    unmarked_pods.BUG,
    stale_taint.BUG,
    early_start.BUG,
)
