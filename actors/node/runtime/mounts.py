"""The mounts of a machine, which an agent finds again after a restart.  A reboot ends them."""

from __future__ import annotations

from dataclasses import field

from sim.dataclass import dataclass


@dataclass(slots=True)
class Device:
    """A volume that is mounted for at least one pod.

    driver: name of its CSI driver; "" if the node agent mounts it itself
    attachable: True if it counts as in use until it is unmounted
    pods: uid -> name of the volume in the pod
    """

    driver: str
    attachable: bool
    pods: dict[str, str] = field(default_factory=dict)
