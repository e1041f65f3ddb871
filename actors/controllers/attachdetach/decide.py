"""Which volumes a pod needs, and what one pass of the reconciler does.  Pure.

Turns pods into the volumes that drivers attach for them, and what is wanted and attached into the
steps of a pass.

Holds: a volume that its node reports to use is not detached, unless the node is not healthy and
       six minutes have passed, or (with a gate) the node is out of service; before a volume is
       detached, the node's status ceases to name it; a volume for one node is attached to one.

Mirrors  kubernetes v1.25 pkg/controller/volume/attachdetach: reconciler/reconciler.go (reconcile,
         attachDesiredVolumes, syncStates), statusupdater/node_status_updater.go, util/util.go
         (ProcessPodVolumes, CreateVolumeSpec); pkg/volume/util/operationexecutor.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from actors.controllers.attachdetach.state import Attached, Pair, Wanted, World, multi_attach_text, shares
from actors.controllers.shared.steps import Event
from sim.api.kinds.common.volumes.binding import claim_name, disk_of, foreign_claim_problem
from sim.api.kinds.common.volumes.names import csi_volume_name
from sim.api.kinds.common.volumes.translation import translated
from sim.api.objects import is_ready, name_of, phase_of, status_of, uid_of
from sim.api.types import Obj, Reply
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import MINUTE, MS

PERIOD_US = 100 * MS  # ReconcilerLoopPeriod
UNMOUNT_MAX_US = 6 * MINUTE  # ReconcilerMaxWaitForUnmountDuration
ATTACH, DETACH = "attach", "detach"
Lookup = Callable[[str], Obj | None]
"""The object of a key, in the cache."""


class Objects(NamedTuple):
    """The objects that say which volumes a pod needs."""

    names: Names
    claim_of: Lookup
    volume_of: Lookup
    driver_of: Lookup

    def volumes_of(self, pod: Obj) -> Iterator[Obj]:
        """The volumes of a pod that a driver attaches."""
        namespace = pod["metadata"]["namespace"]
        for one in pod["spec"].get("volumes") or ():
            disk = translated(one)
            if disk is not None and self.is_attachable(disk):
                yield disk
            name = claim_name(pod, one)
            claim = self.claim_of(f"{namespace}/{name}") if name else None
            if claim is None or phase_of(claim) != "Bound":
                continue
            if "ephemeral" in one and foreign_claim_problem(pod, claim):
                continue
            volume = self.volume_of(claim["spec"].get("volumeName") or "")
            reference = None if volume is None else volume["spec"].get("claimRef")
            if volume is None or reference is None or reference.get("uid") != uid_of(claim):
                continue
            if self.is_attachable(volume):
                yield volume

    def is_attachable(self, volume: Obj) -> bool:
        """True if a driver attaches a volume."""
        disk = disk_of(volume["spec"])
        if disk is None:
            return False
        driver = self.driver_of(disk[0])
        return driver is None or driver["spec"].get("attachRequired") is not False

    def unique_name(self, volume: Obj) -> str:
        """The name of a volume that a driver attaches."""
        disk = disk_of(volume["spec"])
        assert disk is not None  # as `is_attachable` has seen
        return csi_volume_name(self.names, *disk)


def operation_key(pair: Pair, volume: Obj | None) -> str:
    """The name of operations that exclude each other."""
    return " ".join(pair) if shares(volume) else pair[0]


def use_problem(reply: Reply, volume: str) -> str:
    """Why a volume may not be detached, by its node as the API server has it; "" if it may."""
    if not reply.ok:
        return "" if reply.reason == "NotFound" else reply.message
    if volume in (status_of(reply.obj).get("volumesInUse") or ()):
        return "volume is still in use by node, according to Node status"
    return ""


# --- a pass of the reconciler ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the volumes of a node into its status.  Answer: False if that failed"""

    node: str
    volumes: list[Obj] | None


@dataclass(frozen=True, slots=True)
class Detach:
    """Begin to detach a volume.  Answer: False if that may not begin now

    verifies: True if the API server must say first that the node does not use the volume
    """

    pair: Pair
    key: str
    verifies: bool


@dataclass(frozen=True, slots=True)
class Attach:
    """Begin to attach a volume.  Answer: False if that may not begin now"""

    pair: Pair
    key: str
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class AskDriver:
    """Ask the driver of a volume.  Answer: True if the volume is attached"""

    pair: Pair


@dataclass(frozen=True, slots=True)
class Force:
    """Record that a volume is detached although its node may use it."""

    node: str
    waited_us: int
    out_of_service: bool


@dataclass(frozen=True, slots=True)
class PassAt:
    """Let another pass begin at a time, at the earliest."""

    at_us: int


Action = WriteStatus | Detach | Attach | AskDriver | Force | PassAt | Event


class Answer(NamedTuple):
    """What follows an action: its answer, True if it has none, and the time."""

    done: bool
    now_us: int


Steps = Generator[Action, Answer, None]


