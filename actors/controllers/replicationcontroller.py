"""ReplicationController controller: the code of ReplicaSets for another kind.

Mirrors  kubernetes v1.25 pkg/controller/replication/replication_controller.go.
Differs  nothing known.
"""

from __future__ import annotations

from actors.controllers.replicaset import REPLICATION_CONTROLLER, start_flavour
from actors.controllers.shared.shell import Env


async def start(env: Env) -> None:
    """Run the ReplicationController controller until its process ends."""
    await start_flavour(env, REPLICATION_CONTROLLER, env.options.concurrent_rc_syncs)
