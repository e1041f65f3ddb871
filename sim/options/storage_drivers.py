"""The storage drivers of a cluster: what each can do, how long it takes, and what is wrong with it.

Turns the drivers of a scenario and the faults in force into the result of each call of a driver.
The processes of the drivers (`actors.csi`) and the node agents share one `StorageDrivers` and do
not import each other.

A caller asks before a call, and waits by the result:

    call = drivers.call(driver, "mount", node)
    if call.takes_us is None:      the call does not return: the caller's own deadline ends it
    else wait call.takes_us; then `call.error` is "" or the text of the failure

Holds: a fault that begins or ends during a call does not change the call.

Mirrors  the calls of the Container Storage Interface v1.6: CreateVolume (provision), DeleteVolume,
         ControllerPublishVolume (attach), ControllerUnpublishVolume (detach), NodeStageVolume and
         NodePublishVolume (mount), NodeUnpublishVolume and NodeUnstageVolume (unmount),
         ControllerExpandVolume (expand), NodeExpandVolume (node-expand).
Differs  staging and publishing are one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from sim.dataclass import dataclass
from sim.units import MS, SECOND

Operation = Literal["provision", "delete", "attach", "detach", "mount", "unmount", "expand", "node-expand"]
OPERATIONS: tuple[Operation, ...] = (
    "provision",
    "delete",
    "attach",
    "detach",
    "mount",
    "unmount",
    "expand",
    "node-expand",
)
BY_NODE: tuple[Operation, ...] = ("mount", "unmount", "node-expand")  # carried out on a node
How = Literal["slow", "failing", "hanging", "away"]
# A gRPC client reports a driver of which no process listens like this.
UNREACHABLE = (
    'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing'
    ' dial unix /csi/csi.sock: connect: connection refused"'
)
FAILED = "rpc error: code = Internal desc = the driver failed"


@dataclass(frozen=True, slots=True)
class StorageDriver:
    """One simulated storage driver.

    name: as in StorageClasses, CSIDriver objects and volumes
    provision_us, delete_us: time to create and to delete a disk
    attach_us, detach_us: time until a disk is on a node, and off it again
    mount_us, unmount_us: time that the node needs for one volume of one pod
    expand_us: time to make a disk larger
    node_expand_us: time that a node needs to make the file system of a disk larger; 0: it is as
        large as its disk without work of the node
    fs_group_us: additional time of the first mount for a pod with an fsGroup, in which the owner
        of every file is changed
    selinux_us: additional time of a mount for a pod, in which every file is relabelled
    limit_per_node: number of disks that a node can have attached; None: no limit
    access_modes: those that the driver can provision
    expandable: True if disks can be made larger
    offline: True if only disks that are attached nowhere can be made larger
    clones: True if a disk can be made as a copy of another one
    zones: where disks can be; empty: wherever a node is
    topology_key: the label of nodes that a disk and its pods have the same value of; "" if every
        node reaches every disk
    attach_required: False if a disk is mounted without being attached, such as a file share
    fs_group_policy: ReadWriteOnceWithFSType, File or None, as in CSIDriver objects
    capacity: bytes that can be provisioned in each zone; None: no limit
    """

    name: str
    provision_us: int = 1 * SECOND
    delete_us: int = 1 * SECOND
    attach_us: int = 2 * SECOND
    detach_us: int = 2 * SECOND
    mount_us: int = 500 * MS
    unmount_us: int = 200 * MS
    expand_us: int = 1 * SECOND
    node_expand_us: int = 500 * MS
    fs_group_us: int = 0
    selinux_us: int = 0
    limit_per_node: int | None = None
    access_modes: tuple[str, ...] = ("ReadWriteOnce", "ReadWriteOncePod")
    expandable: bool = True
    offline: bool = False
    clones: bool = True
    zones: tuple[str, ...] = ()
    topology_key: str = ""
    attach_required: bool = True
    fs_group_policy: str = "ReadWriteOnceWithFSType"
    capacity: int | None = None

    def time_us(self, operation: Operation) -> int:
        """The time of an operation of a healthy driver."""
        return {
            "provision": self.provision_us,
            "delete": self.delete_us,
            "attach": self.attach_us,
            "detach": self.detach_us,
            "mount": self.mount_us,
            "unmount": self.unmount_us,
            "expand": self.expand_us,
            "node-expand": self.node_expand_us,
        }[operation]


@dataclass(frozen=True, slots=True)
class DriverFault:
    """What is wrong with a driver.

    how: slow, failing and hanging are about operations; away: the driver does not run
    operations: empty for all
    nodes: empty for everywhere; operations without a node (provision, delete, expand) are then
        included, otherwise not
    by_us, factor: of a slow one: time is multiplied, then added
    text: of a failing one: the error that calls return
    cause: the trace record that imposed it
    """

    how: How
    operations: tuple[Operation, ...] = ()
    nodes: tuple[str, ...] = ()
    by_us: int = 0
    factor: float = 1
    text: str = FAILED
    cause: int = 0

    def concerns(self, operation: Operation, node: str) -> bool:
        """True if the fault changes this operation at this node.

        Attaching concerns a node, and is not carried out there.
        """
        if self.how == "away" and self.nodes and operation not in BY_NODE:
            return False
        return (not self.operations or operation in self.operations) and self.is_at(node)

    def is_at(self, node: str) -> bool:
        """True if the fault is in force at a node, or ("") in the processes of the control plane."""
        return not self.nodes or node in self.nodes


@dataclass(frozen=True, slots=True)
class DriverCall:
    """What a call of a driver comes to.

    takes_us: the time until it returns; None: it does not return
    error: the text of its failure, "" if it succeeds
    cause: the trace record of the fault that changed it; 0 if none did
    """

    takes_us: int | None
    error: str = ""
    cause: int = 0


class StorageDrivers:
    """The drivers of a cluster and their faults in force."""

    def __init__(self, drivers: Iterable[StorageDriver] = ()) -> None:
        self._drivers: Mapping[str, StorageDriver] = {driver.name: driver for driver in drivers}
        self._faults: dict[str, tuple[DriverFault, ...]] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._growth: dict[tuple[str, str], Callable[[], None]] = {}
        self._room: list[tuple[str, Callable[[], None]]] = []

    def __iter__(self) -> Iterator[StorageDriver]:
        return iter(self._drivers.values())

    def __contains__(self, name: object) -> bool:
        return name in self._drivers

    def __len__(self) -> int:
        return len(self._drivers)

    def get(self, name: str) -> StorageDriver | None:
        """The driver of a name; None if the cluster has no such driver."""
        return self._drivers.get(name)

    def call(self, name: str, operation: Operation, node: str = "") -> DriverCall:
        """What a call that begins now comes to.  node: where it happens; "" for none."""
        driver = self._drivers[name]
        faults = [f for f in self._faults.get(name, ()) if f.concerns(operation, node)]
        by_how = {how: next((f for f in faults if f.how == how), None) for how in ("away", "hanging")}
        if (away := by_how["away"]) is not None:
            return DriverCall(0, UNREACHABLE, away.cause)
        if (hanging := by_how["hanging"]) is not None:
            return DriverCall(None, "", hanging.cause)
        takes_us: float = driver.time_us(operation)
        for fault in faults:
            takes_us *= fault.factor
        takes_us += sum(fault.by_us for fault in faults)
        failing = next((f for f in faults if f.how == "failing"), None)
        blamed = failing or next(iter(faults), None)
        error = "" if failing is None else failing.text
        return DriverCall(round(takes_us), error, 0 if blamed is None else blamed.cause)

    def away(self, name: str, node: str = "") -> DriverFault | None:
        """The fault by which a driver does not run at a node, or ("") in its own process."""
        return next((f for f in self._faults.get(name, ()) if f.how == "away" and f.is_at(node)), None)

    # --- faults -----------------------------------------------------------------------------------

    def set_faults(self, name: str, faults: Sequence[DriverFault]) -> None:
        """Let exactly these faults of a driver be in force."""
        self._faults[name] = tuple(faults)
        for listener in [*self._listeners]:
            listener(name)

    def on_change(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with the name of each driver of which a fault begins or ends; the result
        ends that.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # --- growth -----------------------------------------------------------------------------------

    def on_growth(self, volume: str, node: str, listener: Callable[[], None] | None) -> None:
        """Call `listener` when the disk of a persistent volume has become larger; None ends that.

        A node has one listener for a volume. It stands for what an agent would see by reading the
        volume's object again and again.
        """
        if listener is None:
            self._growth.pop((volume, node), None)
        else:
            self._growth[volume, node] = listener

    def on_room(self, claim: str, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when the file system of a claim has become larger; the result ends that.

        claim: the key of the claim
        """
        entry = (claim, listener)
        self._room.append(entry)
        return lambda: self._room.remove(entry) if entry in self._room else None

    def has_room(self, claim: str) -> None:
        """The file system of a claim has become larger."""
        for name, listener in [*self._room]:
            if name == claim:
                listener()

    def grown(self, volume: str) -> None:
        """The disk of a persistent volume has become larger."""
        for listener in [each for (name, _), each in self._growth.items() if name == volume]:
            listener()


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """A driver of a cluster, and the StorageClass of its disks.

    class_name: of the StorageClass that is made at the start
    binding_mode: Immediate or WaitForFirstConsumer
    reclaim_policy: Delete or Retain
    default: True if claims without a class get this one
    """

    driver: StorageDriver
    class_name: str
    binding_mode: str = "Immediate"
    reclaim_policy: str = "Delete"
    default: bool = False


def driver_process(driver: str) -> str:
    """The name of the process of a driver."""
    return f"csi-{driver}"


def driver_account(driver: str) -> str:
    """The name of the service account of a driver's process."""
    return f"csi-{driver}"
