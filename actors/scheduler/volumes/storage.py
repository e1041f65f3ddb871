"""The scheduler's view of claims, volumes, classes and drivers, with its own choices on top.

A choice (a volume reserved for a claim, a node selected for a claim) is *assumed* until an informer
shows a newer revision of the object, so that the next pod does not choose the same volume.

Holds: an assumed object has the revision that the informer showed when it was assumed.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/volumebinding/assume_cache.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.api.kinds.common.volumes.binding import class_of
from sim.api.objects import key_of, revision_of
from sim.api.types import Obj
from sim.client import Informer
from sim.ident import Names

CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses"
CSI_NODES, CSI_DRIVERS, CAPACITIES = "csinodes", "csidrivers", "csistoragecapacities"


class Storage:
    """The objects about storage, by resource."""

    def __init__(self, names: Names, objects: Mapping[str, Informer]) -> None:
        self.names = names
        self._claims, self._volumes = objects[CLAIMS], objects[VOLUMES]
        self._classes, self._nodes = objects[CLASSES], objects[CSI_NODES]
        self._drivers, self._capacities = objects[CSI_DRIVERS], objects[CAPACITIES]
        self._assumed_claims: dict[str, Obj] = {}
        self._assumed_volumes: dict[str, Obj] = {}

    # --- as the API shows them --------------------------------------------------------------------

    def shown_claim(self, key: str) -> Obj | None:
        """Return the claim as the informer shows it."""
        return self._claims.get(key)

    def shown_volume(self, name: str) -> Obj | None:
        """Return the volume as the informer shows it."""
        return self._volumes.get(name)

    def storage_class(self, name: str) -> Obj | None:
        """Return the storage class; None for no name."""
        return self._classes.get(name) if name else None

    def csi_node(self, name: str) -> Obj | None:
        """Return the CSINode of a node."""
        return self._nodes.get(name)

    def csi_driver(self, name: str) -> Obj | None:
        """Return the CSIDriver of this name."""
        return self._drivers.get(name)

    def capacities(self) -> list[Obj]:
        """Return all CSIStorageCapacities."""
        return self._capacities.list()

    # --- with the choices of this scheduler -------------------------------------------------------

    def claim(self, key: str) -> Obj | None:
        """Return the claim with what was assumed about it."""
        return _newest(self._assumed_claims, key, self._claims.get(key))

    def volume(self, name: str) -> Obj | None:
        """Return the volume with what was assumed about it."""
        return _newest(self._assumed_volumes, name, self._volumes.get(name))

    def volumes_of(self, class_name: str) -> list[Obj]:
        """Return the volumes of a class, "" for those without one, with what was assumed."""
        assumed = self._assumed_volumes
        return [
            _newest(assumed, volume["metadata"]["name"], volume) or volume
            for volume in self._volumes.list()
            if class_of(volume, self.names) == class_name
        ]

    def assume_claim(self, claim: Obj) -> None:
        """Show this claim until the informer shows a newer one."""
        self._assumed_claims[key_of(claim)] = claim

    def assume_volume(self, volume: Obj) -> None:
        """Show this volume until the informer shows a newer one."""
        self._assumed_volumes[volume["metadata"]["name"]] = volume

    def restore_claim(self, key: str) -> None:
        """Show the claim as the informer does."""
        self._assumed_claims.pop(key, None)

    def restore_volume(self, name: str) -> None:
        """Show the volume as the informer does."""
        self._assumed_volumes.pop(name, None)


def _newest(assumed: dict[str, Obj], key: str, shown: Obj | None) -> Obj | None:
    known = assumed.get(key)
    if known is None:
        return shown
    if shown is None or revision_of(shown) != revision_of(known):
        del assumed[key]
        return shown
    return known
