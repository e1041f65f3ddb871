"""What is left of a pod's volumes when nothing of it runs any more.

Turns a worker that comes to its end into how long its volumes and its cgroup hold that up.

Mirrors  pkg/kubelet/volumemanager/volume_manager.go: WaitForUnmount; kubelet_pods.go: PodResourcesAreReclaimed,
         cleanupOrphanedPodCgroups (v1.25).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.units import MS

if TYPE_CHECKING:
    from actors.node.pods.worker import Worker

UNMOUNT_POLL_US = 300 * MS  # volume_manager.go: podAttachAndMountRetryInterval


def keeps_volumes(worker: Worker) -> bool:
    """Quirk: nobody unmounts them while the pod is known, so that its worker waits for ever for the end that it has come to."""
    return worker.agent.options.keep_terminated_pod_volumes and bool(worker.pod["spec"].get("volumes"))


def reclaimed_after_us(worker: Worker) -> int:
    """How long something of the pod is there still: up to one poll, or until housekeeping has removed its cgroup."""
    agent = worker.agent
    return agent.housekeeping_after_us() if keeps_volumes(worker) else agent.dice.below(UNMOUNT_POLL_US)
