"""Turns the statuses of nodes into upstream's sentences.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/types.go: FitError.Error.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.scheduler.plugins.base import Status

NO_NODES = "no nodes available to schedule pods"
NOTE_MAX = 1024  # an event's note
PREEMPTION = "preemption: "


def fit_error(nodes_count: int, statuses: Iterable[Status], preemption: str = "") -> str:
    """Return `0/N nodes are available: 2 reason, 1 other.` and the message of preemption."""
    counts: dict[str, int] = {}
    for status in statuses:
        for reason in status.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    parts = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    text = (
        f"0/{nodes_count} nodes are available: {parts}." if parts else f"0/{nodes_count} nodes are available:"
    )
    return f"{text} {preemption}" if preemption else text


def note(text: str) -> str:
    """Return the text at the length that an event accepts."""
    return text if len(text) <= NOTE_MAX else text[: NOTE_MAX - 4] + " ..."
