"""A controller that begins before it knows its pods.

After a restart the replication manager synced what it had listed first.  While the list of pods was
still to come it saw none, and created all of them again.

Thread   https://github.com/kubernetes/kubernetes/issues/10030
Mended   v1.0 (https://github.com/kubernetes/kubernetes/pull/10147): it waits for the first list of
         pods.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from actors.controllers import replicaset
from actors.controllers.replicaset import Flavour, ReplicaSetLoop
from actors.controllers.shared.shell import Env, run_workers
from tests.planted.planting import Planted, replaced


async def _start_early(env: Env, flavour: Flavour, workers: int) -> None:
    loop = ReplicaSetLoop(env, flavour)
    loop.sets.when_synced(lambda: run_workers(env, loop.queue, loop.sync, workers))
    await env.informers.start_and_sync()


def _plant() -> AbstractContextManager[None]:
    return replaced(replicaset, "start_flavour", _start_early)


BUG = Planted(
    name="early_start",
    thread="https://github.com/kubernetes/kubernetes/issues/10030",
    mended="v1.0",
    plant=_plant,
    story="""
- {at: 60s, name: failover, crash: {actor: controller-manager-leader, restartAfter: 5s}}
""",
)
