"""What a reader goes by of many objects, worked out once for each state of each.

Turns the objects of an informer with one index value into values: a Service's pods into addresses, a budget's into
who is healthy.

Holds: what `of` answers is what `make` says of each object as it is now, in the order of the index; an object that is
the same item still is not built again (of thousands of pods one has changed since the last time).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from sim.client.informer import Informer
from sim.machinery.api import Obj
from sim.machinery.store import Item

T = TypeVar("T")


class Digests(Generic[T]):
    """Of one index of an informer.  make: pure, of the object alone."""

    def __init__(self, informer: Informer, index: str, make: Callable[[Obj], T]) -> None:
        self._informer = informer
        self._index = index
        self._make = make
        self._known: dict[str, dict[str, tuple[Item, T]]] = {}

    def of(self, value: str) -> list[T]:
        """One for each object that has the value now."""
        make, known, now = self._make, self._known.get(value, {}), dict[str, tuple[Item, T]]()
        for item in self._informer.items_by_index(self._index, value):
            had = known.get(item.key)
            now[item.key] = had if had is not None and had[0] is item else (item, make(item.obj))
        self._known[value] = now
        return [digest for _, digest in now.values()]

    def forget(self, value: str) -> None:
        """Nobody asks for these any more."""
        self._known.pop(value, None)
