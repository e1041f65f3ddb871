"""Postings: the keys of one resource by a label or field of its objects, for lists that select it.

A list of 1,500 pods by a label that none has read each pod: 20 ms of unpacking.  The first list by
a label reads them still; later ones read what has changed since in the log, and the keys with the
value.

Holds: at the revision that they were brought to, postings have each key under the value that `read`
finds in its object; they cost nothing while no list asks.

Mirrors  client-go tools/cache/thread_safe_store.go; the server's cache compares each object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sim.api.store import Item, Only
from sim.units import Revision

KEPT_MAX = 8  # labels and fields of one resource; the one that was not asked for longest is dropped
ITEMS_MIN = 64  # fewer objects are compared one by one


class Postings:
    """The keys of one resource by one value.  rev: the revision of the store that they show"""

    __slots__ = ("_keys", "_read", "_values", "rev")

    def __init__(self, read: Callable[[Item], str | None], items: Mapping[str, Item], rev: Revision) -> None:
        self._read = read
        self._keys: dict[str, dict[str, None]] = {}  # by value
        self._values: dict[str, str] = {}  # by key
        self.follow(items, items, rev)

    def follow(self, keys: Iterable[str], items: Mapping[str, Item], rev: Revision) -> None:
        """Read the objects of some keys again."""
        for key in keys:
            item = items.get(key)
            value = None if item is None else self._read(item)
            known = self._values.get(key)
            if known == value:
                continue
            if known is not None:
                del self._values[key], self._keys[known][key]
                if not self._keys[known]:
                    del self._keys[known]
            if value is not None:
                self._values[key] = value
                self._keys.setdefault(value, {})[key] = None
        self.rev = rev

    def keys(self, only: Only) -> list[str]:
        """The keys with one of these values, in order."""
        return sorted(key for value in dict.fromkeys(only.values) for key in self._keys.get(value, ()))
