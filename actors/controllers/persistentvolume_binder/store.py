"""The claims and volumes as the controller knows them: its informers, and its own writes.

Holds: an object is never older than the controller's last write of it; what has ended is still
       known until the worker has processed its end.

Mirrors  kubernetes v1.25 pkg/controller/volume/persistentvolume/pv_controller_base.go
         (storeObjectUpdate, initializeCaches).
"""

from __future__ import annotations

from collections.abc import Callable

from sim.api.objects import key_of, revision_of
from sim.api.types import Obj, Reply
from sim.client import Client, Informer


class Known:
    """The objects of one resource."""

    def __init__(self, informer: Informer, client: Client) -> None:
        self._informer = informer
        self._client = client
        self._written: dict[str, Obj] = {}  # by this controller, until the informer shows it
        self._ended: dict[str, Obj] = {}  # that the worker has not processed yet

    def on(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with the key of each object that is new, has changed or has ended."""

        def seen(obj: Obj) -> None:
            changed(key_of(obj))

        def gone(obj: Obj) -> None:
            key = key_of(obj)
            self._written.pop(key, None)
            self._ended[key] = obj
            changed(key)

        self._informer.on(seen, lambda _, new: seen(new), gone)

    def get(self, key: str) -> Obj | None:
        """The newest state that is known; None if there is no such object."""
        seen, written = self._informer.get(key), self._written.get(key)
        if written is None:
            return seen
        if seen is not None and int(revision_of(seen)) >= int(revision_of(written)):
            del self._written[key]
            return seen
        return written

    def listed(self) -> list[Obj]:
        """All objects, in the order of their keys."""
        if not self._written:
            return [*self._informer.list()]
        return [self.get(key_of(obj)) or obj for obj in self._informer.list()]

    @property
    def empty(self) -> bool:
        """True if there is no object."""
        return not len(self._informer.objects)

    def cause(self, key: str) -> int:
        """The trace record of the latest change of an object; 0 if unknown."""
        item = self._informer.item(key)
        return item.cause if item is not None else 0

    def ended(self, key: str) -> Obj | None:
        """The last state of an object that has ended; the next call gives None."""
        return self._ended.pop(key, None)

    async def write(self, obj: Obj, subresource: str = "") -> Reply:
        """Update an object."""
        reply = await self._client.update(self._informer.resource, obj, subresource)
        if reply.ok:
            self._written[key_of(reply.obj)] = reply.obj
        return reply
