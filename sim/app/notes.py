"""Notes before a run: settings without effect, programs without end, floods without cost, claims
that no process provisions, expectations that hold already.

Turns a plan into sentences of one line each.
"""

from __future__ import annotations

from sim.app.foregone import foregone
from sim.app.options import idle_options
from sim.app.parts.refused_leases import unled_components
from sim.app.provisioners import unprovisioned
from sim.scenario.check.costless import costless_loads
from sim.scenario.check.endless import endless_jobs
from sim.scenario.plan.plan import Plan


def notes_of(plan: Plan) -> list[str]:
    """All notes about a plan."""
    return [
        *idle_options(plan.cluster),
        *unled_components(plan),
        *endless_jobs(plan),
        *costless_loads(plan),
        *unprovisioned(plan),
        *foregone(plan),
    ]
