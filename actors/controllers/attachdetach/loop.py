"""Attach-detach controller: attaches the volumes of pods to their nodes, and detaches those that
no pod needs.

Turns events of pods, nodes and claims into a wanted state, and reconciles what is attached with it.

Holds: nothing about attaching is decided here; the steps of a pass are those of `decide`.

Mirrors  kubernetes v1.25 pkg/controller/volume/attachdetach: attach_detach_controller.go,
         reconciler/reconciler.go, populator/desired_state_of_world_populator.go,
         statusupdater/node_status_updater.go, util/util.go; pkg/volume/util/operationexecutor.
Differs  a pass begins at whole multiples of its period, and only if something has changed or is
         due; only volumes of CSI drivers and of plugins that have migrated are attached, the latter
         at every node; iscsi, fc and rbd volumes count as never attached.
"""

from __future__ import annotations

from typing import Literal, assert_never

from actors.controllers.attachdetach import decide
from actors.controllers.attachdetach.attacher import Attacher
from actors.controllers.attachdetach.decide import PERIOD_US, Answer
from actors.controllers.attachdetach.state import Pair, Wanted, World
from actors.controllers.shared.operations import Operations
from actors.controllers.shared.pods_by_claim import CLAIM_INDEX, index_by_claim, is_terminated
from actors.controllers.shared.shell import Env, run_workers
from actors.controllers.shared.steps import Event, carry_out
from sim.api.kinds.common.volumes.binding import uses_claims
from sim.api.kinds.common.volumes.names import csi_volume_of
from sim.api.kinds.common.volumes.translation import uses_disks
from sim.api.objects import annotations_of, key_of, name_of, phase_of, status_of, uid_of
from sim.api.types import Obj
from sim.client import unmoved
from sim.kernel import Context
from sim.kernel.measure import count, observe
from sim.kernel.sync import Future
from sim.options.features.gates import OUT_OF_SERVICE, enabled
from sim.units import MINUTE, SECOND

CLIENT = "attachdetach-controller"
POPULATE_US, RELIST_US = 1 * MINUTE, 3 * MINUTE  # DesiredStateOfWorldPopulator...
CLAIM_WORKERS = 1
Measured = Literal["volume_attach", "volume_detach"]


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    await AttachDetach(env).run()


