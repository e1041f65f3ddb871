"""Notes about floods of requests that slow nothing, printed before a run.

Turns a plan into a sentence for each load of lists that no API server notices: without a capacity
(`cluster.apiServer.capacity`) a request takes a server no time, and without a user it is that of an
administrator, exempt from fairness and from limits of requests in flight.

Holds: an `overload` that limits the requests in flight counts those of all users, and one that
    delays requests lets those of a user hold their seats: then there is no note.
"""

from __future__ import annotations

from sim.faults.servers.overload import Overload
from sim.scenario.actions.load import Generate
from sim.scenario.plan.plan import Plan

CAPACITY = "requests cost an API server nothing without cluster.apiServer.capacity, as 500m"
EXEMPT = "without 'user' they are an administrator's, exempt from fairness and limits"


def costless_loads(plan: Plan) -> list[str]:
    """The notes about a plan."""
    actions = [choice.action for step in plan.steps for choice in step.choices]
    overloads = [action for action in actions if isinstance(action, Overload)]
    if plan.cluster.api_server.capacity_nano or any(one.inflight is not None for one in overloads):
        return []
    notes = []
    for step in plan.steps:
        for choice in step.choices:
            load = choice.action
            if isinstance(load, Generate) and load.list_of and not (load.user and overloads):
                why = CAPACITY if load.user else f"{CAPACITY}, and {EXEMPT}"
                notes.append(f"{step.place}: the lists of {step.name!r} slow nothing: {why}")
    return notes
