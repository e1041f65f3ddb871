"""The agent's mode `runonce`: it runs the pods of its manifests, and ends.

Turns the pods of the first delivery into the exit of the agent: without an error when each runs, or
has ended as it was to, else with upstream's text.

Mirrors  pkg/kubelet/runonce.go: RunOnce, runOnce, runPod, isPodRunning (v1.25).
"""

from __future__ import annotations

from typing import Any

from actors.node.pod_work import FINISHED
from actors.node.runtime.ports import Agent
from sim.api.types import Obj
from sim.units import SECOND

MANIFESTS_US = 1 * SECOND  # runonce.go: runOnceManifestDelay
RETRY_US = 1 * SECOND  # runOnceRetryDelay
RETRY_FACTOR = 2
RETRIES_MAX = 10


class RunOnce:
    """The only pass of one incarnation of the agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._failed: list[str] = []
        self._open = 0

    def start(self) -> None:
        """Wait for the pods."""
        self._agent.ctx.call_later_us(MANIFESTS_US, self._begin)

    def _begin(self, _: object) -> None:
        workers = self._agent.workers
        if not workers:
            self._agent.ctx.exit(f"runonce failed: no pod manifest update after {MANIFESTS_US // SECOND}s")
            return
        self._open = len(workers)
        for uid in [*workers]:
            self._look((uid, RETRY_US, 0))

    def _look(self, given: tuple[str, int, int]) -> None:
        """Look if a pod runs, again after a growing delay."""
        uid, delay_us, tries = given
        worker: Any = self._agent.workers.get(uid)
        refused = worker is None or (worker.state == FINISHED and worker.runtime is None)
        if not refused and not _runs(worker.pod, worker.status):
            if tries < RETRIES_MAX:
                again = (uid, RETRY_FACTOR * delay_us, tries + 1)
                self._agent.ctx.call_later_us(delay_us, self._look, again)
                return
            refused = True
        if refused:
            self._failed.append(worker.pod["metadata"]["name"] if worker is not None else uid)
        self._open -= 1
        if not self._open:
            self._end()

    def _end(self) -> None:
        if self._failed:
            names = " ".join(self._failed)
            self._agent.ctx.exit(f"runonce failed: error running pods: [{names}]")
        else:
            self._agent.ctx.exit("runonce")


def _runs(pod: Obj, status: Obj) -> bool:
    """True if each container runs, or has ended and is not to start again."""
    found = {one["name"]: one.get("state") or {} for one in status.get("containerStatuses") or ()}
    policy = pod["spec"].get("restartPolicy", "Always")
    for container in pod["spec"]["containers"]:
        state = found.get(container["name"], {})
        ended = state.get("terminated")
        well = ended is not None and (policy == "Never" or (policy == "OnFailure" and not ended["exitCode"]))
        if "running" not in state and not well:
            return False
    return True
