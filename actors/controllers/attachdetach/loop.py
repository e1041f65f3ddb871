"""Attach-detach controller: attaches the volumes of pods to their nodes, and detaches those that
no pod needs.

Turns events of pods, nodes and claims into a wanted state, and reconciles what is attached with it.

Holds: a volume that its node reports to use is not detached, unless the node is not healthy and
       six minutes have passed, or (with a gate) the node is out of service; before a volume is
       detached, the node's status ceases to name it; a volume for one node is attached to one.

Mirrors  kubernetes v1.25 pkg/controller/volume/attachdetach: attach_detach_controller.go,
         reconciler/reconciler.go, populator/desired_state_of_world_populator.go,
         statusupdater/node_status_updater.go, util/util.go; pkg/volume/util/operationexecutor.
Differs  a pass begins at whole multiples of its period, and only if something has changed or is
         due; only volumes of CSI drivers and of plugins that have migrated are attached, the latter
         at every node; iscsi, fc and rbd volumes count as never attached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from actors.controllers.attachdetach.attacher import Attacher
from actors.controllers.attachdetach.state import Attached, Pair, Wanted, World, multi_attach_text, shares
from actors.controllers.shared.metering import count, observe
from actors.controllers.shared.operations import Operations
from actors.controllers.shared.pods_by_claim import CLAIM_INDEX, index_by_claim, is_terminated
from actors.controllers.shared.shell import Env, run_workers
from sim.api.kinds.common.volumes.binding import claim_name, disk_of, foreign_claim_problem, uses_claims
from sim.api.kinds.common.volumes.names import csi_volume_name, csi_volume_of
from sim.api.kinds.common.volumes.translation import translated, uses_disks
from sim.api.objects import annotations_of, is_ready, key_of, name_of, phase_of, status_of, uid_of
from sim.api.types import Obj
from sim.client import unmoved
from sim.kernel.sync import Future
from sim.options.features.gates import OUT_OF_SERVICE, enabled
from sim.units import MINUTE, MS, SECOND

CLIENT = "attachdetach-controller"
PERIOD_US = 100 * MS  # ReconcilerLoopPeriod
UNMOUNT_MAX_US = 6 * MINUTE  # ReconcilerMaxWaitForUnmountDuration
POPULATE_US, RELIST_US = 1 * MINUTE, 3 * MINUTE  # DesiredStateOfWorldPopulator...
CLAIM_WORKERS = 1
ATTACH, DETACH = "attach", "detach"
Measured = Literal["volume_attach", "volume_detach"]


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    await AttachDetach(env).run()


class AttachDetach:
    """Shell of the controller: handlers, and the passes that reconcile."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._ctx = env.ctx
        self._names = env.names
        self._client = env.client(CLIENT)
        self._recorder = env.recorder(CLIENT, self._client)
        informers = env.informers
        self._pods, self._nodes = informers["pods"], informers["nodes"]
        self._claims, self._volumes = informers["persistentvolumeclaims"], informers["persistentvolumes"]
        self._drivers = informers["csidrivers"]
        self._attachments = informers["volumeattachments"]
        self._attacher = Attacher(env, self._client)
        self._operations = Operations(env.ctx, "attach-detach")
        self._queue = env.queue("pvcs")
        self._world = World()
        self._managed: dict[str, bool] = {}  # nodes, and if they keep volumes of ended pods
        self._began_us = -1
        self._due_us: int | None = None  # of the next pass
        self._wake: Future | None = None  # of the loop, while it waits
        self._synced_us = self._listed_us = 0
        self._populates = False
        self._heeds_out_of_service = enabled(env.options.feature_gates, OUT_OF_SERVICE)

    async def run(self) -> None:
        """Start the handlers and reconcile until the process ends."""
        index_by_claim(self._pods)
        self._pods.on(self._pod_changed, lambda _, new: self._pod_changed(new), self._pod_gone)
        self._nodes.on(
            self._node_added, lambda _, new: self._node_changed(new), self._node_gone, beat=unmoved
        )
        self._claims.on(self._claim_changed, lambda _, new: self._claim_changed(new))
        await self._env.informers.start_and_sync()
        self._began_us = self._synced_us = self._listed_us = self._ctx.now_us()
        self._populate_actual()
        for pod in self._pods.list():
            self._pod_changed(pod)
        run_workers(self._env, self._queue, self._sync_claim, CLAIM_WORKERS)
        while True:
            if self._due_us is None or self._due_us > self._ctx.now_us():
                self._wake = self._ctx.future("a change of volumes")
                await self._wake.wait()
                self._wake = None
            self._due_us = None
            await self._reconcile()

    def _populate_actual(self) -> None:
        """What is attached, by the nodes and by the attachments that exist."""
        for node in self._nodes.list():
            name, status = name_of(node), status_of(node)
            for one in status.get("volumesAttached") or ():
                self._world.mark((one["name"], name), None, confirmed=True)
            self._node_changed(node)
        for attachment in self._attachments.list():
            spec = attachment["spec"]
            volume = self._volumes.get(spec["source"].get("persistentVolumeName") or "")
            if volume is None or not self._is_attachable(volume):
                continue
            pair = (self._unique_name(volume), spec["nodeName"])
            if pair not in self._world.attached:
                self._world.mark(pair, volume, confirmed=False)

    # --- events -----------------------------------------------------------------------------------

    def _pod_changed(self, pod: Obj) -> None:
        node = pod["spec"].get("nodeName")
        if node and self._began_us >= 0 and (uses_claims(pod) or uses_disks(pod)):
            self._process(pod, not is_terminated(pod) or self._managed.get(node, False))

    def _pod_gone(self, pod: Obj) -> None:
        if pod["spec"].get("nodeName"):
            self._process(pod, wanted=False)

    def _process(self, pod: Obj, wanted: bool) -> None:
        """Note which volumes of a pod are wanted at its node."""
        node, changed = pod["spec"]["nodeName"], False
        if node not in self._managed:
            return
        for volume in self._volumes_of(pod):
            pair = (self._unique_name(volume), node)
            if wanted:
                changed |= self._world.want(pair, volume, pod)
                attached = self._world.attached.get(pair)
                if attached is not None and attached.volume is None:
                    attached.volume = volume  # found at the start without its object
            else:
                changed |= self._world.unwant(pair, uid_of(pod))
        if changed:
            self._reconcile_at(self._ctx.now_us())
            self._populate_later()

    def _volumes_of(self, pod: Obj) -> Iterator[Obj]:
        """The volumes of a pod that a driver attaches."""
        namespace = pod["metadata"]["namespace"]
        for one in pod["spec"].get("volumes") or ():
            disk = translated(one)
            if disk is not None and self._is_attachable(disk):
                yield disk
            name = claim_name(pod, one)
            claim = self._claims.get(f"{namespace}/{name}") if name else None
            if claim is None or phase_of(claim) != "Bound":
                continue
            if "ephemeral" in one and foreign_claim_problem(pod, claim):
                continue
            volume = self._volumes.get(claim["spec"].get("volumeName") or "")
            reference = None if volume is None else volume["spec"].get("claimRef")
            if volume is None or reference is None or reference.get("uid") != uid_of(claim):
                continue
            if self._is_attachable(volume):
                yield volume

    def _is_attachable(self, volume: Obj) -> bool:
        disk = disk_of(volume["spec"])
        if disk is None:
            return False
        driver = self._drivers.get(disk[0])
        return driver is None or driver["spec"].get("attachRequired") is not False

    def _unique_name(self, volume: Obj) -> str:
        disk = disk_of(volume["spec"])
        assert disk is not None  # as `_is_attachable` has seen
        return csi_volume_name(self._names, *disk)

    def _node_added(self, node: Obj) -> None:
        self._node_changed(node)
        report = self._world.reports.get(name_of(node))
        if report is not None:
            report.due = True
            self._reconcile_at(self._ctx.now_us())

    def _node_changed(self, node: Obj) -> None:
        name, marks = name_of(node), annotations_of(node)
        if self._names.annotation_attach_detach in marks:
            self._managed[name] = marks.get(self._names.annotation_keep_volumes) == "true"
        if self._world.volumes_at(name):
            self._world.set_in_use(name, status_of(node).get("volumesInUse") or ())
            self._reconcile_at(self._ctx.now_us())

    def _node_gone(self, node: Obj) -> None:
        name = name_of(node)
        if not self._world.is_wanted_at(name):
            self._managed.pop(name, None)
        if self._world.volumes_at(name):
            self._reconcile_at(self._ctx.now_us())

    def _claim_changed(self, claim: Obj) -> None:
        if phase_of(claim) == "Bound":
            self._queue.add(key_of(claim))

    async def _sync_claim(self, key: str) -> str | None:
        """A claim is bound: its pods can have their volume."""
        for pod in self._pods.by_index(CLAIM_INDEX, key):
            if pod["spec"].get("nodeName") and not is_terminated(pod):
                self._pod_changed(pod)
        return None

    # --- the populator ----------------------------------------------------------------------------

    def _populate_later(self) -> None:
        """Compare with the pods each minute while volumes are wanted."""
        if not self._populates and self._world.wanted:
            self._populates = True
            passed_us = (self._ctx.now_us() - self._began_us) % POPULATE_US
            self._ctx.call_later_us(POPULATE_US - passed_us, self._populate)

    def _populate(self, _: object) -> None:
        self._populates = False
        for pair, wanted in list(self._world.wanted.items()):
            for uid, pod in list(wanted.pods.items()):
                seen = self._pods.get(key_of(pod))
                is_there = seen is not None and uid_of(seen) == uid
                keeps = self._managed.get(pair[1], False)
                if is_there and seen is not None and (keeps or not is_terminated(seen)):
                    continue
                if self._world.unwant(pair, uid):
                    self._reconcile_at(self._ctx.now_us())
        if self._ctx.now_us() - self._listed_us >= RELIST_US:
            self._listed_us = self._ctx.now_us()
            for pod in self._pods.list():
                self._pod_changed(pod)
        self._populate_later()

    # --- reconciling ------------------------------------------------------------------------------

    def _reconcile_at(self, at_us: int) -> None:
        """Let a pass begin at the first multiple of the period that is not before `at_us`."""
        if self._began_us < 0:
            return
        periods = -((self._began_us - at_us) // PERIOD_US)
        due_us = max(self._began_us + periods * PERIOD_US, self._ctx.now_us())
        if self._due_us is None or due_us < self._due_us:
            self._due_us = due_us
            self._ctx.call_later_us(due_us - self._ctx.now_us(), self._tick)

    def _tick(self, _: object) -> None:
        if self._wake is not None and self._due_us is not None and self._due_us <= self._ctx.now_us():
            self._wake.set(None)

    async def _reconcile(self) -> None:
        world = self._world
        for pair in list(world.open):
            attached = world.attached.get(pair)
            if attached is not None and pair not in world.wanted:
                await self._detach(pair, attached)
        for pair, wanted in [(pair, world.wanted.get(pair)) for pair in world.open]:
            if wanted is not None and not wanted.under_way:
                self._attach(pair)
        for node in [node for node, report in world.reports.items() if report.due]:
            await self._report(node)
        await self._verify()

    def _key(self, pair: Pair, volume: Obj | None) -> str:
        """The name of operations that exclude each other."""
        return " ".join(pair) if shares(volume) else pair[0]

    async def _detach(self, pair: Pair, attached: Attached) -> None:
        """Detach a volume that no pod needs, if it is safe."""
        now_us, (_, node_name) = self._ctx.now_us(), pair
        key = self._key(pair, attached.volume)
        if self._operations.is_pending(key):
            return
        if wait_us := self._operations.wait_us(key, DETACH):
            self._reconcile_at(now_us + wait_us)
            return
        if attached.detach_since_us is None:
            attached.detach_since_us = now_us
        late = now_us - attached.detach_since_us > UNMOUNT_MAX_US
        node = self._nodes.get(node_name)
        healthy = node is not None and is_ready(node)
        out = self._heeds_out_of_service and node is not None and self._is_out_of_service(node)
        if attached.mounted and not (late and not healthy) and not out:
            if not late:
                self._reconcile_at(attached.detach_since_us + UNMOUNT_MAX_US + 1)
            return
        self._world.unreport(pair)
        if not await self._report(node_name):
            self._world.report(pair)
            return
        if late or out:
            why = {"waited_us": now_us - attached.detach_since_us, "out_of_service": out}
            count(self._ctx.kernel, "attachdetach_controller_forced_detaches")
            self._ctx.decided("force-detach", f"nodes/{node_name}", why)
        verifies = not (late or out)
        if not self._operations.run(key, lambda: self._carry_out_detach(pair, verifies), DETACH):
            self._world.report(pair)

    def _is_out_of_service(self, node: Obj) -> bool:
        key = self._names.taint_out_of_service
        return any(taint["key"] == key for taint in node["spec"].get("taints") or ())

    async def _carry_out_detach(self, pair: Pair, verifies: bool) -> str | None:
        begun_us = self._ctx.now_us()
        error = await self._in_use(pair) if verifies else ""
        found = csi_volume_of(self._names, pair[0])
        if not error and found is not None:
            error = await self._attacher.detach(*found, pair[1])
        self._measure(pair, "volume_detach", bool(error), begun_us)
        self._reconcile_at(self._ctx.now_us())
        if error:
            self._world.report(pair)
            return error
        self._world.detached(pair)
        return None

    async def _in_use(self, pair: Pair) -> str:
        """Why a volume may not be detached, by the node as the API server has it; "" if it may."""
        reply = await self._client.get("nodes", "", pair[1])
        if not reply.ok:
            return "" if reply.reason == "NotFound" else reply.message
        if pair[0] in (status_of(reply.obj).get("volumesInUse") or ()):
            return "volume is still in use by node, according to Node status"
        return ""

    def _attach(self, pair: Pair) -> None:
        """Attach a volume that pods need, unless it is attached elsewhere."""
        world, wanted = self._world, self._world.wanted[pair]
        key = self._key(pair, wanted.volume)
        if self._operations.is_pending(key):
            return
        attached = world.attached.get(pair)
        if attached is not None and attached.confirmed:
            world.keep(pair)
            return
        if not shares(wanted.volume):
            nodes = world.nodes_of(pair[0])
            if nodes:
                if not wanted.reported:
                    wanted.reported = True
                    self._note_multi_attach(pair, [node for node in nodes if node != pair[1]])
                return
        if wait_us := self._operations.wait_us(key, ATTACH):
            self._reconcile_at(self._ctx.now_us() + wait_us)
            return
        wanted.under_way = self._operations.run(key, lambda: self._carry_out_attach(pair, wanted), ATTACH)

    def _note_multi_attach(self, pair: Pair, others: Sequence[str]) -> None:
        wanted, users = self._world.wanted[pair], self._world.users(pair[0], others)
        for pod in wanted.pods.values():
            text = multi_attach_text(pod, users)
            self._warn(pod, f'Multi-Attach error for volume "{name_of(wanted.volume)}" {text}')

    def _measure(self, pair: Pair, operation: Measured, failed: bool, begun_us: int) -> None:
        """Count an operation for metrics (pkg/volume/util/metrics.go, OperationCompleteHook)."""
        found = csi_volume_of(self._names, pair[0])
        plugin = self._names.in_tree("csi") + (f":{found[0]}" if found is not None else "")
        status = "fail-unknown" if failed else "success"
        took_s = (self._ctx.now_us() - begun_us) / SECOND
        labels = plugin, operation, status, "false"
        observe(self._ctx.kernel, "storage_operation_duration_seconds", took_s, *labels)

    async def _carry_out_attach(self, pair: Pair, wanted: Wanted) -> str | None:
        pods, volume = [*wanted.pods.values()], wanted.volume
        begun_us = self._ctx.now_us()
        error = await self._attacher.attach(volume, pair[1])
        self._measure(pair, "volume_attach", bool(error), begun_us)
        wanted.under_way = False
        name = name_of(volume)
        self._reconcile_at(self._ctx.now_us())
        if error:
            self._world.mark(pair, volume, confirmed=False)
            text = f'AttachVolume.Attach failed for volume "{name}" : {error}'
            for pod in pods:
                self._warn(pod, text)
            return error
        for pod in pods:
            text = f'AttachVolume.Attach succeeded for volume "{name}" '
            self._recorder.event(pod, "Normal", "SuccessfulAttachVolume", text)
        self._world.mark(pair, volume, confirmed=True)
        return None

    def _warn(self, pod: Obj, text: str) -> None:
        self._recorder.event(pod, "Warning", "FailedAttachVolume", text)

    # --- the status of nodes, and what drivers say ------------------------------------------------

    async def _report(self, node: str) -> bool:
        """Write the volumes of a node into its status, if that is due; False if it failed."""
        report = self._world.reports.get(node)
        if report is None or not report.due:
            return True
        report.due = False
        if self._nodes.get(node) is None:
            return True
        volumes = [{"name": name, "devicePath": ""} for name in report.volumes]
        patch = {"status": {"volumesAttached": volumes or None}}
        reply = await self._client.patch("nodes", "", node, patch, subresource="status")
        if reply.ok or reply.reason == "NotFound":
            return True
        report.due = True
        self._reconcile_at(self._ctx.now_us() + PERIOD_US)
        return False

    async def _verify(self) -> None:
        """Each period, compare with what the drivers say is attached."""
        options, now_us = self._env.options, self._ctx.now_us()
        if options.disable_attach_detach_reconcile_sync or not self._world.attached:
            return
        due_us = self._synced_us + options.attach_detach_reconcile_sync_period_us
        if now_us <= due_us:
            self._reconcile_at(due_us + 1)
            return
        self._synced_us = now_us
        for pair, attached in list(self._world.attached.items()):
            found = csi_volume_of(self._names, pair[0])
            if not attached.confirmed or found is None or self._is_busy(pair, attached):
                continue
            if not await self._attacher.is_attached(*found, pair[1]):
                self._world.detached(pair)
                self._reconcile_at(self._ctx.now_us())
        self._reconcile_at(self._synced_us + options.attach_detach_reconcile_sync_period_us + 1)

    def _is_busy(self, pair: Pair, attached: Attached) -> bool:
        return self._operations.is_pending(self._key(pair, attached.volume))
