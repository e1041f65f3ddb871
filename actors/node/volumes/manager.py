"""Mounts the volumes of pods, and unmounts them when their pods have ended.

Each volume of a pod is a state machine (`TRANSITIONS`) that callbacks drive, beside the work of the
pod's worker, which waits for all of them: its disk is found behind its claim; the node's status has
to list it as in use, and then the controller has to list it as attached; then the driver mounts it.
What fails is tried again after a delay that doubles.

Holds: a pod without such volumes has no entry here; a mounted volume is in the machine's table of
mounts, so that the next incarnation of the agent finds it; a volume is listed as in use from the
time at which a pod here wants it until it is unmounted.

Mirrors  pkg/kubelet/volumemanager/{volume_manager,reconciler/reconciler}.go; pkg/volume/util/
         operationexecutor/operation_generator.go; pkg/volume/csi/{csi_attacher,csi_mounter}.go
         (v1.25).
Differs  what a pod needs is looked up when its worker waits for it, and again at its next sync
         (upstream: every 100 ms until it is found); the relabelling for SELinux, which a runtime
         does as it creates a container, is part of the mount; a mount and the set-up of its device
         are one call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum

from actors.node.pod_work import WAIT
from actors.node.runtime.mounts import Device
from actors.node.runtime.ports import Agent, NodePod
from actors.node.sources.references import MOUNT_WAIT_US, RETRY_MAX_US, RETRY_US
from actors.node.volumes.expansion import CALL_US, NO_ANSWER, Expansion
from actors.node.volumes.host_paths import checked
from actors.node.volumes.registration import csi_node, node_patch, reconciled
from actors.node.volumes.specs import (
    Target,
    claim_problem,
    disk_problem,
    managed_volumes,
    target_of,
    use_problem,
    used_volumes,
)
from sim.api.kinds.common.volumes.binding import claim_name
from sim.api.types import Obj, Reply
from sim.kernel.causes import caused_by
from sim.options.features.gates import READ_WRITE_ONCE_POD, enabled
from sim.options.storage_drivers import StorageDriver, StorageDrivers
from sim.transitions import Transitions
from sim.units import MS

POLL_US = 300 * MS  # volume_manager.go: podAttachAndMountRetryInterval
TIMED_OUT = "timed out waiting for the condition"
UNKNOWN_DRIVER = "{}csi: {} failed to {}: driver name {} not found in the list of registered CSI drivers"
# The step in events, and where and how a driver is missed, by: inline, block.
_STEPS = {
    (False, False): ("MountVolume.MountDevice", "attacher.MountDevice", "create newCsiDriverClient"),
    (True, False): ("MountVolume.SetUp", "mounter.SetUpAt", "get CSI client"),
    (False, True): ("MapVolume.SetUpDevice", "blockMapper.SetUpDevice", "get CSI client"),
}


class VolumeState(Enum):
    """The states of a volume of a pod."""

    LOOKUP = "lookup"
    ATTACH = "attach"
    MOUNT = "mount"
    MOUNTED = "mounted"
    UNMOUNT = "unmount"
    GONE = "gone"


LOOKUP, ATTACH, MOUNT, MOUNTED, UNMOUNT, GONE = VolumeState
TRANSITIONS = Transitions(
    LOOKUP,
    {
        LOOKUP: {
            ATTACH: "its disk is found, and has to be attached",
            MOUNT: "it is found, and needs no attachment",
            MOUNTED: "an earlier incarnation of the agent has mounted it",
            GONE: "the pod has ended",
        },
        ATTACH: {
            MOUNT: "the status of the node lists it as in use and as attached",
            GONE: "the pod has ended",
        },
        MOUNT: {
            MOUNT: "the mount has failed, and is tried again",
            MOUNTED: "the driver has mounted it",
            GONE: "the pod has ended, and the mount has failed or has not begun",
        },
        MOUNTED: {UNMOUNT: "the pod has ended"},
        UNMOUNT: {
            UNMOUNT: "the unmount has failed, and is tried again",
            GONE: "the driver has unmounted it, or there is no driver",
        },
        GONE: {},
    },
)


class Volume:
    """A volume of a pod.

    target: what is mounted; None until it is known
    delay_us: the wait after the next failure
    growth: the trace record by which its disk has become larger since it was mounted; None if it
        has not
    """

    __slots__ = ("delay_us", "growth", "obj", "state", "target")

    def __init__(self, obj: Obj) -> None:
        self.obj = obj
        self.target: Target | None = None
        self.state: VolumeState = TRANSITIONS.start
        self.delay_us = RETRY_US
        self.growth: int | None = None

    def move(self, state: VolumeState) -> None:
        """Pass to a state that may follow the present one."""
        self.state = TRANSITIONS.move(self.state, state)

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return str(self.obj["name"])


class PodVolumes:
    """The managed volumes of a pod.

    errors: reasons that end the wait of the worker
    ends: True once the pod's containers have ended
    wake: continues the worker that waits; None if none does
    since_us: when it began to wait
    """

    __slots__ = ("ends", "errors", "pod", "since_us", "volumes", "wake")

    def __init__(self, pod: Obj, volumes: list[Volume]) -> None:
        self.pod, self.volumes = pod, volumes
        self.errors: dict[str, None] = {}
        self.ends = False
        self.wake: Callable[[object], None] | None = None
        self.since_us = 0

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return str(self.pod["metadata"]["uid"])

    def unmounted(self) -> list[str]:
        """The names of the volumes that are not mounted, sorted."""
        return sorted(volume.name for volume in self.volumes if volume.state is not MOUNTED)


class VolumeManager:
    """The volumes of one agent incarnation."""

    __slots__ = ("_agent", "_alone", "_drivers", "_expansion", "_in_use", "_pods", "_registered")

    def __init__(self, agent: Agent, drivers: StorageDrivers) -> None:
        self._agent, self._drivers = agent, drivers
        self._expansion = Expansion(agent, drivers)
        self._alone = enabled(agent.options.feature_gates, READ_WRITE_ONCE_POD)
        self._pods: dict[str, PodVolumes] = {}
        self._registered = False
        self._in_use: list[str] = sorted(name for name, d in agent.machine.mounts.items() if d.attachable)

    # --- registration -----------------------------------------------------------------------------

    def register(self) -> None:
        """Create the CSINode, or bring it up to date, and describe the drivers on the Node.

        Once only, and not before the Node exists, which an agent that does not register waits for.
        """
        agent, drivers = self._agent, list(self._drivers)
        if self._registered or not agent.node:
            return
        self._registered = True
        wanted = csi_node(agent.node, drivers, agent.names)
        name = agent.machine.spec.name

        def read(reply: Reply) -> None:
            if reply.ok and (new := reconciled(reply.obj, wanted)) is not None:
                agent.api.write_csi_node("update", new, _ignore)

        def created(reply: Reply) -> None:
            if reply.reason == "AlreadyExists":
                agent.api.read_csi_node(name, read)

        agent.api.write_csi_node("create", wanted, created)
        if patch := node_patch(agent.node, drivers, agent.machine.spec.zone, agent.names):
            agent.api.patch_node_status(name, {"metadata": patch}, _ignore)
        # A machine that has booted uses none of the volumes that its node's status still names.
        if self._in_use or (agent.node.get("status") or {}).get("volumesInUse"):
            agent.volumes_changed()

    # --- for workers ------------------------------------------------------------------------------

    def begin(self, worker: NodePod) -> bool:
        """Look up what the pod needs, if it is not known; False if it needs nothing from here."""
        pod = self._pods.get(worker.uid)
        if pod is None:
            volumes = managed_volumes(worker.pod["spec"])
            if not volumes:
                return False
            pod = self._pods[worker.uid] = PodVolumes(worker.pod, [Volume(obj) for obj in volumes])
        pod.pod = worker.pod
        for volume in pod.volumes:
            if volume.target is None:
                self._look_up(pod, volume)
            elif volume.growth is not None and volume.state is MOUNTED:
                with caused_by(self._agent.ctx.kernel, volume.growth):
                    volume.growth = None
                    self._expand(pod, volume, volume.target)
        return True

    def mount(self, worker: NodePod) -> Generator[int, None, str]:
        """Wait until all volumes are mounted.  Returns the error that ends the wait, else ""."""
        pod = self._pods[worker.uid]
        error = yield from self._wait(pod, worker, lambda: not pod.unmounted())
        if not error:
            return ""
        mounts, devices = used_volumes(worker.pod["spec"])
        text = (
            f"unmounted volumes=[{' '.join(pod.unmounted())}], unattached volumes=[{' '.join(sorted({*mounts, *devices}))}]: "
            f"{error}"
        )
        text = f"Unable to attach or mount volumes: {text}"
        self._agent.event(worker.pod, "Warning", "FailedMount", text)
        return text

    def target(self, uid: str, name: str) -> Target | None:
        """What is mounted for a managed volume of a pod, if that is known."""
        pod = self._pods.get(uid)
        return next((one.target for one in pod.volumes if one.name == name), None) if pod else None

    def unmount(self, worker: NodePod) -> Generator[int, None, str]:
        """Unmount the volumes of a pod that has ended, and wait for it.  Returns the error, or ""."""
        pod = self._pods.get(worker.uid)
        if pod is None:
            return ""
        self._end(pod)
        mounted = [v for v in pod.volumes if v.state is not GONE]
        error = yield from self._wait(pod, worker, lambda: all(v.state is GONE for v in mounted))
        return f"mounted volumes=[{' '.join(sorted(v.name for v in mounted))}]: {error}" if error else ""

    def forget(self, uid: str) -> None:
        """Drop the record of a pod that no longer exists."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._end(pod)

    def reconstruct(self, uids: Callable[[str], bool]) -> None:
        """Unmount what an earlier incarnation mounted for pods that no longer run here.

        uids: True for a pod that runs
        """
        for unique, device in list(self._agent.machine.mounts.items()):
            for uid, name in list(device.pods.items()):
                if not uids(uid) and uid not in self._pods:
                    volume = Volume({"name": name})
                    volume.target = Target(name, unique, device.driver)
                    volume.move(MOUNTED)
                    pod = self._pods[uid] = PodVolumes({"metadata": {"uid": uid}}, [volume])
                    self._end(pod)

    def in_use(self) -> list[str]:
        """The unique names of the attachable volumes in use, sorted."""
        return self._in_use

    def _wait(
        self, pod: PodVolumes, worker: NodePod, is_done: Callable[[], bool]
    ) -> Generator[int, None, str]:
        """Look at the state at once and then every 0.3 s, until it is right or the time is over."""
        agent, work = self._agent, worker.work
        pod.since_us = agent.now_us
        until_us = pod.since_us + MOUNT_WAIT_US
        asleep = [False]

        def wake(_: object = None) -> None:
            if asleep[0] and work is not None:
                asleep[0] = False
                worker.proceed(work)

        agent.ctx.call_at_us(until_us, wake)
        pod.wake = wake
        while True:
            if pod.errors:
                error, pod.errors = "; ".join(sorted(pod.errors)), {}
                break
            if is_done() or agent.now_us >= until_us:
                error = "" if is_done() else TIMED_OUT
                break
            asleep[0] = True
            yield WAIT
        pod.wake = None
        return error

    def _notify(self, pod: PodVolumes) -> None:
        """Let the waiting worker see a change at its next poll."""
        if pod.wake is not None:
            past_us = self._agent.now_us - pod.since_us
            self._agent.ctx.call_at_us(pod.since_us - (-past_us // POLL_US) * POLL_US, pod.wake)

    # --- from the claim to the mount --------------------------------------------------------------

    def _look_up(self, pod: PodVolumes, volume: Volume) -> None:
        name = claim_name(pod.pod, volume.obj)
        if not name:
            self._found(pod, volume, None)
            return
        namespace = pod.pod["metadata"]["namespace"]

        def claim_read(reply: Reply) -> None:
            if problem := claim_problem(pod.pod, volume.obj, name, reply):
                self._refuse(pod, problem)
                return
            claim = reply.obj

            def disk_read(reply: Reply) -> None:
                if problem := disk_problem(pod.pod, volume.obj, claim, reply):
                    self._refuse(pod, problem)
                elif volume.target is None:
                    self._found(pod, volume, reply.obj)

            disk = claim["spec"]["volumeName"]
            self._agent.api.get_object("persistentvolumes", "", disk, disk_read)

        self._agent.api.get_object("persistentvolumeclaims", namespace, name, claim_read)

    def _refuse(self, pod: PodVolumes, problem: str) -> None:
        pod.errors[problem] = None
        self._notify(pod)

    def _found(self, pod: PodVolumes, volume: Volume, disk: Obj | None) -> None:
        target = volume.target = target_of(pod.pod, volume.obj, disk, self._agent.names)
        device = self._agent.machine.mounts.get(target.unique)
        if pod.ends:
            pass  # the volume is gone since the end of the pod
        elif device is not None and pod.uid in device.pods:
            volume.move(MOUNTED)  # by an earlier incarnation
            self._follow(target)
            self._expand(pod, volume, target)
        elif self._is_attachable(target):
            volume.move(ATTACH)
            self._report()
            self._attach((pod, volume))
            return
        else:
            self._mount((pod, volume))
            return
        self._notify(pod)

    def _is_attachable(self, target: Target) -> bool:
        driver = self._drivers.get(target.driver)
        return bool(target.driver) and not target.is_inline and (driver is None or driver.attach_required)

    def _attach(self, which: tuple[PodVolumes, Volume]) -> None:
        """Check whether the volume is listed as in use and as attached; the controller attaches."""
        volume = which[1]
        if volume.state is not ATTACH or volume.target is None:
            return
        status = self._agent.node.get("status") or {}
        unique = volume.target.unique
        attached = {row["name"]: None for row in status.get("volumesAttached") or ()}
        if unique in (status.get("volumesInUse") or ()) and unique in attached:
            volume.delay_us = RETRY_US
            self._mount(which)
        else:
            self._retry(volume, self._attach, which)

    def _retry(
        self,
        volume: Volume,
        step: Callable[[tuple[PodVolumes, Volume]], None],
        which: tuple[PodVolumes, Volume],
    ) -> None:
        self._agent.ctx.call_at_us(self._agent.now_us + volume.delay_us, step, which)
        volume.delay_us = min(2 * volume.delay_us, RETRY_MAX_US)

    def _mount(self, which: tuple[PodVolumes, Volume]) -> None:
        pod, volume = which
        target = volume.target
        if pod.ends or target is None:
            self._gone(pod, volume)
            return
        volume.move(MOUNT)
        mounts = self._agent.machine.mounts.get(target.unique)
        others = mounts is not None and any(uid != pod.uid for uid in mounts.pods)
        labels = self._agent.node["metadata"].get("labels") or {}
        step, problem = use_problem(target, labels, others, self._alone)
        if problem:
            self._failed(pod, volume, step, problem)
            return
        if target.driver:
            self._call_driver(pod, volume, target)
            return
        if target.host_path is not None:
            agent = self._agent
            problem = checked(*target.host_path, agent.machine.host_files.paths, agent.options)
        if problem:
            self._failed(pod, volume, "MountVolume.SetUp failed", problem)
        else:
            self._mounted(pod, volume, target)

    def _call_driver(self, pod: PodVolumes, volume: Volume, target: Target) -> None:
        agent, driver = self._agent, self._drivers.get(target.driver)
        step, at, what = _STEPS[target.is_inline, target.is_block]
        if driver is None:
            prefix = agent.names.volume_plugin_prefix
            self._failed(
                pod, volume, f"{step} failed", UNKNOWN_DRIVER.format(prefix, at, what, target.driver)
            )
            return
        call = self._drivers.call(target.driver, "mount", agent.machine.spec.name)
        takes_us, error = (CALL_US, NO_ANSWER) if call.takes_us is None else (call.takes_us, call.error)
        if not error and self._changes_group(driver, target, pod.pod):
            takes_us += driver.fs_group_us
        if not error and not target.is_block:
            takes_us += driver.selinux_us

        def expanded(problem: str) -> None:
            if problem:
                at = "MapVolume.MarkVolumeAsMounted" if target.is_block else "MountVolume.Setup"
                self._failed(pod, volume, f"{at} failed while expanding volume", problem)
            else:
                self._mounted(pod, volume, target)

        def returned(_: object) -> None:
            with caused_by(agent.ctx.kernel, call.cause):
                if error:
                    self._failed(pod, volume, f"{step} failed", error)
                elif pod.ends:
                    self._mounted(pod, volume, target)
                else:
                    self._expansion.during_mount(pod.pod, target, expanded)

        agent.ctx.call_at_us(agent.now_us + takes_us, returned, None)

    def _changes_group(self, driver: StorageDriver, target: Target, pod: Obj) -> bool:
        """True if the agent changes the group of all files: always, or where the root has another."""
        context = pod["spec"].get("securityContext") or {}
        policy = driver.fs_group_policy
        if context.get("fsGroup") is None or policy == "None" or not (policy == "File" or target.fs_group):
            return False
        known = self._agent.machine.host_files.grouped
        first = target.unique not in known
        known[target.unique] = None
        return first or (context.get("fsGroupChangePolicy") or "Always") == "Always"

    def _failed(self, pod: PodVolumes, volume: Volume, step: str, problem: str) -> None:
        """Report a failed mount, and try it again later."""
        target = volume.target
        assert target is not None
        if pod.ends:
            self._gone(pod, volume)
            return
        reason = "FailedMapVolume" if target.is_block else "FailedMount"
        text = f'{step} for volume "{target.title}" : {problem}'
        self._agent.event(pod.pod, "Warning", reason, text)
        self._retry(volume, self._mount, (pod, volume))

    def _mounted(self, pod: PodVolumes, volume: Volume, target: Target) -> None:
        agent = self._agent
        attachable = self._is_attachable(target)
        device = agent.machine.mounts.setdefault(target.unique, Device(target.driver, attachable))
        device.pods[pod.uid] = volume.name
        volume.move(MOUNTED)
        volume.delay_us = RETRY_US
        self._follow(target)
        if pod.ends:
            self._unmount((pod, volume))
            return
        if target.is_block:
            text = f'MapVolume.MapPodDevice succeeded for volume "{target.title}" '
            agent.event(pod.pod, "Normal", "SuccessfulMountVolume", text)
        self._notify(pod)

    # --- growth -----------------------------------------------------------------------------------

    def _follow(self, target: Target) -> None:
        """Let pods see at a regular sync that the disk of a mounted volume has become larger."""
        driver = self._drivers.get(target.driver)
        if target.disk is None or driver is None or not driver.node_expand_us:
            return

        def grown() -> None:
            for pod in self._pods.values():
                for volume in pod.volumes:
                    if volume.target is not None and volume.target.unique == target.unique:
                        volume.growth = self._agent.ctx.kernel.cause
                        self._agent.resync(pod.uid)

        self._drivers.on_growth(target.title, self._agent.machine.spec.name, grown)

    def _expand(self, pod: PodVolumes, volume: Volume, target: Target) -> None:
        self._expansion.online(pod.pod, target, lambda: volume.state is MOUNTED and not pod.ends)

    # --- the end ----------------------------------------------------------------------------------

    def _end(self, pod: PodVolumes) -> None:
        """Unmount what is mounted; a mount under way is undone when it has ended."""
        if pod.ends:
            return
        pod.ends = True
        for volume in pod.volumes:
            if volume.state is MOUNTED:
                self._unmount((pod, volume))
            elif volume.state in (LOOKUP, ATTACH):
                self._gone(pod, volume)

    def _unmount(self, which: tuple[PodVolumes, Volume]) -> None:
        pod, volume = which
        agent, target = self._agent, volume.target
        volume.move(UNMOUNT)
        if target is None or target.driver not in self._drivers:
            self._gone(pod, volume)
            return
        call = self._drivers.call(target.driver, "unmount", agent.machine.spec.name)
        takes_us, error = (CALL_US, NO_ANSWER) if call.takes_us is None else (call.takes_us, call.error)

        def returned(_: object) -> None:
            with caused_by(agent.ctx.kernel, call.cause):
                if error:
                    meta = pod.pod["metadata"]
                    why = {"volume": volume.name, "error": error, "wait_us": volume.delay_us}
                    agent.ctx.decided("unmount-fails", f"pods/{meta['namespace']}/{meta['name']}", why)
                    self._retry(volume, self._unmount, which)
                else:
                    self._gone(pod, volume)

        agent.ctx.call_at_us(agent.now_us + takes_us, returned, None)

    def _gone(self, pod: PodVolumes, volume: Volume) -> None:
        volume.move(GONE)
        mounts, target = self._agent.machine.mounts, volume.target
        device = None if target is None else mounts.get(target.unique)
        if device is not None and target is not None:
            device.pods.pop(pod.uid, None)
            if not device.pods:
                del mounts[target.unique]
                self._drivers.on_growth(target.title, self._agent.machine.spec.name, None)
        self._report()
        self._notify(pod)

    def _report(self) -> None:
        """List the volumes in use again."""
        used = {name: None for name, device in self._agent.machine.mounts.items() if device.attachable}
        for pod in self._pods.values():
            for volume in pod.volumes:
                target = volume.target
                if target is not None and volume.state is not GONE and self._is_attachable(target):
                    used[target.unique] = None
        found = sorted(used)
        if found != self._in_use:
            self._in_use = found
            self._agent.volumes_changed()


def _ignore(_: Reply) -> None:
    """A registration that fails is repeated when the agent starts again."""
