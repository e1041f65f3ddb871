"""Plans with a common first minute and other later steps."""

from pathlib import Path
from typing import Any

import trio

from sim.app.run import Result, run_plan
from sim.app.travel import Job, Rest
from sim.scenario.compile import compile_plan
from sim.scenario.plan.plan import Plan
from sim.scenario.read.source import Document
from tests.cluster.scenario import WEB

EARLY: list[dict[str, Any]] = [
    {"name": "early", "at": "20s", "every": "25s", "crash": {"actor": "scheduler-0"}},
]
RUNNING = [{"name": "again", "eventually": "at least 6 pods are Running", "by": "1m"}]


def plan_of(*later: dict[str, Any], early: list[dict[str, Any]] = EARLY, **spec: Any) -> Plan:
    """A plan of three nodes, with early steps and others."""
    body = {
        "duration": "3m",
        "cluster": {"nodes": [{"count": 3, "zones": ["a", "b", "c"]}]},
        "objects": [WEB],
        "timeline": [*early, *later],
        "expect": RUNNING,
        **spec,
    }
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "t"}}
    return compile_plan(Document("", {**head, "spec": body}), Path())


def fails(node: str, at: str, **more: Any) -> dict[str, Any]:
    """A step in which a node loses power."""
    return {"name": f"{node}-fails", "at": at, "fail": {"nodes": {"name": node}, "how": "power-loss"}, **more}


def perform(job: Job, rest: Rest | None) -> Result:
    """The result of one run."""
    return trio.run(lambda: run_plan(job.plan, seed=job.seed, rest=rest))
