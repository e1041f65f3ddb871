"""A ReplicaSet controller that keeps the expectations of a deleted set for its successor.

Expectations were dropped only by a sync that no longer found the set.  If the set was created again
under its name before that sync, the new set waited for pods of the old one, which never counted for
it, until the expectations ran out after five minutes.

Thread   https://github.com/kubernetes/kubernetes/issues/69376
Mended   v1.17 (https://github.com/kubernetes/kubernetes/pull/82572), which drops them as the
         deletion is seen.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from actors.controllers.replicaset import ReplicaSetLoop
from sim.api.objects import key_of
from sim.api.types import Obj
from tests.planted.planting import Planted, replaced


def _queue_only(loop: ReplicaSetLoop, owner: Obj) -> None:
    loop.queue.add(key_of(owner))


def _plant() -> AbstractContextManager[None]:
    return replaced(ReplicaSetLoop, "_deleted", _queue_only)


BUG = Planted(
    name="leaked_expectations",
    thread="https://github.com/kubernetes/kubernetes/issues/69376",
    mended="v1.17",
    plant=_plant,
    story="""
- {at: 50s, name: far, network: {between: [controller-manager, apiserver], latency: 200ms..400ms}, for: 30s}
""",
)
