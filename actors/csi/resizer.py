"""external-resizer: makes volumes larger when their claims request more.

Mirrors  kubernetes-csi/external-resizer v1.5 pkg/controller/controller.go (pvcNeedResize,
         resizePVC), pkg/util: condition Resizing, the events, 10 workers, calls of at most 10 s.
Differs  a file system needs no work of the node.
"""

from __future__ import annotations

from actors.csi.shell import DriverEnv, with_status
from sim.api.objects import is_deleting, key_of, name_of, phase_of, status_of, uid_of
from sim.api.types import Obj
from sim.api.volumes import requested_bytes
from sim.units import SECOND, format_time, quantity_value

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
WORKERS = 10
DEADLINE_US = 10 * SECOND


class Resizer:
    """Makes the volumes of one driver larger."""

    def __init__(self, env: DriverEnv) -> None:
        self._env = env
        self._client = env.connect("resizer")
        self._recorder = env.recorder(self._client)
        self._claims, self._volumes = env.informers[CLAIMS], env.informers[VOLUMES]
        self._queue = env.queue("resizer")

    def listen(self) -> None:
        """Register the handlers."""
        self._claims.on(self._changed, lambda _, new: self._changed(new))

    def start(self) -> None:
        """Start the workers."""
        self._env.work(self._queue, self._sync, WORKERS)

    def _changed(self, claim: Obj) -> None:
        if self._volume_of(claim) is not None:
            self._queue.add(key_of(claim))

    def _volume_of(self, claim: Obj) -> Obj | None:
        """The volume of a bound claim that requests more than it has; None for other claims."""
        if phase_of(claim) != "Bound" or is_deleting(claim):
            return None
        if requested_bytes(claim) <= _capacity(claim):
            return None
        volume = self._volumes.get(claim["spec"].get("volumeName") or "")
        if volume is None or (volume["spec"].get("csi") or {}).get("driver") != self._env.driver.name:
            return None
        return volume if (volume["spec"].get("claimRef") or {}).get("uid") == uid_of(claim) else None

    async def _sync(self, key: str) -> str | None:
        claim = self._claims.get(key)
        volume = None if claim is None else self._volume_of(claim)
        if claim is None or volume is None:
            return None
        if not self._env.driver.expandable:
            return f"rpc error: code = Unimplemented desc = {self._env.driver.name} expands no volumes"
        now = format_time(self._env.ctx.wall_us())
        marked = with_status(
            claim,
            conditions=[
                {"type": "Resizing", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
            ],
        )
        error = await self._write_status(marked)
        if error:
            return error
        text = f"External resizer is resizing volume {name_of(volume)}"
        self._recorder.event(claim, "Normal", "Resizing", text)
        error = await self._env.calls.call("expand", name_of(volume), DEADLINE_US)
        size = claim["spec"]["resources"]["requests"]["storage"]
        if not error:
            patch = {"spec": {"capacity": {"storage": size}}}
            reply = await self._client.patch(VOLUMES, "", name_of(volume), patch, "merge")
            error = "" if reply.ok else reply.message
        if error:
            text = f'resize volume "{name_of(volume)}" by resizer "{self._env.driver.name}" failed: {error}'
            self._recorder.event(claim, "Warning", "VolumeResizeFailed", text)
            return text
        error = await self._write_status(with_status(claim, capacity={"storage": size}, conditions=None))
        if not error:
            self._recorder.event(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")
        return error or None

    async def _write_status(self, claim: Obj) -> str:
        """Write conditions and capacity of a claim; returns "" or the error text."""
        meta, status = claim["metadata"], status_of(claim)
        changed = {"conditions": status.get("conditions"), "capacity": status.get("capacity")}
        reply = await self._client.patch(
            CLAIMS, meta["namespace"], meta["name"], {"status": changed}, "merge", "status"
        )
        return "" if reply.ok else reply.message


def _capacity(claim: Obj) -> int:
    return quantity_value((status_of(claim).get("capacity") or {}).get("storage", "0"))
