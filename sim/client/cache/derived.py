"""What a reader goes by of many objects, worked out once for each state of each.

Turns the objects of an informer with one index value into values: a Service's pods into addresses,
a budget's into who is healthy.

Holds: what `of` answers is what `make` says of each object as it is now, in the order of the index;
an object that is the same item still is not built again (of thousands of pods one has changed since
the last time).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from sim.api.store import Item
from sim.api.types import Obj
from sim.client.cache.informer import Informer

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
        known = self._known.setdefault(value, {})
        items = self._informer.items_by_index(self._index, value)
        for item in items:
            had = known.get(item.key)
            if had is None or had[0] is not item:
                known[item.key] = item, self._make(item.obj)
        if len(known) > len(items):
            known = self._known[value] = {item.key: known[item.key] for item in items}
        return [known[item.key][1] for item in items]

    def forget(self, value: str) -> None:
        """Who asked for these is gone; another who does has them made anew."""
        self._known.pop(value, None)
