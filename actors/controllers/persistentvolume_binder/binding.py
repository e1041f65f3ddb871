"""The syncs of a claim and of a volume as steps.  Pure.

Turns a claim or a volume, and the answers to its writes, into the next action.

Holds: a binding is four writes, and each of them can be the one at which it continues.

Mirrors  kubernetes v1.25 pkg/controller/volume/persistentvolume/pv_controller.go (syncClaim,
         syncUnboundClaim, syncBoundClaim, bind, syncVolume, reclaimVolume, unbindVolume,
         assignDefaultStorageClass, provisionClaim).
"""

from __future__ import annotations

from collections.abc import Callable

from actors.controllers.persistentvolume_binder import decide, provision, reclaim
from actors.controllers.persistentvolume_binder.actions import (
    CLAIMS,
    VOLUMES,
    Begin,
    QueueClaim,
    Seen,
    Steps,
    set_volume_phase,
    unbind,
    write,
)
from actors.controllers.shared.pods_by_claim import is_terminated
from actors.controllers.shared.steps import Event, Get, SyncFailed
from sim.api.kinds.common.volumes.binding import class_of, delays_binding, is_bound_to, reserved_for
from sim.api.objects import annotations_of, key_of, name_of, phase_of, split_key, uid_of
from sim.api.types import Obj

LOST = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
LOST_VOLUME = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
MISBOUND = "Two claims are bound to the same volume, this one is bound incorrectly"
UNCLAIMED = "no persistent volumes available for this claim and no storage class is set"


