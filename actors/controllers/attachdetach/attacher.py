"""How a volume of a driver is attached and detached: by an object that the driver acts on.

Turns an attachment that is wanted into a VolumeAttachment, and waits for what the driver writes
into it.

Mirrors  kubernetes v1.25 pkg/volume/csi/csi_attacher.go (Attach, Detach,
         waitForVolumeAttachDetachStatusWithLister), csi_plugin.go (csiTimeout).
"""

from __future__ import annotations

from collections.abc import Callable

from actors.controllers.shared.shell import Env
from sim.api.kinds.common.volumes.binding import disk_of
from sim.api.kinds.common.volumes.names import attachment_name
from sim.api.kinds.common.volumes.translation import is_inline
from sim.api.objects import is_deleting
from sim.api.types import Obj
from sim.client import Client
from sim.kernel.sync import Future
from sim.units import MS, SECOND

ATTACHMENTS = "volumeattachments"
TIMEOUT_US = 120 * SECOND
# The status is read at growing intervals.
_INITIAL_US, _MAX_US, _FACTOR, _JITTER = 500 * MS, 7 * SECOND, 1.05, 0.1
_DONE = ""


class _Wait:
    """A wait for the outcome of an attachment.

    outcome: returns it, or None if there is none yet
    late: what is returned if there is none at end_us
    found: gets the outcome
    """

    __slots__ = ("end_us", "found", "interval_us", "late", "outcome")

    def __init__(self, outcome: Callable[[], str | None], late: str, end_us: int, found: Future) -> None:
        self.outcome, self.late = outcome, late
        self.end_us, self.found = end_us, found
        self.interval_us: float = _INITIAL_US

    def give_up(self, _: object) -> None:
        """The time is over."""
        self.found.set(self.late)


class Attacher:
    """Attaches and detaches volumes of drivers."""

    def __init__(self, env: Env, client: Client) -> None:
        self._env = env
        self._ctx = env.ctx
        self._client = client
        self._attachments = env.informers[ATTACHMENTS]
        self._random = env.ctx.stream("attach-poll")
        self._prefix = f"{env.names.volume_plugin_prefix}csi: "

    async def attach(self, volume: Obj, node: str) -> str:
        """Attach a volume; returns "" or the error text."""
        disk = disk_of(volume["spec"])
        assert disk is not None  # only such volumes are attached
        driver, handle = disk
        name = attachment_name(driver, handle, node)
        if self._attachments.get(name) is None:
            made: Obj = {
                "apiVersion": self._env.names.api_version("storage", "v1"),
                "kind": "VolumeAttachment",
                "metadata": {"name": name},
                "spec": {
                    "attacher": driver,
                    "nodeName": node,
                    "source": {"inlineVolumeSpec": volume["spec"]}
                    if is_inline(volume)
                    else {"persistentVolumeName": volume["metadata"]["name"]},
                },
            }
            reply = await self._client.create(ATTACHMENTS, "", made)
            if not reply.ok and reply.reason != "AlreadyExists":
                return f"{self._prefix}attacher.Attach failed: {reply.message}"

        def outcome() -> str | None:
            seen = self._attachments.get(name)
            return None if seen is None else _attached(seen)

        late = f"timed out waiting for external-attacher of {driver} CSI driver to attach volume {handle}"
        return await self._poll(outcome, late)

    async def detach(self, driver: str, handle: str, node: str) -> str:
        """Detach a volume; returns "" or the error text."""
        name = attachment_name(driver, handle, node)
        reply = await self._client.delete(ATTACHMENTS, "", name)
        if not reply.ok:
            if reply.reason == "NotFound":
                return _DONE
            return (
                f"{self._prefix}detacher.Detach failed to delete VolumeAttachment [{name}]: {reply.message}"
            )

        def outcome() -> str | None:
            seen = self._attachments.get(name)
            if seen is None:
                return _DONE
            return _message(seen, "detachError")

        late = f"timed out waiting for external-attacher of unknown CSI driver to detach volume {handle}"
        return await self._poll(outcome, late)

    async def is_attached(self, driver: str, handle: str, node: str) -> bool:
        """True if the driver still says that a volume is attached."""
        name = attachment_name(driver, handle, node)
        seen = self._attachments.get(name)
        if seen is None:
            reply = await self._client.get(ATTACHMENTS, "", name)
            if not reply.ok:
                return False
            seen = reply.obj
        return bool((seen.get("status") or {}).get("attached"))

    async def _poll(self, outcome: Callable[[], str | None], late: str) -> str:
        """Wait for an outcome; `late` if there is none in time.

        The looks are callbacks, since hundreds of attachments may wait at the same time.
        """
        ctx = self._ctx
        wait = _Wait(outcome, late, ctx.now_us() + TIMEOUT_US, ctx.future("an attachment"))
        self._look_later(wait)
        found: str = await wait.found.wait()
        return found

    def _look_later(self, wait: _Wait) -> None:
        pause_us = int(wait.interval_us * (1 + _JITTER * self._random.random()))
        left_us = wait.end_us - self._ctx.now_us()
        if pause_us >= left_us:
            self._ctx.call_later_us(left_us, wait.give_up)
        else:
            self._ctx.call_later_us(pause_us, self._look, wait)

    def _look(self, wait: _Wait) -> None:
        found = wait.outcome()
        if found is not None:
            wait.found.set(found)
            return
        wait.interval_us = min(_MAX_US, wait.interval_us * _FACTOR)
        self._look_later(wait)


def _attached(attachment: Obj) -> str | None:
    """What an attachment says of its success; None if the driver has not finished."""
    if is_deleting(attachment):
        return "volume attachment is being deleted"
    if (attachment.get("status") or {}).get("attached"):
        return _DONE
    return _message(attachment, "attachError")


def _message(attachment: Obj, field: str) -> str | None:
    error = (attachment.get("status") or {}).get(field)
    return None if error is None else str(error.get("message") or "")
