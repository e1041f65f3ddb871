"""external-attacher: carries out VolumeAttachments.

Mirrors  kubernetes-csi/external-attacher v3.5 pkg/controller/{controller,csi_handler}.go: the
         finalizers of an attachment and of its volume, attachError and detachError, 10 workers,
         calls of at most 15 s.
         A driver refuses an attachment above its limit, as the Container Storage Interface v1.6
         says of ControllerPublishVolume.
Differs  volumes are not compared with what the driver says is attached.
"""

from __future__ import annotations

from actors.csi.shell import DriverEnv, with_status
from sim.api.kinds.common.volumes.binding import disk_of
from sim.api.objects import annotations_of, is_deleting, key_of, name_of, status_of, uid_of, with_metadata
from sim.api.types import Obj
from sim.units import SECOND, format_time

ATTACHMENTS, VOLUMES = "volumeattachments", "persistentvolumes"
NODE_INDEX = "node"
WORKERS = 10
FULL = "rpc error: code = ResourceExhausted desc = no more volumes can be attached to the node"
DEADLINE_US = 15 * SECOND


def handle_of(volume: Obj) -> str:
    """The handle of a volume, also of one of a plugin that the driver has replaced."""
    disk = disk_of(volume["spec"])
    return "" if disk is None else disk[1]


