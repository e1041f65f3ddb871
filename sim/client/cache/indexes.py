"""Which objects of an informer have a value: the indexes that its readers ask by.

Turns what a function says of each object into keys by value.

Holds: keys are in the order in which their objects came, or got their values.

Mirrors  client-go v1.25 tools/cache/thread_safe_store.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sim.api.store import Item
from sim.api.types import Obj

IndexFn = Callable[[Obj], Sequence[str]]
NAMESPACE = ("metadata", "namespace")
# mostly, or for ever
LASTING = (NAMESPACE, ("metadata", "labels"), ("metadata", "ownerReferences"))


class Index:
    """value -> keys of the objects that have it, in order of arrival.

    part: the path, one or two names deep, of all that `fn` reads (but for the namespace); while
        that is the same object the values are taken to be so.  Empty: it reads here and there.
    made: not before somebody reads it, or a value changes, if it is of a part that hardly ever
        does; then the order in which the objects came is that in which they got their values
    """

    __slots__ = ("_fn", "keys", "made", "sub", "top")

    def __init__(self, fn: IndexFn, part: tuple[str, ...] = ()) -> None:
        self._fn = fn
        self.top, self.sub = (*part, "", "")[:2]
        self.keys: dict[str, dict[str, None]] = {}
        self.made = part not in LASTING

    def read(self, item: Item) -> Obj:
        """What `fn` reads of an object, of a lasting part: that and the namespace, without building
        the rest.
        """
        part, namespace = item.peek("metadata", self.sub), item.peek("metadata", "namespace")
        held = {} if namespace is None else {"namespace": namespace}
        return {"metadata": held if part is None else {**held, self.sub: part}}

    def make(self, objects: Iterable[tuple[str, Obj]]) -> None:
        self.made = True
        for key, obj in objects:
            self.add(key, obj)

    def add(self, key: str, obj: Obj) -> None:
        for value in self._fn(obj):
            self.keys.setdefault(value, {})[key] = None

    def remove(self, key: str, obj: Obj) -> None:
        self._drop(key, self._fn(obj))

    def update(self, key: str, old: Obj, new: Obj) -> None:
        """The object is another now, in the part that is read."""
        gone, come = self._fn(old), self._fn(new)
        if gone != come:
            self._drop(key, [value for value in gone if value not in come])
            for value in come:
                self.keys.setdefault(value, {})[key] = None

    def _drop(self, key: str, values: Sequence[str]) -> None:
        for value in values:
            bucket = self.keys[value]
            del bucket[key]
            if not bucket:
                del self.keys[value]
