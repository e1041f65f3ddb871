"""Expectations that hold already when their window opens, as far as that is certain before a run.

Turns a plan into a sentence for each such expectation. Nothing in its window can make it hold:
it holds in every run.

Two cases are certain: the window opens with a step that waits for the same condition; and the
condition is about nodes, which are all Ready, and every other step comes later.

Holds: an expectation with `again`, or with a condition that has to hold for something else, is
never named; what is not certain is left to the mark of the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.api.store import Change, Item
from sim.app.possible import zones_of
from sim.check import Condition, World, parse_matter
from sim.check.tally import Tally
from sim.ident import NAMES, Names
from sim.scenario.plan.plan import NodePlan, Plan, PlannedStep
from sim.scenario.schema.sections import Expectation
from sim.units import SECOND, Revision, Virtual, format_instant, parse_duration_us

STEADY_US = 60 * SECOND  # after the boot of the last machine every node is Ready
CONDITIONS = (
    ("Ready", "True"),
    ("MemoryPressure", "False"),
    ("DiskPressure", "False"),
    ("PIDPressure", "False"),
)
REMEDY = "nothing in its window makes it hold (write again: true if it has to cease to hold first)"


def foregone(plan: Plan) -> list[str]:
    """One note for each expectation that certainly holds already."""
    notes = []
    names = NAMES[plan.cluster.naming]
    for planned in plan.expectations:
        expectation = planned.expectation
        given = expectation.eventually if isinstance(expectation.eventually, str) else expectation.when
        if not isinstance(given, str) or expectation.again or not expectation.after:
            continue
        try:
            condition = parse_matter(given, names)
        except ValueError:
            continue  # it is reported as an error
        if isinstance(condition, Condition) and (when := _opening(plan, expectation, condition)):
            notes.append(f"{planned.place}: {expectation.name!r} holds already {when}: {REMEDY}")
    return notes


def _opening(plan: Plan, expectation: Expectation, condition: Condition) -> str:
    """When the window of an expectation opens, in words, if its condition holds then; else ""."""
    steps = {step.name: step for step in plan.steps}
    step = steps.get(expectation.after)
    if step is not None and _waits_for(step, condition.text):
        return f"when {step.name!r} occurs, which waits for the same condition"
    span = _span(expectation.after) if step is None else step.start.at_us
    others = [one for one in plan.steps if one is not step]
    if span is None or (step is not None and step.repeat is not None):
        return ""
    if any(_earliest_us(one, steps, ()) < span[1] for one in others):
        return ""
    if _is_steady(plan, span[0]) and _holds_of_nodes(plan, condition):
        return f"at {format_instant(span[0])}"
    return ""


def _waits_for(step: PlannedStep, text: str) -> bool:
    start = step.start
    same = isinstance(start.condition, str) and start.condition.split() == text.split()
    return same and start.delay_us == (0, 0) and step.repeat is None


def _span(text: str) -> tuple[int, int] | None:
    try:
        at_us = parse_duration_us(text)
    except ValueError:
        return None
    return at_us, at_us


def _earliest_us(step: PlannedStep, steps: Mapping[str, PlannedStep], seen: tuple[str, ...]) -> int:
    """The earliest time of a step; 0 if it waits for a condition alone."""
    start = step.start
    if start.at_us is not None:
        return start.at_us[0]
    awaited = steps.get(start.after.removeprefix("end of ").partition("/")[0])
    if awaited is None or awaited.name in seen:
        return 0
    return _earliest_us(awaited, steps, (*seen, step.name)) + start.delay_us[0]


def _is_steady(plan: Plan, at_us: int) -> bool:
    """True if all nodes are Ready by a time: no flag and no latency is set that could delay that."""
    cluster = plan.cluster
    flags = (
        cluster.api_server.flags,
        cluster.controller_manager.flags,
        cluster.scheduler.flags,
        *(node.flags for node in cluster.nodes),
    )
    if any(flags) or (cluster.latency_us, cluster.arrivals) != (None, None):
        return False
    return at_us >= (0 if cluster.established else cluster.boot_us + STEADY_US)


def _holds_of_nodes(plan: Plan, condition: Condition) -> bool:
    """True if a condition about nodes holds while all of them are Ready."""
    nodes = plan.cluster.nodes
    zones = zones_of(plan)
    if condition.resource != "nodes" or len(zones) != len(nodes):  # manifests make further nodes
        return False
    names = NAMES[plan.cluster.naming]
    tally, world = Tally(condition), World(names, zones)
    for number, node in enumerate(nodes, 1):
        rev = Revision(number)
        item = Item(f"//nodes//{node.name}", _ready_node(node, names), rev, rev)
        change = Change(rev, item, None, False, Virtual(0))
        world.see("nodes", change)
        tally.see(world, "nodes", change)
    return tally.holds


def _ready_node(node: NodePlan, names: Names) -> dict[str, Any]:
    own = {names.label_hostname: node.name, names.label_zone: node.zone, names.label_region: node.region}
    return {
        "metadata": {"name": node.name, "labels": {**own, **node.labels}},
        "spec": {"taints": [*node.taints]},
        "status": {"conditions": [{"type": kind, "status": status} for kind, status in CONDITIONS]},
    }
