"""The control API of one served cluster, put together.

Turns a cluster with its plan and trace into the stage that answers the API: the calls, the log of
changes, the stories of the trace, and the scenario of what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import trio

from sim.app.control.changes import Changes
from sim.app.control.saved import scenario_of, scenario_text
from sim.app.control.session import Control
from sim.app.inspect.traces import as_json
from sim.app.inspect.why import FoundStory, story_so_far
from sim.app.steering.routes import Api, Keep, Steering
from sim.errors import InputError
from sim.kernel import SoFar
from sim.scenario.plan.plan import Plan


def make_steering(
    control: Control, document: Callable[[Plan], Mapping[str, Any]], keep: Keep | None = None
) -> Steering:
    """The stage.  The trace of the cluster has a file.

    document: what is served, as the document of a scenario
    keep: makes a snapshot of the state with a name; None for a server that keeps no state
    """
    cluster, plan, trace = control.cluster, control.plan, control.cluster.kernel.trace
    finders = trio.CapacityLimiter(1)

    def so_far() -> SoFar:
        try:
            return trace.so_far()
        except ValueError:
            raise InputError(
                "the trace could not be written any more, so that causes are not known"
            ) from None

    def found_in(records: SoFar, target: str, namespace: str, what: str) -> FoundStory:
        with NamedTemporaryFile(prefix="orrery-", suffix=".trace") as file:
            records.copy(Path(file.name))
            return story_so_far(Path(file.name), target, namespace, what)

    async def story(target: str, namespace: str, what: str) -> dict[str, Any]:
        result = await trio.to_thread.run_sync(found_in, so_far(), target, namespace, what, limiter=finders)
        return {"title": result.title, "chain": [as_json(line) for line in result.lines]}

    def scenario(name: str) -> str:
        kernel = cluster.kernel
        new = scenario_of(document(plan), plan, kernel.epoch_us, kernel.now_us, control.done, control.judged)
        if name:
            new["metadata"] = {**(new.get("metadata") or {}), "name": name}
        title = f"Saved from a served cluster after {control.state()['virtual']} of virtual time."
        return scenario_text(new, title, control.others)

    return Steering(Api(control, Changes(control), story, so_far, scenario, keep))
