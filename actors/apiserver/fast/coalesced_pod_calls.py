"""Short ways of what a node agent says of its pods: it reads a pod and patches its status, and
tells events.

Turns the read into a look at the store, the patch and the event into the commits that `plans` would
make.

Holds: what is answered, written and drawn is what the ordinary requests would get, write and draw
(`plans` has served the like); in every other case the answer is None and nothing was done.
"""

from __future__ import annotations

from actors.apiserver.fast.base import Way
from sim.api.store import Item
from sim.api.types import Obj


class PodWay(Way):
    """Any pods, one at a time.  `key`: in the store."""

    __slots__ = ()

    def look(self, key: str) -> tuple[Item, int] | None:
        """The pod as it is stored, and the storage's latency."""
        server = self.server
        item = server.storage.store.get(key) if self._open() else None
        if item is None:
            return None
        return self._answer(item, 0)

    def patch(self, key: str, body: Obj) -> tuple[Item, int] | None:
        """Patch its status."""
        server = self.server
        plans, item = server.plans, server.storage.store.get(key)
        if item is None or plans is None or not self._open():
            return None
        done = plans.patch_pod(self._asked, item, body)
        if done is None:
            return None
        return self._answer(done, 1)


class EventWay(Way):
    """The events of one recorder."""

    __slots__ = ()

    def tell(self, event: Obj, shape: tuple[str | int, ...]) -> tuple[Item, int] | None:
        """Create an event.  `shape`: those of one differ only in words that nobody looks at."""
        server = self.server
        plans = server.plans
        if plans is None or not self._open():
            return None
        plan = plans.event_plan(self._asked.manager, event, shape)
        if plan is None:
            return None
        item = plans.put_event(self._asked, event, plan) if plans.holds(plan.reads) else None
        if item is None:
            return None
        return self._answer(item, 1)
