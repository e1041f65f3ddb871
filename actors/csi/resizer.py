"""external-resizer: makes volumes larger when their claims request more.

Turns a claim that requests more than its status says into a call of the driver, the new size of the
volume, and either the end of the expansion or the condition by which a node continues it.

Mirrors  kubernetes-csi/external-resizer v1.5 pkg/controller/controller.go (pvcNeedResize,
         pvNeedResize, resizePVC, updatePVCapacity, deletePreResizeCapAnnotation, usedPVCs),
         pkg/util: the conditions and events, 10 workers, calls of at most 10 s;
         kubernetes pkg/volume/util/resize_util.go (conditions of an expansion replace each other).
Differs  RecoverVolumeExpansionFailure has no effect.
"""

from __future__ import annotations

from actors.csi.shell import DriverEnv
from sim.api.kinds.common.volumes.binding import (
    RESIZE_PENDING,
    RESIZING,
    capacity_bytes,
    claim_names,
    claimed_bytes,
    requested_bytes,
    resize_conditions,
    volume_mode,
)
from sim.api.objects import (
    annotations_of,
    is_deleting,
    is_terminal,
    key_of,
    name_of,
    phase_of,
    status_of,
    uid_of,
)
from sim.api.types import Obj
from sim.units import BINARY_SI, SECOND, format_quantity, format_time

CLAIMS, VOLUMES, ATTACHMENTS = "persistentvolumeclaims", "persistentvolumes", "volumeattachments"
WORKERS = 10
DEADLINE_US = 10 * SECOND
PENDING_TEXT = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
IN_USE = "rpc error: code = FailedPrecondition desc = the volume is attached to a node"