class Attacher:
    """Attaches and detaches the volumes of one driver."""

    def __init__(self, env: DriverEnv) -> None:
        self._env = env
        self._client = env.connect("attacher")
        self._attachments, self._volumes = env.informers[ATTACHMENTS], env.informers[VOLUMES]
        self._queue = env.queue("csi-attacher-va")
        self._released = env.queue("csi-attacher-pv")
        # UIDs of attachments that were carried out, until the informer shows it, or that may be.
        self._carried_out: dict[str, None] = {}
        self._under_way: dict[str, None] = {}
        self._finalizer = f"external-attacher/{env.driver.name.replace('.', '-')}"

    def listen(self) -> None:
        """Register the handlers."""
        self._attachments.add_index(NODE_INDEX, lambda attachment: (attachment["spec"]["nodeName"],))
        self._attachments.on(self._changed, lambda _, new: self._changed(new), self._gone)
        self._volumes.on(self._volume_changed, lambda _, new: self._volume_changed(new))

    def start(self) -> None:
        """Start the workers."""
        self._env.work(self._queue, self._sync, WORKERS)
        self._env.work(self._released, self._sync_volume, WORKERS)

    def _changed(self, attachment: Obj) -> None:
        if attachment["spec"]["attacher"] == self._env.driver.name and _is_open(attachment):
            self._queue.add(key_of(attachment))

    def _gone(self, attachment: Obj) -> None:
        self._carried_out.pop(uid_of(attachment), None)
        volume = attachment["spec"]["source"].get("persistentVolumeName")
        if volume and attachment["spec"]["attacher"] == self._env.driver.name:
            self._released.add(volume)

    def _volume_changed(self, volume: Obj) -> None:
        if is_deleting(volume) and self._finalizer in (volume["metadata"].get("finalizers") or ()):
            self._released.add(key_of(volume))

    async def _sync(self, key: str) -> str | None:
        attachment = self._attachments.get(key)
        if attachment is None or not _is_open(attachment):
            return None
        if uid_of(attachment) in self._carried_out and not is_deleting(attachment):
            return None
        return await (self._detach if is_deleting(attachment) else self._attach)(attachment)

    # --- attach -----------------------------------------------------------------------------------

    async def _attach(self, attachment: Obj) -> str | None:
        spec = attachment["spec"]
        volume = self._volume_of(spec["source"])
        if volume is None:
            text = f'persistentvolume "{spec["source"].get("persistentVolumeName")}" not found'
            return await self._fail(attachment, "attachError", text)
        for resource, obj in ((ATTACHMENTS, attachment), (VOLUMES, volume)):
            if self._finalizer in (obj["metadata"].get("finalizers") or ()) or "name" not in obj["metadata"]:
                continue
            if is_deleting(obj):
                return await self._fail(attachment, "attachError", "PersistentVolume is marked for deletion")
            finalizers: Obj = {"finalizers": [*(obj["metadata"].get("finalizers") or ()), self._finalizer]}
            if resource == ATTACHMENTS:
                mark = self._env.names.annotation_driver_node_id
                finalizers["annotations"] = {**annotations_of(obj), mark: spec["nodeName"]}
            reply = await self._client.patch(resource, "", name_of(obj), {"metadata": finalizers}, "merge")
            if not reply.ok:
                return reply.message
        handle = handle_of(volume)
        subject, uid = f"{handle} {spec['nodeName']}", uid_of(attachment)
        if self._is_full(attachment):
            return await self._fail(attachment, "attachError", FULL)
        self._under_way[uid] = None
        error = await self._env.calls.call("attach", subject, DEADLINE_US, spec["nodeName"])
        if error:
            self._under_way.pop(uid, None)
            return await self._fail(attachment, "attachError", error)
        patch = {"status": {"attached": True, "attachError": None}}
        reply = await self._client.patch(ATTACHMENTS, "", name_of(attachment), patch, "merge", "status")
        self._under_way.pop(uid, None)
        if reply.ok:
            self._carried_out[uid] = None
        return None if reply.ok or reply.reason == "NotFound" else reply.message

    def _volume_of(self, source: Obj) -> Obj | None:
        """The volume of an attachment; one that is stored nowhere has no name."""
        inline = source.get("inlineVolumeSpec")
        if inline is not None:
            return {"metadata": {}, "spec": inline}
        return self._volumes.get(source.get("persistentVolumeName") or "")

    def _is_full(self, attachment: Obj) -> bool:
        """True if the node has as many disks of the driver as it can have, without this one."""
        limit, spec = self._env.driver.limit_per_node, attachment["spec"]
        if limit is None:
            return False
        held = [
            uid
            for each in self._attachments.by_index(NODE_INDEX, spec["nodeName"])
            if each["spec"]["attacher"] == spec["attacher"] and (uid := uid_of(each)) != uid_of(attachment)
            if status_of(each).get("attached") or uid in self._carried_out or uid in self._under_way
        ]
        return len(held) >= limit

    # --- detach -----------------------------------------------------------------------------------

    async def _detach(self, attachment: Obj) -> str | None:
        spec = attachment["spec"]
        volume = self._volume_of(spec["source"])
        handle = name_of(attachment) if volume is None else handle_of(volume)
        subject = f"{handle} {spec['nodeName']}"
        error = await self._env.calls.call("detach", subject, DEADLINE_US, spec["nodeName"])
        if error:
            return await self._fail(attachment, "detachError", error)
        kept = [each for each in attachment["metadata"].get("finalizers") or () if each != self._finalizer]
        patch = {"metadata": {"finalizers": kept or None}}
        reply = await self._client.patch(ATTACHMENTS, "", name_of(attachment), patch, "merge")
        return None if reply.ok or reply.reason == "NotFound" else reply.message

    async def _sync_volume(self, key: str) -> str | None:
        """Release a deleting volume that is attached nowhere."""
        volume = self._volumes.get(key)
        finalizers = [] if volume is None else volume["metadata"].get("finalizers") or []
        if volume is None or not is_deleting(volume) or self._finalizer not in finalizers:
            return None
        sources = (one["spec"]["source"] for one in self._attachments.list())
        if any(source.get("persistentVolumeName") == key for source in sources):
            return None
        new = with_metadata(volume, finalizers=[each for each in finalizers if each != self._finalizer])
        reply = await self._client.update(VOLUMES, new)
        return None if reply.ok or reply.reason == "NotFound" else reply.message

    async def _fail(self, attachment: Obj, field: str, text: str) -> str:
        """Note an error in the attachment; returns its text, so that the attachment is retried."""
        time = format_time(self._env.ctx.wall_us())
        status = with_status(attachment, **{field: {"message": text[:1024], "time": time}})["status"]
        patch = {"status": {field: status[field]}}
        await self._client.patch(ATTACHMENTS, "", name_of(attachment), patch, "merge", "status")
        return text


def _is_open(attachment: Obj) -> bool:
    """True for an attachment that is to be carried out, or to be undone."""
    if is_deleting(attachment):
        return bool(attachment["metadata"].get("finalizers"))
    return not status_of(attachment).get("attached")
