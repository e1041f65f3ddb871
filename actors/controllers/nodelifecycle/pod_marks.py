"""Ready=False conditions of the pods of a node that is not ready.

Mirrors  kubernetes v1.25 pkg/controller/util/node/controller_utils.go (MarkPodsNotReady).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.controllers.nodelifecycle.decide import not_ready_pod
from sim.api.types import Obj
from sim.units import format_time

if TYPE_CHECKING:
    from actors.controllers.shared.shell import Env
    from sim.client import Client
    from sim.client.events.recorder import EventRecorder


class PodMarks:
    """Marks pods as not ready.

    owed: names of the nodes with pods that could not all be marked
    queue: pods that were bound to nodes which are not ready
    """

    def __init__(self, env: Env, client: Client, recorder: EventRecorder) -> None:
        self._ctx = env.ctx
        self._client = client
        self._recorder = recorder
        self.owed: dict[str, None] = {}
        self.queue = env.queue("node_lifecycle_controller_pods")

    async def mark(self, pods: list[Obj]) -> bool:
        """Write Ready=False and record an event for each pod; False if a write failed."""
        done = True
        for pod in pods:
            changed = not_ready_pod(pod, format_time(self._ctx.wall_us()))
            if changed is None:
                continue
            reply = await self._client.update("pods", changed, subresource="status")
            if reply.reason == "NotFound":
                continue
            done = done and reply.ok
            self._recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")
        return done
