"""A Job that counts a pod twice.

A finished pod is listed in the status, loses its finalizer, and is then added to the counters.  A
sync that saw the new counters and still the old pod with its finalizer counted it again.

Thread   https://github.com/kubernetes/kubernetes/issues/105200
Mended   v1.23: the controller remembers the pods of which it has removed the finalizer until the
         watch shows it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from actors.controllers.job import decide
from actors.controllers.job.loop import JobLoop
from sim.api.types import Obj
from tests.planted.planting import Planted, replaced


def _forgetful(loop: JobLoop, key: str, job: Obj) -> decide.Tracking:
    return decide.Tracking.of(loop.env.names, {}, None, loop._tracks(job))


def _plant() -> AbstractContextManager[None]:
    return replaced(JobLoop, "_tracking", _forgetful)


BUG = Planted(
    name="counted_twice",
    thread="https://github.com/kubernetes/kubernetes/issues/105200",
    mended="v1.23",
    plant=_plant,
    story="""
- {at: 43s, name: loss, network: {between: [controller-manager, apiserver], loss: 0.5}, for: 40s}
""",
)
