"""Persistent volume controller: binds claims to volumes, and provisions and reclaims volumes.

Turns events of claims and volumes into syncs of each, one after the other, and long work into
operations beside them.

Holds: there is one worker for claims and one for volumes; a sync that fails is repeated by the next
       resync only; nothing is decided here: the steps are those of `binding`, `provision` and
       `reclaim`, their values those of `decide`.

Mirrors  kubernetes v1.25 pkg/controller/volume/persistentvolume/pv_controller_base.go.
Differs  resyncs pause while there is neither a claim nor a volume; what this process wrote is read
         beside the informers until they show it. A recycler pod has no host of its own for its
         image, and its events are not repeated on the volume. Volumes of plugins that have migrated
         to drivers are not translated.
"""

from __future__ import annotations

from actors.controllers.persistentvolume_binder import decide
from actors.controllers.persistentvolume_binder.actions import CLAIMS, VOLUMES, Begin, QueueClaim, Seen, Steps
from actors.controllers.persistentvolume_binder.binding import Binding
from actors.controllers.persistentvolume_binder.store import Known
from actors.controllers.shared.operations import Operations
from actors.controllers.shared.pods_by_claim import CLAIM_INDEX, index_by_claim
from actors.controllers.shared.shell import Env, run_workers
from actors.controllers.shared.steps import Action, Answer, Shell, SyncFailed, Update, carry_out
from sim.api.generated_names import new_uid
from sim.api.objects import key_of
from sim.api.types import Reply
from sim.client import WorkQueue
from sim.kernel.causes import caused_by
from sim.options.features.gates import HONOR_RECLAIM, RETROACTIVE_CLASS, enabled
from sim.units import SECOND

CLIENT = "persistent-volume-binder"
COMPONENT = "persistentvolume-controller"
WORKERS = 1
RELEASE_DELAY_US = 21 * SECOND  # from the end of a claim to a sync of its volume


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    await Binder(env).run()


class Binder:
    """Shell of the controller: handlers, queues, and what the steps of syncs do."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._ctx = env.ctx
        self._client = env.client(CLIENT)
        recorder = env.recorder(COMPONENT, self._client)
        informers, gates = env.informers, env.options.feature_gates
        self._claims = Known(informers[CLAIMS], self._client)
        self._volumes = Known(informers[VOLUMES], self._client)
        self._pods, nodes = informers["pods"], informers["nodes"]
        classes = informers["storageclasses"]
        self._operations = Operations(env.ctx, "volume operation")
        self._claim_queue = env.queue("claims")
        self._volume_queue = env.queue("volumes")
        self._shell = Shell(env.ctx, self._client, recorder, self._claim_queue)
        random = env.ctx.stream("host-path-volumes")
        self._binding = Binding(
            Seen(
                env.names,
                env.options,
                enabled(gates, RETROACTIVE_CLASS),
                enabled(gates, HONOR_RECLAIM),
                self._claims.get,
                self._volumes.get,
                classes.get,
                nodes.get,
                self._volumes.listed,
                classes.list,
                lambda key: self._pods.by_index(CLAIM_INDEX, key),
                lambda: new_uid(random.getrandbits),
            )
        )
        self._begun_us = 0
        self._resyncs = False  # True while the next resync is scheduled

    async def run(self) -> None:
        """Start the handlers, the workers and the resyncs."""
        index_by_claim(self._pods)
        self._claims.on(self._claim_changed)
        self._volumes.on(self._volume_changed)
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
        if self._resyncs or not self._begun_us or (self._claims.empty and self._volumes.empty):
            return
        self._resyncs = True
        period_us = self._env.options.pvclaimbinder_sync_period_us
        passed_us = self._ctx.now_us() - self._begun_us
        self._ctx.call_later_us(period_us - passed_us % period_us, self._resync)

    def _resync(self, _: object) -> None:
        self._resyncs = False
        self._queue_all(self._claims, self._claim_queue)
        self._queue_all(self._volumes, self._volume_queue)
        self._resync_later()

    def _queue_all(self, objects: Known, queue: WorkQueue) -> None:
        """Queue each object because of its own last change, not of the one that began the resyncs."""
        for obj in objects.listed():
            key = key_of(obj)
            with caused_by(self._ctx.kernel, objects.cause(key)):
                queue.add(key)

    # --- syncs ------------------------------------------------------------------------------------

    async def _sync_claim_key(self, key: str) -> str | None:
        claim = self._claims.get(key)
        if claim is not None:
            return await self._carry_out(self._binding.sync_claim(claim))
        last = self._claims.ended(key)
        if last is not None and last["spec"].get("volumeName"):
            self._volume_queue.add_after_us(last["spec"]["volumeName"], RELEASE_DELAY_US)
        return None

    async def _sync_volume_key(self, key: str) -> str | None:
        volume = self._volumes.get(key)
        if volume is not None:
            return await self._carry_out(self._binding.sync_volume(volume))
        last = self._volumes.ended(key)
        if last is not None and last["spec"].get("claimRef") is not None:
            self._claim_queue.add(decide.claim_key_of(last))
        return None

    async def _carry_out(self, steps: Steps[None]) -> str | None:
        """Carry out the steps of a sync or of an operation; returns the error text or None."""
        try:
            await carry_out(steps, self._do)
        except SyncFailed as failure:
            return str(failure)
        return None

    async def _do(self, action: Begin | QueueClaim | Action) -> Answer:
        reply = Reply(code=200)
        match action:
            case Begin(name, steps):
                self._operations.run(name, lambda: self._carry_out(steps()))
            case QueueClaim(key):
                self._claim_queue.add(key)
            case Update(resource, obj, subresource):
                known = self._claims if resource == CLAIMS else self._volumes
                reply = await known.write(obj, subresource)
            case _:
                reply = await self._shell.do(action)
        return Answer(reply, self._ctx.wall_us())
