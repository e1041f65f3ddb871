"""The part of a plan that plans with other later steps share: what begins up to an instant.

Turns a plan and an instant into the plan of the common part, and into a key that is equal for plans
with runs that are equal, event for event, up to that instant.

Holds: a step is later only if it cannot occur up to the instant and observes nothing before it: it
    has a time after the instant, or comes after such a step. A step with a condition belongs to the
    common part, since it observes from the start; so does one for which the storage keeps history.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from sim.scenario.plan.digest import plan_digest
from sim.scenario.plan.plan import Plan, PlannedStep
from sim.scenario.plan.timeline import awaited
from sim.units import Virtual


def later_steps(plan: Plan, at_us: Virtual) -> dict[str, PlannedStep]:
    """The steps of a plan that a run needs only after an instant, by name."""
    later: dict[str, PlannedStep] = {}
    waiting = [step for step in plan.steps if step.start.condition is None]
    while waiting:
        more = [step for step in waiting if _is_later(step, at_us, later)]
        if not more:
            break
        later.update((step.name, step) for step in more)
        waiting = [step for step in waiting if step.name not in later]
    return later


def _is_later(step: PlannedStep, at_us: Virtual, later: dict[str, PlannedStep]) -> bool:
    start = step.start
    if any(choice.action.past_us is not None for choice in step.choices):
        return False
    return start.at_us[0] > at_us if start.at_us is not None else awaited(start.after) in later


def common_part(plan: Plan, at_us: Virtual) -> Plan:
    """The plan without the steps that are needed only after an instant."""
    later = later_steps(plan, at_us)
    return replace(plan, steps=tuple(step for step in plan.steps if step.name not in later))


def common_key(plan: Plan, seed: int, at_us: Virtual) -> str:
    """A key that plans share if one run of their common part serves them all."""
    part = replace(common_part(plan, at_us), name="", description="", duration_us=0)
    return sha256(f"{seed} {at_us} {plan_digest(part)}".encode()).hexdigest()
