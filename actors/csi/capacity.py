"""Publishes what a driver has left: one CSIStorageCapacity for each class and each place.

Turns the classes of a driver and the labels of its nodes into objects, and compares them each
minute, and whenever a volume was made or deleted, with what the driver says.

Holds: only objects with the driver's name and the provisioner's mark are changed; classes that bind
at once have none.

Mirrors  kubernetes-csi/external-provisioner v3.2 pkg/capacity: capacity.go, provision.go,
         topology/nodes.go (the segments of the nodes on which the driver has registered); flags
         capacity-poll-interval 1m, capacity-threads 1, capacity-for-immediate-binding false.
Differs  the objects have no owner, since the driver's process is no pod.
"""

from __future__ import annotations

from actors.csi.disks import Disks
from actors.csi.shell import DriverEnv
from sim.api.objects import key_of, labels_of, name_of, split_key
from sim.api.types import Obj
from sim.client import unmoved
from sim.units import BINARY_SI, MINUTE, MS, format_quantity, quantity_value

CAPACITIES, CLASSES, CSI_NODES = "csistoragecapacities", "storageclasses", "csinodes"
WORKERS = 1
POLL_US = 1 * MINUTE
SETTLE_US = 100 * MS  # from a change of classes or nodes to the comparison
MANAGER = "external-provisioner"
_SEPARATOR = " "  # between class and place in a key
_OBJECT = "\n"  # before the key of an object that is to be deleted


class Capacities:
    """The published capacities of one driver."""

    def __init__(self, env: DriverEnv, disks: Disks) -> None:
        self._env = env
        self._disks = disks
        self._client = env.connect("capacity")
        informers = env.informers
        self._objects, self._classes = informers[CAPACITIES], informers[CLASSES]
        self._nodes, self._csi_nodes = informers["nodes"], informers[CSI_NODES]
        self._queue = env.queue("csistoragecapacity")
        self._marks = {
            env.names.label_capacity_driver: env.driver.name,
            env.names.label_capacity_manager: MANAGER,
        }
        self._made: dict[str, Obj] = {}  # by key, until the informer shows them
        self._compares = False  # True while a comparison is scheduled

    def listen(self) -> None:
        """Register the handlers."""
        for informer in (self._classes, self._csi_nodes, self._objects):
            informer.on(self._changed, lambda _, new: self._changed(new), self._changed)
        self._nodes.on(self._changed, self._node_changed, self._changed, beat=unmoved)

    def start(self) -> None:
        """Start the worker and the polls."""
        self._env.work(self._queue, self._sync, WORKERS)
        self._poll(None)

    def refresh(self) -> None:
        """Compare again: a volume was made or deleted, or could not be made."""
        for key in self._wanted():
            self._queue.add(key)

    def _poll(self, _: object) -> None:
        self._compare(None)
        self._env.ctx.call_later_us(POLL_US, self._poll)

    def _changed(self, _: Obj) -> None:
        """Compare soon, once for all changes until then."""
        if not self._compares:
            self._compares = True
            self._env.ctx.call_later_us(SETTLE_US, self._compare)

    def _node_changed(self, old: Obj, new: Obj) -> None:
        key = self._env.driver.topology_key
        if labels_of(old).get(key) != labels_of(new).get(key):
            self._changed(new)

    # --- what has to exist ------------------------------------------------------------------------

    def _wanted(self) -> dict[str, tuple[str, str]]:
        """Class and place of each object, by its key in the queue."""
        driver = self._env.driver
        classes = [
            name_of(each)
            for each in self._classes.list()
            if each["provisioner"] == driver.name and each.get("volumeBindingMode") == "WaitForFirstConsumer"
        ]
        return {f"{name}{_SEPARATOR}{place}": (name, place) for name in classes for place in self._places()}

    def _places(self) -> list[str]:
        """The places of the nodes on which the driver has registered."""
        driver, found = self._env.driver, dict[str, None]()
        for csi_node in self._csi_nodes.list():
            if any(each["name"] == driver.name for each in csi_node["spec"].get("drivers") or ()):
                node = self._nodes.get(name_of(csi_node))
                if not driver.topology_key:
                    found[""] = None
                elif node is not None and driver.topology_key in labels_of(node):
                    found[labels_of(node)[driver.topology_key]] = None
        return sorted(found)

    def _existing(self) -> dict[str, Obj]:
        """The driver's objects by their key in the queue; of several the first by name."""
        found: dict[str, Obj] = {}
        for obj in self._objects.list():
            if self._marks.items() <= labels_of(obj).items():
                topology = (obj.get("nodeTopology") or {}).get("matchLabels") or {}
                place = topology.get(self._env.driver.topology_key, "")
                key = f"{obj.get('storageClassName')}{_SEPARATOR}{place}"
                self._made.pop(key, None)
                found.setdefault(key, obj)
        return {**found, **self._made}

    def _compare(self, _: object) -> None:
        self._compares = False
        wanted, existing = self._wanted(), self._existing()
        for key in wanted:
            self._queue.add(key)
        for key, obj in existing.items():
            if key not in wanted:
                self._queue.add(f"{_OBJECT}{key_of(obj)}")

    # --- one object -------------------------------------------------------------------------------

    async def _sync(self, key: str) -> str | None:
        if key.startswith(_OBJECT):
            reply = await self._client.delete(CAPACITIES, *split_key(key.removeprefix(_OBJECT)))
            return None if reply.ok or reply.reason == "NotFound" else reply.message
        wanted = self._wanted().get(key)
        if wanted is None:
            return None
        class_name, place = wanted
        size = self._disks.free(place)
        if size is None:
            return None
        held = self._existing().get(key)
        text = format_quantity(size, BINARY_SI)
        if held is None:
            reply = await self._client.create(
                CAPACITIES, self._namespace, self._object(class_name, place, text)
            )
        elif quantity_value(held.get("capacity") or "0") == size:
            return None
        else:
            reply = await self._client.update(CAPACITIES, {**held, "capacity": text})
        self._made.pop(key, None)
        if reply.ok:
            self._made[key] = reply.obj
        return None if reply.ok else reply.message

    @property
    def _namespace(self) -> str:
        return self._env.names.system_namespace

    def _object(self, class_name: str, place: str, capacity: str) -> Obj:
        names, key = self._env.names, self._env.driver.topology_key
        return {
            "apiVersion": names.api_version("storage", "v1"),
            "kind": "CSIStorageCapacity",
            "metadata": {"generateName": "csisc-", "labels": {**self._marks}},
            "storageClassName": class_name,
            "nodeTopology": {"matchLabels": {key: place}} if key else {},
            "capacity": capacity,
        }
