"""Feature gates that change nothing in a daemon, each with the reason.

A gate belongs to the daemons that read it upstream.  One that has an effect in another daemon here
changes nothing in this one; all others have a reason of their own.

Mirrors  kubernetes v1.25: the places that read a gate (`utilfeature.DefaultFeatureGate.Enabled`).
"""

from __future__ import annotations

from collections.abc import Iterable

from sim.options.base import refusals_of

REASONS = refusals_of("gates")


def reason(gate: str, owners: Iterable[str]) -> str:
    """The reason why a gate changes nothing in a daemon.  owners: daemons in which it has an effect"""
    others = [*owners]
    if others:
        return f"it is a gate of the {' and the '.join(others)}"
    return REASONS[gate]
