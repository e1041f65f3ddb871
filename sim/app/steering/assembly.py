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
from sim.app.inspect.why import story_so_far
from sim.app.steering.routes import Api, Steering
from sim.errors import InputError
from sim.scenario.plan.plan import Plan


def make_steering(control: Control, document: Callable[[Plan], Mapping[str, Any]]) -> Steering:
    """The stage.  The trace of the cluster has a file.

    document: what is served, as the document of a scenario
    """
    cluster, plan, trace = control.cluster, control.plan, control.cluster.kernel.trace
    finders = trio.CapacityLimiter(1)

    def copy_to(file: Path) -> None:
        try:
            trace.copy(file)
        except ValueError:
            raise InputError(
                "the trace could not be written any more, so that causes are not known"
            ) from None

    def copied() -> bytes:
        with NamedTemporaryFile(prefix="orrery-", suffix=".trace") as file:
            copy_to(Path(file.name))
            return Path(file.name).read_bytes()

    async def story(target: str, namespace: str, what: str) -> dict[str, Any]:
        with NamedTemporaryFile(prefix="orrery-", suffix=".trace") as file:
            copy = Path(file.name)
            copy_to(copy)
            found = await trio.to_thread.run_sync(
                story_so_far, copy, target, namespace, what, limiter=finders
            )
        return {"title": found.title, "chain": [as_json(line) for line in found.lines]}

    def scenario(name: str) -> str:
        kernel = cluster.kernel
        made = scenario_of(document(plan), plan, kernel.epoch_us, kernel.now_us, control.done, control.judged)
        if name:
            made["metadata"] = {**(made.get("metadata") or {}), "name": name}
        title = f"Saved from a served cluster after {control.state()['virtual']} of virtual time."
        return scenario_text(made, title, control.others)

    return Steering(Api(control, Changes(control), story, copied, scenario))