class Passes:
    """When passes begin: at multiples of their period after the start, if something is due."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.began_us = -1
        self._due_us: int | None = None  # of the next pass
        self._wake: Future | None = None  # of the loop, while it waits

    def begin(self) -> None:
        """Count the periods from now on."""
        self.began_us = self._ctx.now_us()

    def at(self, at_us: int) -> None:
        """Let a pass begin at the first multiple of the period that is not before `at_us`."""
        if self.began_us < 0:
            return
        periods = -((self.began_us - at_us) // PERIOD_US)
        due_us = max(self.began_us + periods * PERIOD_US, self._ctx.now_us())
        if self._due_us is None or due_us < self._due_us:
            self._due_us = due_us
            self._ctx.call_later_us(due_us - self._ctx.now_us(), self._tick)

    def now(self) -> None:
        """Let a pass begin at the next multiple of the period."""
        self.at(self._ctx.now_us())

    def _tick(self, _: object) -> None:
        if self._wake is not None and self._due_us is not None and self._due_us <= self._ctx.now_us():
            self._wake.set(None)

    async def next(self) -> None:
        """Wait until the next pass begins."""
        if self._due_us is None or self._due_us > self._ctx.now_us():
            self._wake = self._ctx.future("a change of volumes")
            await self._wake.wait()
            self._wake = None
        self._due_us = None


class AttachDetach:
    """Shell of the controller: handlers, and what the steps of a pass do."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._ctx = env.ctx
        self._client = env.client(CLIENT)
        self._recorder = env.recorder(CLIENT, self._client)
        informers, options = env.informers, env.options
        self._pods, self._nodes = informers["pods"], informers["nodes"]
        self._claims, volumes = informers["persistentvolumeclaims"], informers["persistentvolumes"]
        self._objects = decide.Objects(env.names, self._claims.get, volumes.get, informers["csidrivers"].get)
        self._attachments = informers["volumeattachments"]
        self._attacher = Attacher(env, self._client)
        self._operations = Operations(env.ctx, "attach-detach")
        self._queue = env.queue("pvcs")
        self._world = World()
        self._passes = Passes(env.ctx)
        self._listed_us = 0
        self._populates = False
        self._seen = decide.Seen(
            env.names,
            self._nodes.get,
            self._operations.is_pending,
            self._operations.wait_us,
            enabled(options.feature_gates, OUT_OF_SERVICE),
            None
            if options.disable_attach_detach_reconcile_sync
            else options.attach_detach_reconcile_sync_period_us,
        )

    async def run(self) -> None:
        """Start the handlers and reconcile until the process ends."""
        index_by_claim(self._pods)
        self._pods.on(self._pod_changed, lambda _, new: self._pod_changed(new), self._pod_gone)
        self._nodes.on(
            self._node_added, lambda _, new: self._node_changed(new), self._node_gone, beat=unmoved
        )
        self._claims.on(self._claim_changed, lambda _, new: self._claim_changed(new))
        await self._env.informers.start_and_sync()
        self._passes.begin()
        self._world.compared_us = self._listed_us = self._ctx.now_us()
        self._populate_actual()
        self._look_at_pods()
        run_workers(self._env, self._queue, self._sync_claim, CLAIM_WORKERS)
        while True:
            await self._passes.next()
            await carry_out(decide.reconcile(self._world, self._seen, self._ctx.now_us()), self._do)

    def _populate_actual(self) -> None:
        """What is attached, by the nodes and by the attachments that exist."""
        for node in self._nodes.list():
            name, status = name_of(node), status_of(node)
            for one in status.get("volumesAttached") or ():
                self._world.mark((one["name"], name), None, confirmed=True)
            self._node_changed(node)
        for attachment in self._attachments.list():
            spec = attachment["spec"]
            volume = self._objects.volume_of(spec["source"].get("persistentVolumeName") or "")
            if volume is None or not self._objects.is_attachable(volume):
                continue
            pair = (self._objects.unique_name(volume), spec["nodeName"])
            if pair not in self._world.attached:
                self._world.mark(pair, volume, confirmed=False)

    # --- events -----------------------------------------------------------------------------------

    def _look_at_pods(self) -> None:
        """Look at each pod with volumes; all unpacked together would double a large cluster."""
        for key in sorted(key for key, volumes in self._pods.peek("spec", "volumes") if volumes):
            if (pod := self._pods.get(key)) is not None:
                self._pod_changed(pod)

    def _pod_changed(self, pod: Obj) -> None:
        node = pod["spec"].get("nodeName")
        if node and self._passes.began_us >= 0 and (uses_claims(pod) or uses_disks(pod)):
            self._process(pod, not is_terminated(pod) or self._world.managed.get(node, False))

    def _pod_gone(self, pod: Obj) -> None:
        if pod["spec"].get("nodeName"):
            self._process(pod, wanted=False)

    def _process(self, pod: Obj, wanted: bool) -> None:
        """Note which volumes of a pod are wanted at its node."""
        node, changed = pod["spec"]["nodeName"], False
        if node not in self._world.managed:
            return
        for volume in self._objects.volumes_of(pod):
            pair = (self._objects.unique_name(volume), node)
            if wanted:
                changed |= self._world.want(pair, volume, pod)
                attached = self._world.attached.get(pair)
                if attached is not None and attached.volume is None:
                    attached.volume = volume  # found at the start without its object
            else:
                changed |= self._world.unwant(pair, uid_of(pod))
        if changed:
            self._passes.now()
            self._populate_later()

    def _node_added(self, node: Obj) -> None:
        self._node_changed(node)
        report = self._world.reports.get(name_of(node))
        if report is not None:
            report.due = True
            self._passes.now()

    def _node_changed(self, node: Obj) -> None:
        name, marks = name_of(node), annotations_of(node)
        if self._env.names.annotation_attach_detach in marks:
            self._world.managed[name] = marks.get(self._env.names.annotation_keep_volumes) == "true"
        if self._world.volumes_at(name):
            self._world.set_in_use(name, status_of(node).get("volumesInUse") or ())
            self._passes.now()

    def _node_gone(self, node: Obj) -> None:
        name = name_of(node)
        if not self._world.is_wanted_at(name):
            self._world.managed.pop(name, None)
        if self._world.volumes_at(name):
            self._passes.now()

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
            passed_us = (self._ctx.now_us() - self._passes.began_us) % POPULATE_US
            self._ctx.call_later_us(POPULATE_US - passed_us, self._populate)

    def _populate(self, _: object) -> None:
        self._populates = False
        for pair, wanted in list(self._world.wanted.items()):
            for uid, pod in list(wanted.pods.items()):
                seen = self._pods.get(key_of(pod))
                is_there = seen is not None and uid_of(seen) == uid
                keeps = self._world.managed.get(pair[1], False)
                if is_there and seen is not None and (keeps or not is_terminated(seen)):
                    continue
                if self._world.unwant(pair, uid):
                    self._passes.now()
        if self._ctx.now_us() - self._listed_us >= RELIST_US:
            self._listed_us = self._ctx.now_us()
            self._look_at_pods()
        self._populate_later()

    # --- reconciling ------------------------------------------------------------------------------

    async def _do(self, action: decide.Action) -> Answer:
        done = True
        match action:
            case decide.WriteStatus():
                patch = {"status": {"volumesAttached": action.volumes}}
                reply = await self._client.patch("nodes", "", action.node, patch, subresource="status")
                done = reply.ok or reply.reason == "NotFound"
            case decide.Detach(pair, key, verifies):
                done = self._operations.run(key, lambda: self._detach(pair, verifies), decide.DETACH)
            case decide.Attach(pair, key, wanted):
                done = self._operations.run(key, lambda: self._attach(pair, wanted), decide.ATTACH)
            case decide.AskDriver():
                found = csi_volume_of(self._env.names, action.pair[0])
                done = found is None or await self._attacher.is_attached(*found, action.pair[1])
            case decide.Force():
                why = {"waited_us": action.waited_us, "out_of_service": action.out_of_service}
                count(self._ctx.kernel, "attachdetach_controller_forced_detaches")
                self._ctx.decided("force-detach", f"nodes/{action.node}", why)
            case decide.PassAt():
                self._passes.at(action.at_us)
            case Event():
                self._recorder.event(action.obj, action.kind, action.reason, action.message)
            case _:
                assert_never(action)
        return Answer(done, self._ctx.now_us())

    async def _detach(self, pair: Pair, verifies: bool) -> str | None:
        begun_us = self._ctx.now_us()
        error = await self._use_problem(pair) if verifies else ""
        found = csi_volume_of(self._env.names, pair[0])
        if not error and found is not None:
            error = await self._attacher.detach(*found, pair[1])
        self._measure(pair, "volume_detach", bool(error), begun_us)
        self._passes.now()
        if error:
            self._world.report(pair)
            return error
        self._world.detached(pair)
        return None

    async def _use_problem(self, pair: Pair) -> str:
        return decide.use_problem(await self._client.get("nodes", "", pair[1]), pair[0])

    def _measure(self, pair: Pair, operation: Measured, failed: bool, begun_us: int) -> None:
        """Count an operation for metrics (pkg/volume/util/metrics.go, OperationCompleteHook)."""
        found = csi_volume_of(self._env.names, pair[0])
        plugin = self._env.names.in_tree("csi") + (f":{found[0]}" if found is not None else "")
        status = "fail-unknown" if failed else "success"
        took_s = (self._ctx.now_us() - begun_us) / SECOND
        labels = plugin, operation, status, "false"
        observe(self._ctx.kernel, "storage_operation_duration_seconds", took_s, *labels)

    async def _attach(self, pair: Pair, wanted: Wanted) -> str | None:
        pods, volume = [*wanted.pods.values()], wanted.volume
        begun_us = self._ctx.now_us()
        error = await self._attacher.attach(volume, pair[1])
        self._measure(pair, "volume_attach", bool(error), begun_us)
        wanted.under_way = False
        name = name_of(volume)
        self._passes.now()
        if error:
            self._world.mark(pair, volume, confirmed=False)
            text = f'AttachVolume.Attach failed for volume "{name}" : {error}'
            for pod in pods:
                self._recorder.event(pod, "Warning", "FailedAttachVolume", text)
            return error
        for pod in pods:
            text = f'AttachVolume.Attach succeeded for volume "{name}" '
            self._recorder.event(pod, "Normal", "SuccessfulAttachVolume", text)
        self._world.mark(pair, volume, confirmed=True)
        return None
