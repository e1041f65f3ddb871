"""What a monitor is: it turns what happens into changes of objects that only conditions see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from sim.api.store import Change, Item
from sim.api.types import Obj
from sim.units import Revision, Virtual

NEVER_WRITTEN = Revision(0)
Emit = Callable[[Change], None]


class Monitor(ABC):
    """Turns commits, steps, programs and time into changes of the objects of one resource.

    resource: its name, which no resource of the API has
    due_us: when it may change next, if nothing happens until then; None if it will not
    wait_us: the shortest time from something that happens to the change that follows from it
    """

    due_us: int | None = None
    wait_us: int
    needs_clients = False  # True if it needs what becomes of the requests of users

    def __init__(self, resource: str, emit: Emit) -> None:
        self.resource, self._emit = resource, emit
        self._items: dict[str, Item] = {}

    @abstractmethod
    def sources(self) -> frozenset[str]:
        """The resources of which it needs commits."""

    @abstractmethod
    def see(self, resource: str, change: Change) -> None:
        """Take a commit of one of its sources."""

    @abstractmethod
    def advance(self, at_us: int) -> None:
        """Notice the time up to an instant."""

    def step(self, kind: str, at_us: int) -> None:
        """A step occurs, or ends; most monitors do not depend on it."""
        return

    def program(self, node: str, pod: Any, container: Any, at_us: int) -> None:
        """A container starts on a machine; most monitors do not depend on it."""
        return

    def request(self, request: Any, at_us: int) -> None:
        """A request of a user has ended; most monitors do not depend on it."""
        return

    def begin(self, at_us: int) -> None:
        """Count times from an instant on, for an observer that comes late."""
        return

    def unrest(self, at_us: int) -> str:
        """Why what it reports does not hold, in words; "" if it says nothing about that."""
        return ""

    def _put(self, name: str, obj: Obj | None, at_us: int) -> None:
        """Change an object, or remove it (None)."""
        key = f"//{self.resource}//{name}"
        before = self._items.pop(name, None)
        if obj is not None:
            item = self._items[name] = Item(key, obj, NEVER_WRITTEN, NEVER_WRITTEN)
        elif before is None:
            return
        else:
            item = before
        self._emit(Change(NEVER_WRITTEN, item, before, obj is None, Virtual(at_us)))
