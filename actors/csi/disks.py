"""The disks of one driver: where each is, and how much room is left for others.

Turns the volumes that the API shows, and those that were just made, into bytes by place. A place is
a value of the driver's topology label, or "" if every node reaches every disk.
"""

from __future__ import annotations

from collections.abc import Iterator

from sim.api.kinds.common.volumes.binding import capacity_bytes
from sim.api.objects import name_of
from sim.api.types import Obj
from sim.client import Informer
from sim.options.storage_drivers import StorageDriver


class Disks:
    """What a driver has provisioned."""

    def __init__(self, driver: StorageDriver, volumes: Informer) -> None:
        self._driver = driver
        self._volumes = volumes
        # Volumes that were made: place and size, until the informer shows them.
        self._made: dict[str, tuple[str, int]] = {}

    def made(self, name: str, place: str, size: int) -> None:
        """A disk was made for a volume of this name."""
        self._made[name] = place, size

    def unmade(self, name: str) -> None:
        """There is no volume of this name after all."""
        self._made.pop(name, None)

    def is_made(self, name: str) -> bool:
        """True if the volume exists, whether the informer shows it or not."""
        return name in self._made or self._volumes.get(name) is not None

    def used(self) -> dict[str, int]:
        """The bytes that are provisioned in each place."""
        used: dict[str, int] = {}
        for place, size in self._all():
            used[place] = used.get(place, 0) + size
        return used

    def free(self, place: str) -> int | None:
        """The bytes that are left in a place; None if there is no limit."""
        capacity = self._driver.capacity
        return None if capacity is None else max(0, capacity - self.used().get(place, 0))

    def _all(self) -> Iterator[tuple[str, int]]:
        for volume in self._volumes.list():
            if (volume["spec"].get("csi") or {}).get("driver") == self._driver.name:
                self._made.pop(name_of(volume), None)
                yield place_of(volume, self._driver.topology_key), capacity_bytes(volume)
        yield from self._made.values()


def place_of(volume: Obj, key: str) -> str:
    """The place of a volume by its node affinity; "" without one."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for each in term.get("matchExpressions") or ():
            if each["key"] == key and each.get("values"):
                return str(each["values"][0])
    return ""
