"""The volumes of a pod that has ended.

Turns a pod and the options into how long its volumes delay the end of its worker.

Mirrors  pkg/kubelet/volumemanager/volume_manager.go: WaitForUnmount; kubelet_pods.go:
         PodResourcesAreReclaimed (v1.25).
"""

from __future__ import annotations

from sim.api.types import Obj
from sim.kernel.draws.dice import Dice
from sim.options.node.agent import NodeAgentOptions
from sim.units import MS

UNMOUNT_POLL_US = 300 * MS  # volume_manager.go: podAttachAndMountRetryInterval


def keeps_volumes(pod: Obj, options: NodeAgentOptions) -> bool:
    """True if the pod's volumes stay mounted after its end.

    Quirk: nothing unmounts them while the pod's object exists, so that the worker waits for its
    deletion.
    """
    return options.keep_terminated_pod_volumes and bool(pod["spec"].get("volumes"))


def unmounted_after_us(dice: Dice) -> int:
    """How long the volumes of a pod that has ended stay mounted.

    The volume manager polls for the unmount.
    """
    return dice.below(UNMOUNT_POLL_US)
