"""Notes of a server about Jobs with programs that never end.

Turns the Jobs of a plan, and those that clients create, into lines on the error output.

Holds: there is one note for all Jobs with the same containers, and none for the Jobs of a CronJob,
    which has its own.
"""

from __future__ import annotations

import json

from sim.api.store import Change
from sim.app.cluster import Cluster
from sim.app.process.printed import tell
from sim.scenario.check.endless import endless_jobs, manifests_of, notes_of_job, programs_end
from sim.scenario.plan.plan import Plan

PLURALS = ("jobs", "cronjobs")


def tell_of_endless_jobs(cluster: Cluster, plan: Plan) -> None:
    """Report the Jobs of the plan that never end, and from now on those that are created."""
    if programs_end(plan):
        return
    known = {_template(manifest): None for manifest in manifests_of(plan)}
    for note in endless_jobs(plan):
        tell(note)

    def look(change: Change) -> None:
        obj = change.item.obj
        if change.prev is not None or obj["metadata"].get("ownerReferences"):
            return
        template = _template(obj)
        if template not in known:
            known[template] = None
            for note in notes_of_job(obj):
                tell(note)

    for plural in PLURALS:
        cluster.storage.store.subscribe(cluster.scheme.prefix(plural), look)


def _template(manifest: object) -> str:
    """What the containers of a Job or CronJob run, as a text to compare."""
    spec = (manifest.get("spec") or {}) if isinstance(manifest, dict) else {}
    spec = (spec.get("jobTemplate") or {}).get("spec") or spec
    pod = (spec.get("template") or {}).get("spec") or {}
    rows = [[c.get("image"), c.get("command"), c.get("args")] for c in pod.get("containers") or ()]
    return json.dumps(rows)
