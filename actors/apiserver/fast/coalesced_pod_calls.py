"""Coalesced calls of a node agent on its pods: reads of a pod, patches of its status, and new
events.

A read becomes a read of the store, and a patch or an event the commit that its write template
makes.

Holds: the results, writes and random draws are those of the ordinary requests, since the templates
have served requests of the same shape.  In every other case the result is None and nothing is
written or drawn.
"""

from __future__ import annotations

from actors.apiserver.fast.base import CallPath
from sim.api.store import Item
from sim.api.types import Obj


class PodCallPath(CallPath):
    """The coalesced calls on pods, one pod at a time."""

    __slots__ = ()

    def look(self, key: str) -> tuple[Item, int] | None:
        """Return the pod that is stored under a key, and the storage's latency."""
        server = self.server
        item = server.storage.store.get(key) if self._open() else None
        if item is None:
            return None
        return self._answer(item, 0)

    def patch(self, key: str, body: Obj) -> tuple[Item, int] | None:
        """Patch the status of the pod that is stored under a key."""
        server = self.server
        templates, item = self._fast.templates, server.storage.store.get(key)
        if item is None or templates is None or not self._open():
            return None
        done = templates.patch_pod(self._asked, item, body)
        if done is None:
            return None
        return self._answer(done, 1)


class EventCallPath(CallPath):
    """The coalesced calls of one event recorder."""

    __slots__ = ()

    def tell(self, event: Obj, shape: tuple[str | int, ...]) -> tuple[Item, int] | None:
        """Create an event.

        shape: equal for events that differ only in texts that validation does not check
        """
        templates = self._fast.templates
        if templates is None or not self._open():
            return None
        template = templates.event_template(self._asked.manager, event, shape)
        if template is None:
            return None
        item = templates.put_event(self._asked, event, template) if templates.holds(template.reads) else None
        if item is None:
            return None
        return self._answer(item, 1)
