"""Values derived from the objects of an informer, computed once for each revision of an object.

Turns the objects of an informer with one index value into values: a Service's pods into addresses,
the pods of a disruption budget into their health.

Holds: `of` returns what `make` computes from the present revision of each object, in the order of
the index; a value is not computed again while its object is the same item (of thousands of pods one
has changed since the last call).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from sim.api.store import Item
from sim.api.types import Obj
from sim.client.cache.informer import Informer

T = TypeVar("T")


class Digests(Generic[T]):
    """Derived values for one index of an informer.

    make: computes the value of one object; pure, and a function of the object alone
    """

    def __init__(self, informer: Informer, index: str, make: Callable[[Obj], T]) -> None:
        self._informer = informer
        self._index = index
        self._make = make
        self._known: dict[str, dict[str, tuple[Item, T]]] = {}

    def of(self, value: str) -> list[T]:
        """The values of all objects that have this index value now."""
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
        """Drop the values of one index value; a later `of` computes them again."""
        self._known.pop(value, None)
