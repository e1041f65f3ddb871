"""The changes of objects about storage after which refused pods are tried again.

Mirrors  kubernetes v1.25 pkg/scheduler/eventhandlers.go: addAllEventHandlers, onStorageClassAdd.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.scheduler.plugins.base import ClusterEvent
from actors.scheduler.volumes.storage import CAPACITIES, CLAIMS, CLASSES, CSI_DRIVERS, CSI_NODES, VOLUMES
from sim.api.kinds.common.volumes.binding import delays_binding
from sim.api.types import Obj
from sim.client import Informers

# The events of added and of updated objects, by resource.
STORAGE_EVENTS = {
    CLAIMS: (ClusterEvent.CLAIM_ADD, ClusterEvent.CLAIM_UPDATE),
    VOLUMES: (ClusterEvent.VOLUME_ADD, ClusterEvent.VOLUME_UPDATE),
    CLASSES: (ClusterEvent.STORAGE_CLASS_ADD, ClusterEvent.STORAGE_CLASS_UPDATE),
    CSI_NODES: (ClusterEvent.CSI_NODE_ADD, ClusterEvent.CSI_NODE_UPDATE),
    CSI_DRIVERS: (ClusterEvent.CSI_DRIVER, ClusterEvent.CSI_DRIVER),
    CAPACITIES: (ClusterEvent.CSI_CAPACITY, ClusterEvent.CSI_CAPACITY),
}


def watch_storage(informers: Informers, changed: Callable[[ClusterEvent], None]) -> None:
    """Call `changed` with the event of each change that may help a pod."""
    for resource, (added, updated) in STORAGE_EVENTS.items():

        def add(obj: Obj, resource: str = resource, event: ClusterEvent = added) -> None:
            # Claims of another class are bound by the controller, which is an event of its own.
            if resource != CLASSES or delays_binding(obj):
                changed(event)

        def update(_: Obj, __: Obj, event: ClusterEvent = updated) -> None:
            changed(event)

        informers[resource].on(add=add, update=update)
