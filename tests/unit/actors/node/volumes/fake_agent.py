"""An agent and workers for a volume manager: time passes when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from types import SimpleNamespace
from typing import Any

from actors.node.pod_work import Work
from actors.node.runtime.mounts import Device
from actors.node.volumes.manager import VolumeManager
from sim.api.store import Item
from sim.api.types import NOT_FOUND, Obj, Reply
from sim.ident import NAMES
from sim.options.node.agent import parse_node_agent
from sim.options.storage_drivers import StorageDriver, StorageDrivers
from sim.units import SECOND

NAMES_ = NAMES["kubernetes"]
DISK = "disk.example"
UNIQUE = f"{NAMES_.volume_plugin_prefix}csi/{DISK}^h1"
READ_US = 1_000  # how long an answer of the API takes


class Agent:
    """One incarnation of an agent on a machine.

    objects: what the API has, by resource and name
    events: reason and text
    decisions: what was decided, and why
    reports: the volumes in use, each time that they changed
    writes: verb and object of the CSINode
    """

    def __init__(self, drivers: StorageDrivers, mounts: dict[str, Device] | None = None) -> None:
        self.now_us = 0
        self._numbers = count()
        self._queue: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self.options = parse_node_agent({})
        self.names = NAMES_
        self.node: Obj = {"metadata": {"name": "n1", "uid": "n", "labels": {}}, "status": {}}
        self.machine = SimpleNamespace(
            mounts={} if mounts is None else mounts,
            spec=SimpleNamespace(name="n1", zone="a"),
            host_files=SimpleNamespace(grouped={}, paths={}),
        )
        self.kernel = SimpleNamespace(cause=0)
        self.ctx = SimpleNamespace(kernel=self.kernel, call_at_us=self._call_at_us, decided=self._decided)
        self.api = self
        self.objects: dict[tuple[str, str], Obj] = {}
        self.events: list[tuple[str, str]] = []
        self.decisions: list[tuple[str, Any]] = []
        self.reports: list[list[str]] = []
        self.writes: list[tuple[str, Obj]] = []
        self.created = Reply(201, body={})
        self.resyncs: list[str] = []
        self.calls: list[tuple[float, str]] = []  # of the driver: second and operation
        self.drivers = drivers
        call = drivers.call

        def noted(name: str, operation: Any, node: str = "") -> Any:
            self.calls.append((self.now_us / SECOND, operation))
            return call(name, operation, node)

        drivers.call = noted  # type: ignore[method-assign]
        self.manager = VolumeManager(self, drivers)  # type: ignore[arg-type]

    # --- time -------------------------------------------------------------------------------------

    def _call_at_us(self, at_us: int, fn: Callable[[Any], None], arg: Any = None) -> None:
        heappush(self._queue, (at_us, next(self._numbers), fn, arg))

    def run(self, seconds: float) -> None:
        """Let time pass up to an instant."""
        end_us = round(seconds * SECOND)
        while self._queue and self._queue[0][0] <= end_us:
            at_us, _, fn, arg = heappop(self._queue)
            self.now_us = max(self.now_us, at_us)
            fn(arg)
        self.now_us = end_us

    # --- what the manager uses --------------------------------------------------------------------

    def get_object(self, resource: str, namespace: str, name: str, on_reply: Callable[[Reply], None]) -> None:
        obj = self.objects.get((resource, name))
        body = {"reason": "NotFound", "message": "not found"}
        reply = Reply(NOT_FOUND, body=body) if obj is None else Reply(200, item=Item("", obj, 0, 0))
        self._call_at_us(self.now_us + READ_US, on_reply, reply)

    def write_csi_node(self, verb: str, obj: Obj, on_reply: Callable[[Reply], None]) -> None:
        self.writes.append((verb, obj))
        on_reply(self.created)

    def read_csi_node(self, name: str, on_reply: Callable[[Reply], None]) -> None:
        self.writes.append(("read", {}))
        self.get_object("csinodes", "", name, on_reply)

    def patch_node_status(self, name: str, patch: Obj, on_reply: Callable[[Reply], None]) -> None:
        self.writes.append(("patch", patch))

    def event(self, pod: Obj, type_: str, reason: str, text: str) -> None:
        self.events.append((reason, text))

    def _decided(self, what: str, target: str, why: Any) -> None:
        self.decisions.append((f"{what} {target}", why))

    def volumes_changed(self) -> None:
        self.reports.append(self.manager.in_use())

    def resync(self, uid: str) -> None:
        self.resyncs.append(uid)

    # --- what a test does -------------------------------------------------------------------------

    def claim(self, phase: str = "Bound", **spec: Any) -> None:
        """A claim `c` and its volume `pv`."""
        meta = {"name": "c", "namespace": "default", "uid": "uid-c"}
        self.objects["persistentvolumeclaims", "c"] = {
            "metadata": meta,
            "spec": {"volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": phase, "capacity": {"storage": "1Gi"}},
        }
        self.objects["persistentvolumes", "pv"] = {
            "metadata": {"name": "pv"},
            "spec": {
                "claimRef": {"uid": "uid-c", "namespace": "default", "name": "c"},
                "csi": {"driver": DISK, "volumeHandle": "h1", "fsType": "ext4"},
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                **spec,
            },
        }

    def attach(self, *, used: bool = True) -> None:
        """The node's status lists the volume as attached, and as in use."""
        status = {"volumesAttached": [{"name": UNIQUE}], "volumesInUse": [UNIQUE] if used else []}
        self.node = {**self.node, "status": status}

    @property
    def mounted(self) -> dict[str, list[str]]:
        """The pods of each mounted volume."""
        return {name: [*device.pods] for name, device in self.machine.mounts.items()}


class Worker:
    """The worker of one pod; result: of its last piece of work, None while that waits."""

    def __init__(self, agent: Agent, uid: str = "u", **spec: Any) -> None:
        volumes = spec.pop("volumes", [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
        uses = "volumeDevices" if spec.pop("device", False) else "volumeMounts"
        container = {"name": "c", uses: [{"name": volume["name"]} for volume in volumes]}
        self.agent, self.uid = agent, uid
        self.pod: Obj = {
            "metadata": {"name": uid, "namespace": "default", "uid": uid},
            "spec": {"containers": [container], "volumes": volumes, **spec},
        }
        self.work: Work | None = None
        self.result: str | None = None

    def proceed(self, work: Work) -> None:
        """Continue the work until it waits or ends."""
        try:
            next(work)
        except StopIteration as end:
            self.result = end.value

    def _begin(self, work: Work) -> None:
        self.work, self.result = work, None
        self.proceed(work)

    def mount(self) -> bool:
        """Begin to wait for the volumes; False if the pod has none that are managed."""
        begun = self.agent.manager.begin(self)  # type: ignore[arg-type]
        if begun:
            self._begin(self.agent.manager.mount(self))  # type: ignore[arg-type]
        return begun

    def unmount(self) -> None:
        """Begin to wait for the end of the volumes."""
        self._begin(self.agent.manager.unmount(self))  # type: ignore[arg-type]


@contextmanager
def agent(known: bool = True, claimed: bool = True, **driver: Any) -> Iterator[Agent]:
    """An agent with the driver `DISK`, which does not need an attachment, or without it."""
    settings = {"attach_required": False, **driver}
    one = Agent(StorageDrivers([StorageDriver(DISK, **settings)] if known else []))
    if claimed:
        one.claim()
    yield one
