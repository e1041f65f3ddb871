"""Encoded bytes of stored objects, kept with each object up to a bound on all of them.

Holds: the bytes of one revision in one form are made once while they are kept; those that were kept
first are dropped first, also of objects that no longer exist.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher/caching_object.go, which keeps the bytes of
         watch events.
"""

from __future__ import annotations

from collections import deque

from sim.api.store import Item

KEPT_MAX = 64 << 20  # bytes


class KeptBytes:
    """The bytes of all objects.  size_max: their bound"""

    def __init__(self, size_max: int = KEPT_MAX) -> None:
        self.size, self._size_max = 0, size_max
        self._order: deque[tuple[dict[str, bytes], str]] = deque()

    def keep(self, item: Item, form: str, encoded: bytes) -> bytes:
        """Keep the bytes of an object in a form (a key of `Item.raw`), and return them."""
        raw = item.raw
        if raw is None:
            raw = item.raw = {}
        raw[form] = encoded
        self._order.append((raw, form))
        self.size += len(encoded)
        while self.size > self._size_max:
            oldest, key = self._order.popleft()
            self.size -= len(oldest.pop(key))
        return encoded


KEPT = KeptBytes()