class Seen(NamedTuple):
    """What a pass sees besides the volumes.

    is_pending: True while an operation of this name runs
    wait_us: the rest of the pause after a failed operation, by its name and kind
    heeds_out_of_service: True if the taint of a node out of service allows to detach
    sync_period_us: of comparisons with what the drivers say; None: there are none
    """

    names: Names
    node_of: Lookup
    is_pending: Callable[[str], bool]
    wait_us: Callable[[str, str], int]
    heeds_out_of_service: bool
    sync_period_us: int | None


def reconcile(world: World, seen: Seen, now_us: int) -> Steps:
    """The steps of one pass."""
    return _Pass(world, seen, now_us).run()


class _Pass:
    """One pass, at the time of the last answer."""

    def __init__(self, world: World, seen: Seen, now_us: int) -> None:
        self.world = world
        self.seen = seen
        self.now_us = now_us

    def _do(self, action: Action) -> Generator[Action, Answer, bool]:
        answer = yield action
        self.now_us = answer.now_us
        return answer.done

    def run(self) -> Steps:
        world = self.world
        for pair in list(world.open):
            attached = world.attached.get(pair)
            if attached is not None and pair not in world.wanted:
                yield from self._detach(pair, attached)
        for pair, wanted in [(pair, world.wanted.get(pair)) for pair in world.open]:
            if wanted is not None and not wanted.under_way:
                yield from self._attach(pair, wanted)
        for node in [node for node, report in world.reports.items() if report.due]:
            yield from self._report(node)
        if self.seen.sync_period_us is not None and world.attached:
            yield from self._compare(self.seen.sync_period_us)

    def _detach(self, pair: Pair, attached: Attached) -> Steps:
        """Detach a volume that no pod needs, if it is safe."""
        key, now_us, node_name = operation_key(pair, attached.volume), self.now_us, pair[1]
        if self.seen.is_pending(key):
            return
        if wait_us := self.seen.wait_us(key, DETACH):
            yield from self._do(PassAt(now_us + wait_us))
            return
        if attached.detach_since_us is None:
            attached.detach_since_us = now_us
        waited_us = now_us - attached.detach_since_us
        late = waited_us > UNMOUNT_MAX_US
        node = self.seen.node_of(node_name)
        healthy = node is not None and is_ready(node)
        out = self.seen.heeds_out_of_service and node is not None and self._is_out_of_service(node)
        if attached.mounted and not (late and not healthy) and not out:
            if not late:
                yield from self._do(PassAt(attached.detach_since_us + UNMOUNT_MAX_US + 1))
            return
        self.world.unreport(pair)
        if not (yield from self._report(node_name)):
            self.world.report(pair)
            return
        if late or out:
            yield from self._do(Force(node_name, waited_us, out))
        if not (yield from self._do(Detach(pair, key, verifies=not (late or out)))):
            self.world.report(pair)

    def _is_out_of_service(self, node: Obj) -> bool:
        key = self.seen.names.taint_out_of_service
        return any(taint["key"] == key for taint in node["spec"].get("taints") or ())

    def _attach(self, pair: Pair, wanted: Wanted) -> Steps:
        """Attach a volume that pods need, unless it is attached elsewhere."""
        world, key = self.world, operation_key(pair, wanted.volume)
        if self.seen.is_pending(key):
            return
        attached = world.attached.get(pair)
        if attached is not None and attached.confirmed:
            world.keep(pair)
            return
        if not shares(wanted.volume) and (nodes := world.nodes_of(pair[0])):
            if not wanted.reported:
                wanted.reported = True
                users = world.users(pair[0], [node for node in nodes if node != pair[1]])
                for pod in wanted.pods.values():
                    text = f'Multi-Attach error for volume "{name_of(wanted.volume)}" '
                    text += multi_attach_text(pod, users)
                    yield from self._do(Event(pod, "Warning", "FailedAttachVolume", text))
            return
        if wait_us := self.seen.wait_us(key, ATTACH):
            yield from self._do(PassAt(self.now_us + wait_us))
            return
        wanted.under_way = yield from self._do(Attach(pair, key, wanted))

    def _report(self, node: str) -> Generator[Action, Answer, bool]:
        """Write the volumes of a node into its status, if that is due; False if it failed."""
        report = self.world.reports.get(node)
        if report is None or not report.due:
            return True
        report.due = False
        if self.seen.node_of(node) is None:
            return True
        volumes: list[Obj] = [{"name": name, "devicePath": ""} for name in report.volumes]
        if (yield from self._do(WriteStatus(node, volumes or None))):
            return True
        report.due = True
        yield from self._do(PassAt(self.now_us + PERIOD_US))
        return False

    def _compare(self, period_us: int) -> Steps:
        """Each period, compare with what the drivers say is attached."""
        world = self.world
        due_us = world.compared_us + period_us
        if self.now_us <= due_us:
            yield from self._do(PassAt(due_us + 1))
            return
        world.compared_us = self.now_us
        for pair, attached in list(world.attached.items()):
            if attached.confirmed and not self.seen.is_pending(operation_key(pair, attached.volume)):
                if not (yield from self._do(AskDriver(pair))):
                    world.detached(pair)
                    yield from self._do(PassAt(self.now_us))
        yield from self._do(PassAt(world.compared_us + period_us + 1))
