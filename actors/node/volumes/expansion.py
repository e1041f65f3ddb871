"""Makes file systems of volumes as large as their disks, when they are mounted or while they are.

Turns a claim that has less by its status than its volume has into a call of the driver, and then
into the claim's new status.

Holds: a file system that follows its disk while it is mounted does so at a regular sync of its pod.

Mirrors  pkg/volume/util/operationexecutor/operation_generator.go: expandVolumeDuringMount,
         doOnlineExpansion, legacyCallNodeExpandOnPlugin; pkg/volume/csi/expander.go;
         pkg/volume/util/resize_util.go: MarkFSResizeFinished; pkg/kubelet/volumemanager/populator/
         desired_state_of_world_populator.go: checkVolumeFSResize (v1.25).
Differs  a size that another program than the driver writes into a volume is seen at the next mount.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.node.runtime.ports import Agent
from actors.node.sources.references import RETRY_MAX_US, RETRY_US
from actors.node.volumes.specs import Target
from sim.api.kinds.common.volumes.binding import capacity_bytes, claimed_bytes, resize_conditions
from sim.api.objects import key_of, status_of
from sim.api.types import Obj, Reply
from sim.client.events.recorder import EventKind
from sim.kernel.causes import caused_by
from sim.options.storage_drivers import StorageDrivers
from sim.units import SECOND

CALL_US = 120 * SECOND  # csi_plugin.go: csiTimeout
NO_ANSWER = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
READ_ONLY = "requested read-only file system"
CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
Then = Callable[[str], None]


class Expansion:
    """The file systems of one agent incarnation."""

    __slots__ = ("_agent", "_drivers")

    def __init__(self, agent: Agent, drivers: StorageDrivers) -> None:
        self._agent, self._drivers = agent, drivers

    def during_mount(self, pod: Obj, target: Target, then: Then) -> None:
        """Let a file system that was mounted fit its disk; `then` gets the error, "" for none."""
        disk = target.disk
        if disk is None or target.driver not in self._drivers:
            then("")
            return

        def read(reply: Reply) -> None:
            if not reply.ok:
                then(f"mountVolume.NodeExpandVolume get PVC failed : {reply.message}")
            elif claimed_bytes(reply.obj) >= capacity_bytes(disk):
                then("")
            elif target.read_only:
                text = f'MountVolume.NodeExpandVolume failed for volume "{target.title}" {READ_ONLY}'
                self._report(pod, reply.obj, "Warning", "FileSystemResizeFailed", text)
                then("")
            else:
                self._expand(pod, target, reply.obj, disk, then)

        self._read_claim(disk, read)

    def online(self, pod: Obj, target: Target, wanted: Callable[[], bool], delay_us: int = RETRY_US) -> None:
        """Let a mounted file system fit its disk, and try again after a failure.

        wanted: False once the volume is not mounted any more
        delay_us: the wait after a failure, which doubles
        """
        if target.disk is None or target.read_only or not wanted():
            return

        def over(error: str) -> None:
            if not error or not wanted():
                return
            text = f'NodeExpandVolume.NodeExpandVolume failed for volume "{target.title}" : {error}'
            self._agent.event(pod, "Warning", "VolumeResizeFailed", text)
            later_us = min(2 * delay_us, RETRY_MAX_US)
            self._agent.ctx.call_at_us(
                self._agent.now_us + delay_us, lambda _: self.online(pod, target, wanted, later_us)
            )

        def claim_read(claim: Reply) -> None:
            def disk_read(disk: Reply) -> None:
                if claim.ok and disk.ok and claimed_bytes(claim.obj) < capacity_bytes(disk.obj):
                    self._expand(pod, target, claim.obj, disk.obj, over)

            self._agent.api.get_object(VOLUMES, "", target.title, disk_read)

        self._read_claim(target.disk, claim_read)

    def _read_claim(self, disk: Obj, then: Callable[[Reply], None]) -> None:
        reference = disk["spec"]["claimRef"]
        self._agent.api.get_object(CLAIMS, reference["namespace"], reference["name"], then)

    def _expand(self, pod: Obj, target: Target, claim: Obj, disk: Obj, then: Then) -> None:
        agent, driver = self._agent, self._drivers.get(target.driver)
        if driver is None or not driver.node_expand_us:
            plugin = f"{agent.names.volume_plugin_prefix}csi/{target.driver}"
            then(f"Expander.NodeExpand found CSI plugin {plugin} to not support node expansion")
            return
        call = self._drivers.call(target.driver, "node-expand", agent.machine.spec.name)
        takes_us, error = (CALL_US, NO_ANSWER) if call.takes_us is None else (call.takes_us, call.error)

        def returned(_: object) -> None:
            with caused_by(agent.ctx.kernel, call.cause):
                if error:
                    then(f"Expander.NodeExpand failed to expand the volume : {error}")
                else:
                    self._expanded(pod, target, claim, disk, then)

        agent.ctx.call_at_us(agent.now_us + takes_us, returned, None)

    def _expanded(self, pod: Obj, target: Target, claim: Obj, disk: Obj, then: Then) -> None:
        node, meta = self._agent.machine.spec.name, claim["metadata"]
        text = f'MountVolume.NodeExpandVolume succeeded for volume "{target.title}" {node}'
        self._report(pod, claim, "Normal", "FileSystemResizeSuccessful", text)
        status = {
            "capacity": {"storage": disk["spec"]["capacity"]["storage"]},
            "conditions": resize_conditions(status_of(claim), "") or None,
        }

        self._drivers.has_room(key_of(claim))

        def written(reply: Reply) -> None:
            then(
                "" if reply.ok else f"mountVolume.NodeExpandVolume update PVC status failed : {reply.message}"
            )

        self._agent.api.patch_claim_status(meta["namespace"], meta["name"], {"status": status}, written)

    def _report(self, pod: Obj, claim: Obj, type_: EventKind, reason: str, text: str) -> None:
        self._agent.event(pod, type_, reason, text)
        self._agent.event_about(claim, type_, reason, text)