class Resizer:
    """Makes the volumes of one driver larger."""

    def __init__(self, env: DriverEnv) -> None:
        self._env = env
        self._client = env.connect("resizer")
        self._recorder = env.recorder(self._client, f"external-resizer {env.driver.name}")
        informers = env.informers
        self._claims, self._volumes = informers[CLAIMS], informers[VOLUMES]
        self._attachments = informers[ATTACHMENTS]
        self._pods = informers["pods"] if env.driver.offline else None
        self._queue = env.queue("resizer")
        self._in_use: dict[str, None] = {}  # keys of claims of which the driver refused it

    def listen(self) -> None:
        """Register the handlers."""
        self._claims.on(self._changed, lambda _, new: self._changed(new))

    def start(self) -> None:
        """Start the workers."""
        self._env.work(self._queue, self._sync, WORKERS)

    def _changed(self, claim: Obj) -> None:
        if phase_of(claim) == "Bound" and not is_deleting(claim) and self._volume_of(claim) is not None:
            self._queue.add(key_of(claim))

    def _volume_of(self, claim: Obj) -> Obj | None:
        """The volume of a claim, if it is the driver's and one of both has to be written."""
        volume = self._volumes.get(claim["spec"].get("volumeName") or "")
        if volume is None or (volume["spec"].get("csi") or {}).get("driver") != self._env.driver.name:
            return None
        grows = requested_bytes(claim) > claimed_bytes(claim)
        return volume if grows or self._is_marked(volume) else None

    def _is_marked(self, volume: Obj) -> bool:
        return self._env.names.annotation_pre_resize_capacity in annotations_of(volume)

    async def _sync(self, key: str) -> str | None:
        claim = self._claims.get(key)
        volume = None if claim is None else self._volume_of(claim)
        if claim is None or volume is None:
            return None
        if self._is_marked(volume) and claimed_bytes(claim) >= capacity_bytes(volume):
            marks = {self._env.names.annotation_pre_resize_capacity: None}
            patch = {"metadata": {"annotations": marks}}
            reply = await self._client.patch(VOLUMES, "", name_of(volume), patch, "merge")
            if not reply.ok:
                return reply.message
        if phase_of(claim) != "Bound" or requested_bytes(claim) <= claimed_bytes(claim):
            return None
        if (volume["spec"].get("claimRef") or {}).get("uid") != uid_of(claim):
            return None
        if capacity_bytes(volume) >= requested_bytes(claim) and _has_condition(claim, RESIZE_PENDING):
            return None  # the node continues
        return await self._resize(claim, volume) if self._env.driver.expandable else None

    async def _resize(self, claim: Obj, volume: Obj) -> str | None:
        driver, name, key = self._env.driver, name_of(volume), key_of(claim)
        error = await self._write(claim, RESIZING)
        if error:
            return f'marking pvc "{key}" as resizing failed: {error}'
        if key in self._in_use and self._is_used(claim):
            text = (
                f"Unable to expand {key} because CSI driver {driver.name} only supports offline expansion"
                " and volume is currently in-use"
            )
            self._recorder.event(claim, "Warning", "VolumeResizeFailed", text)
            return text
        self._recorder.event(claim, "Normal", "Resizing", f"External resizer is resizing volume {name}")
        error = await self._grow(claim, volume)
        if not error:
            error = await self._finish(claim, volume)
        if error:
            self._recorder.event(claim, "Warning", "VolumeResizeFailed", error)
            return error
        self._env.drivers.grown(name)
        return None

    async def _grow(self, claim: Obj, volume: Obj) -> str:
        """Have the disk made larger, and write its size; returns the error text."""
        driver, name, key = self._env.driver, name_of(volume), key_of(claim)
        self._in_use.pop(key, None)
        if driver.offline and self._is_attached(name):
            self._in_use[key] = None
            error = IN_USE
        else:
            error = await self._env.calls.call("expand", name, DEADLINE_US)
        if error:
            return f'resize volume "{name}" by resizer "{driver.name}" failed: {error}'
        patch: Obj = {"spec": {"capacity": {"storage": _new_size(claim)}}}
        if self._needs_node(volume) and not self._is_marked(volume):
            before = (status_of(claim).get("capacity") or {}).get("storage", "0")
            mark = self._env.names.annotation_pre_resize_capacity
            patch["metadata"] = {"annotations": {mark: before}}
        reply = await self._client.patch(VOLUMES, "", name, patch, "merge")
        return "" if reply.ok else reply.message

    async def _finish(self, claim: Obj, volume: Obj) -> str:
        """Say that the expansion is over, or that a node has to continue it."""
        if self._needs_node(volume):
            error = await self._write(claim, RESIZE_PENDING, PENDING_TEXT)
            if error:
                return f'Mark PVC "{key_of(claim)}" as file system resize required failed: {error}'
            reason, text = "FileSystemResizeRequired", "Require file system resize of volume on node"
        else:
            error = await self._write(claim, capacity=_new_size(claim))
            if error:
                return error
            reason, text = "VolumeResizeSuccessful", "Resize volume succeeded"
            self._env.drivers.has_room(key_of(claim))
        self._recorder.event(claim, "Normal", reason, text)
        return ""

    def _needs_node(self, volume: Obj) -> bool:
        return bool(self._env.driver.node_expand_us) and volume_mode(volume) == "Filesystem"

    def _is_attached(self, name: str) -> bool:
        return any(
            each["spec"]["source"].get("persistentVolumeName") == name for each in self._attachments.list()
        )

    def _is_used(self, claim: Obj) -> bool:
        """True if a pod that has not ended uses the claim."""
        namespace, name = claim["metadata"]["namespace"], name_of(claim)
        return self._pods is not None and any(
            name in claim_names(pod)
            for pod in self._pods.list()
            if pod["metadata"]["namespace"] == namespace and not is_terminal(pod)
        )

    async def _write(self, claim: Obj, condition: str = "", message: str = "", capacity: str = "") -> str:
        """Write the condition of an expansion (none ends it) and the capacity; returns the error."""
        meta = claim["metadata"]
        live = self._claims.get(key_of(claim)) or claim
        now = format_time(self._env.ctx.wall_us())
        status: Obj = {"conditions": resize_conditions(status_of(live), condition, message, now) or None}
        if capacity:
            status["capacity"] = {"storage": capacity}
        if not capacity and status["conditions"] == status_of(live).get("conditions"):
            return ""
        reply = await self._client.patch(
            CLAIMS, meta["namespace"], meta["name"], {"status": status}, "merge", "status"
        )
        return "" if reply.ok else reply.message


def _new_size(claim: Obj) -> str:
    return format_quantity(requested_bytes(claim), BINARY_SI)


def _has_condition(claim: Obj, kind: str) -> bool:
    return any(
        each["type"] == kind and each.get("status") == "True"
        for each in status_of(claim).get("conditions") or ()
    )
