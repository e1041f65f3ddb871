"""Persistent volume controller: binds claims to volumes, and provisions and reclaims volumes.

Turns events of claims and volumes into syncs of each, one after the other, and long work into
operations beside them.

Holds: there is one worker for claims and one for volumes; a sync that fails is repeated by the next
       resync only; a binding is four writes, and each of them can be the one at which it continues.

Mirrors  kubernetes v1.25 pkg/controller/volume/persistentvolume: pv_controller.go,
         pv_controller_base.go;
         pkg/volume/hostpath/host_path.go, pkg/volume/util/recyclerclient/recycler_client.go,
         csi-translation-lib/translate.go (names of plugins and their drivers).
Differs  resyncs pause while there is neither a claim nor a volume; what this process wrote is read
         beside the informers until they show it. A recycler pod has no host of its own for its
         image, and its events are not repeated on the volume. Volumes of plugins that have migrated
         to drivers are not translated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from actors.controllers.persistentvolume_binder import decide
from actors.controllers.persistentvolume_binder.reclaim import Reclaimer
from actors.controllers.persistentvolume_binder.store import CLAIMS, VOLUMES, Known, Store
from actors.controllers.shared.operations import Operations
from actors.controllers.shared.pods_by_claim import CLAIM_INDEX, index_by_claim, is_terminated
from actors.controllers.shared.shell import Env, run_workers
from sim.api.generated_names import new_uid
from sim.api.kinds.common.volumes.binding import (
    MIGRATED,
    class_of,
    delays_binding,
    is_bound_to,
    reserved_for,
    volume_mode,
)
from sim.api.objects import annotations_of, key_of, name_of, phase_of, split_key, uid_of, with_metadata
from sim.api.types import Obj
from sim.client import WorkQueue
from sim.kernel.causes import caused_by
from sim.options.features.gates import HONOR_RECLAIM, RETROACTIVE_CLASS, enabled
from sim.units import SECOND

COMPONENT = "persistentvolume-controller"
WORKERS = 1
RELEASE_DELAY_US = 21 * SECOND  # from the end of a claim to a sync of its volume
CREATE_TRIES, CREATE_PAUSE_US = 5, 10 * SECOND  # createProvisionedPVRetryCount, -Interval
LOST = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
LOST_VOLUME = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
MISBOUND = "Two claims are bound to the same volume, this one is bound incorrectly"
UNCLAIMED = "no persistent volumes available for this claim and no storage class is set"
_MIGRATED: Mapping[str, str] = {moved.plugin: moved.driver for moved in MIGRATED.values()}
# Plugins that the controller knows, and that do not provision (app/plugins.go).
_NOT_PROVISIONING = ("csi", "local-volume", "nfs")


class Binder:
    """Shell of the controller: handlers, queues, and the syncs of a claim and of a volume."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._ctx = env.ctx
        self._names = env.names
        client = env.client("persistent-volume-binder")
        self._client = client
        self._recorder = env.recorder(COMPONENT, client)
        self._store = Store(env.informers, client)
        self._pods = env.informers["pods"]
        self._nodes = env.informers["nodes"]
        self._classes = env.informers["storageclasses"]
        self._assigns = enabled(env.options.feature_gates, RETROACTIVE_CLASS)
        self._honors = enabled(env.options.feature_gates, HONOR_RECLAIM)
        self._operations = Operations(env.ctx, "volume operation")
        self._claim_queue = env.queue("claims")
        self._volume_queue = env.queue("volumes")
        self._reclaimer = Reclaimer(env, client, self._recorder, self._store, self._pods)
        self._begun_us = 0
        self._resyncs = False  # True while the next resync is scheduled
        self._random = env.ctx.stream("host-path-volumes")

    async def run(self) -> None:
        """Start the handlers, the workers and the resyncs."""
        index_by_claim(self._pods)
        claims, volumes = self._store.claims, self._store.volumes
        claims.on(self._claim_changed)
        volumes.on(self._volume_changed)
        await self._env.informers.start_and_sync()
        self._begun_us = self._ctx.now_us()
        self._resync_later()
        run_workers(self._env, self._volume_queue, self._sync_volume_key, WORKERS, max_retries=0)
        run_workers(self._env, self._claim_queue, self._sync_claim_key, WORKERS, max_retries=0)

    def _claim_changed(self, key: str) -> None:
        self._claim_queue.add(key)
        self._resync_later()

    def _volume_changed(self, key: str) -> None:
        self._volume_queue.add(key)
        self._resync_later()

    def _resync_later(self) -> None:
        """Schedule the next resync, which is a whole number of periods after the start."""
        if self._resyncs or not self._begun_us or self._store.empty:
            return
        self._resyncs = True
        period_us = self._env.options.pvclaimbinder_sync_period_us
        passed_us = self._ctx.now_us() - self._begun_us
        self._ctx.call_later_us(period_us - passed_us % period_us, self._resync)

    def _resync(self, _: object) -> None:
        self._resyncs = False
        self._queue_all(self._store.claims, self._claim_queue)
        self._queue_all(self._store.volumes, self._volume_queue)
        self._resync_later()

    def _queue_all(self, objects: Known, queue: WorkQueue) -> None:
        """Queue each object because of its own last change, not of the one that began the resyncs."""
        for obj in objects.listed():
            key = key_of(obj)
            with caused_by(self._ctx.kernel, objects.cause(key)):
                queue.add(key)

    # --- claims -----------------------------------------------------------------------------------

    async def _sync_claim_key(self, key: str) -> str | None:
        claim = self._store.claims.get(key)
        if claim is not None:
            return await self._sync_claim(claim)
        last = self._store.claims.ended(key)
        if last is not None and last["spec"].get("volumeName"):
            self._volume_queue.add_after_us(last["spec"]["volumeName"], RELEASE_DELAY_US)
        return None

    async def _sync_claim(self, claim: Obj) -> str | None:
        migrated = self._with_migration(claim, (
            self._names.annotation_storage_provisioner, self._names.annotation_beta_storage_provisioner
        ))  # fmt: skip
        if migrated is not claim:
            written = await self._store.claims.write(migrated)
            if isinstance(written, str):
                return written
            claim = written
        if self._names.annotation_bind_completed in annotations_of(claim):
            return await self._sync_bound_claim(claim)
        return await self._sync_unbound_claim(claim)

    async def _sync_unbound_claim(self, claim: Obj) -> str | None:
        name = claim["spec"].get("volumeName")
        if name:
            return await self._sync_requested(claim, self._store.volumes.get(name))
        names = self._names
        class_name = class_of(claim, names)
        delays = bool(class_name) and delays_binding(self._classes.get(class_name))
        volume = decide.best_match(claim, self._store.volumes.listed(), names, delays)
        if volume is not None:
            return await self._bind(volume, claim)
        if self._assigns and not class_name:
            claim, error = await self._with_default_class(claim)
            class_name = class_of(claim, names)
            if error is not None:
                return error
        if delays and names.annotation_selected_node not in annotations_of(claim):
            self._note_delay(claim)
        elif class_name:
            self._provision(claim, class_name)
            return None
        else:
            self._recorder.event(claim, "Normal", "FailedBinding", UNCLAIMED)
        return await self._claim_phase(claim, "Pending")

    async def _with_default_class(self, claim: Obj) -> tuple[Obj, str | None]:
        """A claim without a class after it got the default one, and an error.

        Quirk: a claim that wants no class ("") is included, which the API server refuses.
        """
        name = decide.default_class(self._classes.list(), self._names)
        if not name:
            return claim, None
        new = {**claim, "spec": {**claim["spec"], "storageClassName": name}}
        written = await self._store.claims.write(new)
        if isinstance(written, str):
            return claim, f'can\'t update PersistentVolumeClaim["{key_of(claim)}"]: {written}'
        return written, None

    async def _sync_requested(self, claim: Obj, volume: Obj | None) -> str | None:
        """A claim that names its volume."""
        if volume is None:
            return await self._claim_phase(claim, "Pending")
        name = name_of(volume)
        if volume["spec"].get("claimRef") is None:
            problem = decide.volume_problem(volume, claim, self._names)
            if not problem:
                return await self._bind(volume, claim)
            text = f'Cannot bind to requested volume "{name}": {problem}'
            self._recorder.event(claim, "Warning", "VolumeMismatch", text)
            return await self._claim_phase(claim, "Pending")
        if is_bound_to(volume, claim):
            return await self._bind(volume, claim)
        text = f'volume "{name}" already bound to a different claim.'
        self._recorder.event(claim, "Warning", "FailedBinding", text)
        if self._names.annotation_bound_by_controller not in annotations_of(claim):
            return await self._claim_phase(claim, "Pending")
        other = decide.claim_key_of(volume)
        return f'invalid binding of claim "{key_of(claim)}" to volume "{name}": volume already claimed by "{other}"'

    async def _sync_bound_claim(self, claim: Obj) -> str | None:
        name = claim["spec"].get("volumeName")
        if not name:
            return await self._lose(claim, "ClaimLost", LOST)
        volume = self._store.volumes.get(name)
        if volume is None:
            return await self._lose(claim, "ClaimLost", LOST_VOLUME)
        reference = volume["spec"].get("claimRef")
        if reference is None or reference.get("uid") == uid_of(claim):
            return await self._bind(volume, claim)
        return await self._lose(claim, "ClaimMisbound", MISBOUND)

    async def _lose(self, claim: Obj, reason: str, text: str) -> str | None:
        if phase_of(claim) == "Lost":
            return None
        error = await self._claim_phase(claim, "Lost")
        if error is None:
            self._recorder.event(claim, "Warning", reason, text)
        return error

    def _note_delay(self, claim: Obj) -> None:
        """Say what a claim of a delaying class waits for."""
        pods = [
            name_of(pod)
            for pod in self._pods.by_index(CLAIM_INDEX, key_of(claim))
            if not is_terminated(pod) and not pod["spec"].get("nodeName")
        ]
        reason, text = "WaitForPodScheduled", f"waiting for pods {','.join(pods)} to be scheduled"
        if not pods:
            reason, text = "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
        elif len(pods) == 1:
            text = f"waiting for pod {pods[0]} to be scheduled"
        self._recorder.event(claim, "Normal", reason, text)

    async def _claim_phase(
        self, claim: Obj, phase: decide.ClaimPhase, volume: Obj | None = None
    ) -> str | None:
        new = decide.claim_in_phase(claim, phase, volume, self._names)
        if new is claim:
            return None
        written = await self._store.claims.write(new, "status")
        return written if isinstance(written, str) else None

    async def _bind(self, volume: Obj, claim: Obj) -> str | None:
        """The writes that are left of the four of a binding."""
        volumes, claims = self._store.volumes, self._store.claims
        steps: tuple[tuple[Known, Callable[[], Obj], str], ...] = (
            (volumes, lambda: reserved_for(volume, claim, self._names), ""),
            (volumes, lambda: decide.volume_in_phase(volume, "Bound"), "status"),
            (claims, lambda: decide.claim_bound_to(claim, volume, self._names), ""),
            (claims, lambda: decide.claim_in_phase(claim, "Bound", volume, self._names), "status"),
        )
        for known, change, subresource in steps:
            old, new = (volume if known is volumes else claim), change()
            if new is old:
                continue
            written = await known.write(new, subresource)
            if isinstance(written, str):
                return written
            if known is volumes:
                volume = written
            else:
                claim = written
        return None

    # --- volumes ----------------------------------------------------------------------------------

    async def _sync_volume_key(self, key: str) -> str | None:
        volume = self._store.volumes.get(key)
        if volume is not None:
            return await self._sync_volume(volume)
        last = self._store.volumes.ended(key)
        if last is not None and last["spec"].get("claimRef") is not None:
            self._claim_queue.add(decide.claim_key_of(last))
        return None

    async def _sync_volume(self, volume: Obj) -> str | None:
        migrated = self._with_migration(volume, (self._names.annotation_provisioned_by,))
        if self._honors:
            migrated = decide.with_deletion_finalizers(migrated, _MIGRATED, self._names)
        if migrated is not volume:
            written = await self._store.volumes.write(migrated)
            if isinstance(written, str):
                return written
            volume = written
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            return await self._store.volumes.phase(volume, "Available")
        claim, error = await self._claim_behind(volume)
        if error is not None:
            return error
        if claim is None:
            return await self._release(volume)
        name = claim["spec"].get("volumeName")
        if not name:
            texts = decide.mode_mismatch(volume, claim)
            if texts is not None:
                self._recorder.event(volume, "Warning", "VolumeMismatch", texts[0])
                self._recorder.event(claim, "Warning", "VolumeMismatch", texts[1])
            else:
                self._claim_queue.add(key_of(claim))
            return None
        if name == name_of(volume):
            return await self._store.volumes.phase(volume, "Bound")
        provisioned = self._names.annotation_provisioned_by in annotations_of(volume)
        if provisioned and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            return await self._release(volume)
        return await self._store.unbind(volume, self._names)

    async def _claim_behind(self, volume: Obj) -> tuple[Obj | None, str | None]:
        """The claim that a volume is bound to, None if it has ended, and an error."""
        key, reference = decide.claim_key_of(volume), volume["spec"]["claimRef"]
        claim = self._store.claims.get(key)
        if claim is None and phase_of(volume) in ("Released", "Failed"):
            return None, None
        if claim is None or uid_of(claim) != reference["uid"]:
            live = await self._client.get(CLAIMS, *split_key(key))
            if not live.ok and live.reason != "NotFound":
                return None, live.message
            claim = live.obj if live.ok else None
        if claim is not None and uid_of(claim) != reference["uid"]:
            claim = None
        return claim, None

    async def _release(self, volume: Obj) -> str | None:
        """A volume has lost its claim: it is Released, and reclaimed."""
        if phase_of(volume) not in ("Released", "Failed"):
            written = await self._store.volumes.write(decide.volume_in_phase(volume, "Released"), "status")
            if isinstance(written, str):
                return written
            volume = written
        if self._names.annotation_migrated_to in annotations_of(volume):
            return None
        policy, name = volume["spec"].get("persistentVolumeReclaimPolicy"), name_of(volume)
        reclaim = {"Recycle": self._reclaimer.recycle, "Delete": self._reclaimer.delete}.get(policy or "")
        if reclaim is not None:
            operation = f"{policy.lower()}-{name}[{uid_of(volume)}]"
            self._operations.run(operation, _bound(reclaim, volume))
        return None

    # --- provisioning -----------------------------------------------------------------------------

    def _provision(self, claim: Obj, class_name: str) -> None:
        """Begin to provision a volume for a claim, or to wait for a driver."""
        if not self._env.options.enable_dynamic_provisioning:
            return
        storage_class = self._classes.get(class_name)
        prefix = self._names.volume_plugin_prefix
        problem = ""
        if storage_class is None:
            group = self._names.group("storage")
            problem = f'storageclass.{group} "{class_name}" not found'
        else:
            provisioner = storage_class["provisioner"]
            short = provisioner.removeprefix(prefix)
            in_tree = provisioner.startswith(prefix) and short not in _MIGRATED
            if in_tree and short != "host-path":
                problem = f"no volume plugin matched name: {provisioner}"
            if in_tree and short in _NOT_PROVISIONING:
                problem = "no provisionable volume plugin matched"
        if problem:
            self._recorder.event(claim, "Warning", "ProvisioningFailed", problem)
            return
        assert storage_class is not None
        begin = self._provision_here if in_tree else self._provision_outside
        operation = f"provision-{key_of(claim)}[{uid_of(claim)}]"
        self._operations.run(operation, _bound(begin, claim, storage_class))

    async def _provision_outside(self, claim: Obj, storage_class: Obj) -> str | None:
        """Let the driver of a class know that it has to provision a volume."""
        provisioner = storage_class["provisioner"]
        short = provisioner.removeprefix(self._names.volume_plugin_prefix)
        if short != provisioner:
            provisioner = _MIGRATED[short]
        new = decide.with_provisioner(claim, provisioner, self._names)
        if new is not claim:
            written = await self._store.claims.write(new)
            if isinstance(written, str):
                return written
            claim = written
        text = (
            f'waiting for a volume to be created, either by external provisioner "{provisioner}"'
            " or manually created by system administrator"
        )
        self._recorder.event(claim, "Normal", "ExternalProvisioning", text)
        return None

    async def _provision_here(self, claim: Obj, storage_class: Obj) -> str | None:
        """Provision a directory of a host; this is the only plugin here that provisions."""
        provisioner, names = storage_class["provisioner"], self._names
        if claim["spec"].get("dataSource") is not None:
            text = f'plugin "{provisioner}" is not a CSI plugin. Only CSI plugin can provision a claim with a datasource'
            self._recorder.event(claim, "Warning", "ProvisioningFailed", text)
            return text
        new = decide.with_provisioner(claim, provisioner, names)
        if new is not claim:
            written = await self._store.claims.write(new)
            if isinstance(written, str):
                return written
            claim = written
        volume_name = f"pvc-{uid_of(claim)}"
        live = await self._client.get(VOLUMES, "", volume_name)
        if live.ok or live.reason != "NotFound":
            return None if live.ok else live.message
        problem = self._host_path_problem(claim, storage_class)
        if not problem and volume_mode(claim) == "Block":
            await self._reschedule(claim)
            reason = f"{provisioner} does not support block volume provisioning"
            problem = f'Failed to provision volume with StorageClass "{name_of(storage_class)}": {reason}'
        if problem:
            self._recorder.event(claim, "Warning", "ProvisioningFailed", problem)
            return problem
        directory = f"/tmp/hostpath_pv/{new_uid(self._random.getrandbits)}"
        volume = decide.host_path_volume(claim, storage_class, directory, names)
        return await self._create_volume(claim, volume, provisioner)

    def _host_path_problem(self, claim: Obj, storage_class: Obj) -> str:
        provisioner = storage_class["provisioner"]
        if storage_class.get("mountOptions"):
            return (
                f'Mount options are not supported by the provisioner but StorageClass "{name_of(storage_class)}"'
                f" has mount options [{' '.join(storage_class['mountOptions'])}]"
            )
        if not self._env.options.enable_hostpath_provisioner:
            return f'Failed to create provisioner: provisioning in volume plugin "{provisioner}" is disabled'
        node = annotations_of(claim).get(self._names.annotation_selected_node)
        if node is not None and self._nodes.get(node) is None:
            return f'Failed to get target node: node "{node}" not found'
        return ""

    async def _reschedule(self, claim: Obj) -> None:
        """Let the scheduler choose another node for a claim that cannot be provisioned at its node."""
        marks, mark = annotations_of(claim), self._names.annotation_selected_node
        if mark in marks:
            kept = {key: value for key, value in marks.items() if key != mark}
            await self._store.claims.write(with_metadata(claim, annotations=kept))

    async def _create_volume(self, claim: Obj, volume: Obj, provisioner: str) -> str | None:
        error = ""
        if self._honors:
            volume = decide.with_deletion_finalizers(volume, _MIGRATED, self._names)
        for _ in range(CREATE_TRIES):
            reply = await self._client.create(VOLUMES, "", volume)
            if reply.ok or reply.reason == "AlreadyExists":
                text = f"Successfully provisioned volume {name_of(volume)} using {provisioner}"
                self._recorder.event(claim, "Normal", "ProvisioningSucceeded", text)
                return None
            error = reply.message
            await self._ctx.sleep_us(CREATE_PAUSE_US)
        text = (
            f"Error creating provisioned PV object for claim {key_of(claim)}: {error}. Deleting the volume."
        )
        self._recorder.event(claim, "Warning", "ProvisioningFailed", text)
        return None

    def _with_migration(self, obj: Obj, keys: tuple[str, ...]) -> Obj:
        """The object with the driver to which its plugin has migrated; itself if it has it."""
        return decide.with_migration(obj, keys, _MIGRATED, self._names)


def _bound(
    operation: Callable[..., Awaitable[str | None]], *args: Obj
) -> Callable[[], Awaitable[str | None]]:
    return lambda: operation(*args)
