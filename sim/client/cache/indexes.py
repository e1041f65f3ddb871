"""Indexes of an informer: which objects have a value that a function computes from each object.

Turns the values that a function returns for each object into keys by value.

Holds: keys are in the order in which their objects arrived or got their values.

Mirrors  client-go v1.25 tools/cache/thread_safe_store.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sim.api.store import Item
from sim.api.types import Obj

IndexFn = Callable[[Obj], Sequence[str]]
NAMESPACE = ("metadata", "namespace")
# Parts of an object that most updates leave unchanged, or all of them.
LASTING = (NAMESPACE, ("metadata", "labels"), ("metadata", "ownerReferences"))


class Index:
    """Maps a value to the keys of the objects that have it, in order of arrival.

    part: path, one or two names deep, to everything that `fn` reads (apart from the namespace); the
        values are recomputed only if that part is a different Python object. Empty: `fn` reads
        several parts.
    made: True once the index is filled. An index of a lasting part is filled at its first read or
        at the first change of a value; the order is then that in which the objects got their
        values.
    """

    __slots__ = ("_fn", "keys", "made", "sub", "top")

    def __init__(self, fn: IndexFn, part: tuple[str, ...] = ()) -> None:
        self._fn = fn
        self.top, self.sub = (*part, "", "")[:2]
        self.keys: dict[str, dict[str, None]] = {}
        self.made = part not in LASTING

    def read(self, item: Item) -> Obj:
        """The lasting part of an object that `fn` reads, and the namespace, without building the
        rest of a compact item.
        """
        part, namespace = item.peek("metadata", self.sub), item.peek("metadata", "namespace")
        held = {} if namespace is None else {"namespace": namespace}
        return {"metadata": held if part is None else {**held, self.sub: part}}

    def make(self, objects: Iterable[tuple[str, Obj]]) -> None:
        """Fill the index with the objects that the informer holds."""
        self.made = True
        for key, obj in objects:
            self.add(key, obj)

    def add(self, key: str, obj: Obj) -> None:
        """Add an object to the values that `fn` returns for it."""
        for value in self._fn(obj):
            self.keys.setdefault(value, {})[key] = None

    def remove(self, key: str, obj: Obj) -> None:
        """Remove a deleted object from all its values."""
        self._drop(key, self._fn(obj))

    def update(self, key: str, old: Obj, new: Obj) -> None:
        """Move an object to its new values after a change of its indexed part."""
        gone, come = self._fn(old), self._fn(new)
        if gone != come:
            kept = frozenset(come)
            self._drop(key, [value for value in gone if value not in kept])
            for value in come:
                self.keys.setdefault(value, {})[key] = None

    def _drop(self, key: str, values: Sequence[str]) -> None:
        for value in values:
            bucket = self.keys[value]
            del bucket[key]
            if not bucket:
                del self.keys[value]