class Binding:
    """The two syncs.  Both raise SyncFailed."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self._names = seen.names

    # --- claims -----------------------------------------------------------------------------------

    def sync_claim(self, claim: Obj) -> Steps[None]:
        """The sync of a claim."""
        names = self._names
        keys = names.annotation_storage_provisioner, names.annotation_beta_storage_provisioner
        migrated = decide.with_migration(claim, keys, provision.MIGRATED, names)
        if migrated is not claim:
            claim = yield from write(CLAIMS, migrated)
        if names.annotation_bind_completed in annotations_of(claim):
            yield from self._sync_bound_claim(claim)
        elif name := claim["spec"].get("volumeName"):
            yield from self._sync_requested(claim, self.seen.volume_of(name))
        else:
            yield from self._sync_unbound_claim(claim)

    def _sync_unbound_claim(self, claim: Obj) -> Steps[None]:
        names = self._names
        class_name = class_of(claim, names)
        delays = delays_binding(self.seen.class_of(class_name))
        volume = decide.best_match(claim, self.seen.volumes(), names, delays)
        if volume is not None:
            yield from self._bind(volume, claim)
            return
        if self.seen.assigns and not class_name:
            claim = yield from self._with_default_class(claim)
            class_name = class_of(claim, names)
        if delays and names.annotation_selected_node not in annotations_of(claim):
            yield self._delay(claim)
        elif class_name:
            yield from provision.begin(claim, class_name, self.seen)
            return
        else:
            yield Event(claim, "Normal", "FailedBinding", UNCLAIMED)
        yield from self._claim_phase(claim, "Pending")

    def _with_default_class(self, claim: Obj) -> Steps[Obj]:
        """A claim without a class after it got the default one.

        Quirk: a claim that wants no class ("") is included, which the API server refuses.
        """
        name = decide.default_class(self.seen.classes(), self._names)
        if not name:
            return claim
        new = {**claim, "spec": {**claim["spec"], "storageClassName": name}}
        return (yield from write(CLAIMS, new, f'can\'t update PersistentVolumeClaim["{key_of(claim)}"]: '))

    def _sync_requested(self, claim: Obj, volume: Obj | None) -> Steps[None]:
        """A claim that names its volume."""
        if volume is None:
            yield from self._claim_phase(claim, "Pending")
            return
        name = name_of(volume)
        if volume["spec"].get("claimRef") is None:
            problem = decide.volume_problem(volume, claim, self._names)
            if not problem:
                yield from self._bind(volume, claim)
                return
            text = f'Cannot bind to requested volume "{name}": {problem}'
            yield Event(claim, "Warning", "VolumeMismatch", text)
        elif is_bound_to(volume, claim):
            yield from self._bind(volume, claim)
            return
        else:
            text = f'volume "{name}" already bound to a different claim.'
            yield Event(claim, "Warning", "FailedBinding", text)
            if self._names.annotation_bound_by_controller in annotations_of(claim):
                text = f'volume already claimed by "{decide.claim_key_of(volume)}"'
                raise SyncFailed(f'invalid binding of claim "{key_of(claim)}" to volume "{name}": {text}')
        yield from self._claim_phase(claim, "Pending")

    def _sync_bound_claim(self, claim: Obj) -> Steps[None]:
        name = claim["spec"].get("volumeName")
        volume = self.seen.volume_of(name) if name else None
        if volume is None:
            yield from self._lose(claim, "ClaimLost", LOST_VOLUME if name else LOST)
            return
        reference = volume["spec"].get("claimRef")
        if reference is None or reference.get("uid") == uid_of(claim):
            yield from self._bind(volume, claim)
        else:
            yield from self._lose(claim, "ClaimMisbound", MISBOUND)

    def _lose(self, claim: Obj, reason: str, text: str) -> Steps[None]:
        if phase_of(claim) != "Lost":
            yield from self._claim_phase(claim, "Lost")
            yield Event(claim, "Warning", reason, text)

    def _delay(self, claim: Obj) -> Event:
        """Say what a claim of a delaying class waits for."""
        pods = [
            name_of(pod)
            for pod in self.seen.pods_of(key_of(claim))
            if not is_terminated(pod) and not pod["spec"].get("nodeName")
        ]
        reason, text = "WaitForPodScheduled", f"waiting for pods {','.join(pods)} to be scheduled"
        if not pods:
            reason, text = "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
        elif len(pods) == 1:
            text = f"waiting for pod {pods[0]} to be scheduled"
        return Event(claim, "Normal", reason, text)

    def _claim_phase(self, claim: Obj, phase: decide.ClaimPhase) -> Steps[None]:
        new = decide.claim_in_phase(claim, phase, None, self._names)
        if new is not claim:
            yield from write(CLAIMS, new, subresource="status")

    def _bind(self, volume: Obj, claim: Obj) -> Steps[None]:
        """The writes that are left of the four of a binding."""
        steps: tuple[tuple[str, Callable[[], Obj], str], ...] = (
            (VOLUMES, lambda: reserved_for(volume, claim, self._names), ""),
            (VOLUMES, lambda: decide.volume_in_phase(volume, "Bound"), "status"),
            (CLAIMS, lambda: decide.claim_bound_to(claim, volume, self._names), ""),
            (CLAIMS, lambda: decide.claim_in_phase(claim, "Bound", volume, self._names), "status"),
        )
        for resource, change, subresource in steps:
            old, new = (volume if resource == VOLUMES else claim), change()
            if new is old:
                continue
            written = yield from write(resource, new, subresource=subresource)
            if resource == VOLUMES:
                volume = written
            else:
                claim = written

    # --- volumes ----------------------------------------------------------------------------------

    def sync_volume(self, volume: Obj) -> Steps[None]:
        """The sync of a volume."""
        migrated = decide.with_migration(
            volume, (self._names.annotation_provisioned_by,), provision.MIGRATED, self._names
        )
        if self.seen.honors:
            migrated = decide.with_deletion_finalizers(migrated, provision.MIGRATED, self._names)
        if migrated is not volume:
            volume = yield from write(VOLUMES, migrated)
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            yield from set_volume_phase(volume, "Available")
            return
        claim = yield from self._claim_behind(volume)
        if claim is None:
            yield from self._release(volume)
            return
        name = claim["spec"].get("volumeName")
        if not name:
            texts = decide.mode_mismatch(volume, claim)
            if texts is not None:
                yield Event(volume, "Warning", "VolumeMismatch", texts[0])
                yield Event(claim, "Warning", "VolumeMismatch", texts[1])
            else:
                yield QueueClaim(key_of(claim))
            return
        provisioned = self._names.annotation_provisioned_by in annotations_of(volume)
        if name == name_of(volume):
            yield from set_volume_phase(volume, "Bound")
        elif provisioned and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            yield from self._release(volume)
        else:
            yield from unbind(volume, self._names)

    def _claim_behind(self, volume: Obj) -> Steps[Obj | None]:
        """The claim that a volume is bound to; None if it has ended."""
        key, reference = decide.claim_key_of(volume), volume["spec"]["claimRef"]
        claim = self.seen.claim_of(key)
        if claim is None and phase_of(volume) in ("Released", "Failed"):
            return None
        if claim is None or uid_of(claim) != reference["uid"]:
            live = (yield Get(CLAIMS, *split_key(key))).reply
            if not live.ok and live.reason != "NotFound":
                raise SyncFailed(live.message)
            claim = live.obj if live.ok else None
        return claim if claim is not None and uid_of(claim) == reference["uid"] else None

    def _release(self, volume: Obj) -> Steps[None]:
        """A volume has lost its claim: it is Released, and reclaimed."""
        if phase_of(volume) not in ("Released", "Failed"):
            volume = yield from write(
                VOLUMES, decide.volume_in_phase(volume, "Released"), subresource="status"
            )
        if self._names.annotation_migrated_to in annotations_of(volume):
            return
        policy = volume["spec"].get("persistentVolumeReclaimPolicy")
        steps = {"Recycle": reclaim.recycle, "Delete": reclaim.delete}.get(policy or "")
        if steps is not None:
            operation = f"{policy.lower()}-{name_of(volume)}[{uid_of(volume)}]"
            yield Begin(operation, lambda: steps(volume, self.seen))
