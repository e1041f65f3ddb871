"""A process's view of a resource: a local store kept up to date, with indexes and handlers, shared by name.

Turns what a reflector learns into objects by key and calls of `add`, `update`, `delete`.

Holds: an object that did not change keeps its identity, through relists too; handlers are called in the order
of events, after the store and its indexes have changed; `managedFields` are never kept; an informer without
handlers costs no event until somebody reads it, and then shows the same.

Mirrors  client-go v1.25 tools/cache/{shared_informer,delta_fifo,thread_safe_store}.go, informers/factory.go.
Differs  handlers run at the instant the event arrives, none has a queue of its own; the end of the first
         sync is seen at once (upstream polls each 100 ms); index results are in order of arrival.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sim.client.client import Client
from sim.client.reflector import Reflector, Selection
from sim.kernel import Context
from sim.machinery.api import Obj, WatchEvent
from sim.machinery.store import Item

IndexFn = Callable[[Obj], Iterable[str]]
Objects = list[Obj]  # `Informer.list` hides the name inside the class


@dataclass(frozen=True, slots=True)
class Handlers:
    add: Callable[[Obj], None] | None
    update: Callable[[Obj, Obj], None] | None
    delete: Callable[[Obj], None] | None


def key_of(obj: Obj) -> str:
    """ "namespace/name", or the name alone for a cluster-scoped object."""
    meta = obj["metadata"]
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def stripped(obj: Obj) -> Obj:
    meta = obj["metadata"]
    if "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {k: v for k, v in meta.items() if k != "managedFields"}}


class Index:
    """value -> key -> object, for the values that `fn` gives an object."""

    __slots__ = ("fn", "values")

    def __init__(self, fn: IndexFn) -> None:
        self.fn = fn
        self.values: dict[str, dict[str, Obj]] = {}

    def change(self, key: str, old: Obj | None, new: Obj | None) -> None:
        gone = () if old is None else self.fn(old)
        now = () if new is None else tuple(self.fn(new))
        for value in gone:
            if value not in now:
                bucket = self.values[value]
                del bucket[key]
                if not bucket:
                    del self.values[value]
        for value in now:
            assert new is not None
            self.values.setdefault(value, {})[key] = new


class Informer:
    """One resource (or a selection of it) as this process sees it."""

    def __init__(
        self, ctx: Context, client: Client, resource: str, selection: Selection, resync_us: int = 0
    ) -> None:
        self.resource = resource
        self.synced = False
        self._ctx = ctx
        self._objects: dict[str, Obj] = {}
        self._order: list[str] | None = None
        self._indexes: dict[str, Index] = {}
        self._handlers: list[Handlers] = []
        self._on_synced: list[Callable[[], None]] = []
        self._resync_us = resync_us
        self._started = False
        self._reflector = Reflector(ctx, client, resource, self, selection)

    # --- reading --------------------------------------------------------------------------------------------

    @property
    def objects(self) -> Mapping[str, Obj]:
        """Key to object, as of now; not to be changed and not to be iterated over while waiting."""
        if not self._handlers:
            self._reflector.pull()
        return self._objects

    def get(self, key: str) -> Obj | None:
        return self.objects.get(key)

    def list(self) -> Objects:
        """All objects, in the order of their keys."""
        objects = self.objects
        if self._order is None:
            self._order = sorted(objects)
        return [objects[key] for key in self._order]

    def add_index(self, name: str, fn: IndexFn) -> None:
        """Index by the values of `fn`; a second one of the same name is the same by rule."""
        if name not in self._indexes:
            index = self._indexes[name] = Index(fn)
            for key, obj in self.objects.items():
                index.change(key, None, obj)

    def by_index(self, name: str, value: str) -> Objects:
        """The objects with this value, in order of arrival."""
        if not self._handlers:
            self._reflector.pull()
        bucket = self._indexes[name].values.get(value)
        return list(bucket.values()) if bucket else []

    # --- handlers -------------------------------------------------------------------------------------------

    def on(
        self,
        add: Callable[[Obj], None] | None = None,
        update: Callable[[Obj, Obj], None] | None = None,
        delete: Callable[[Obj], None] | None = None,
    ) -> None:
        """Call these from now on; what is there already is added first."""
        objects = self.list()
        self._handlers.append(Handlers(add, update, delete))
        self._reflector.tune()
        if add is not None:
            for obj in objects:
                add(obj)

    def when_synced(self, fn: Callable[[], None]) -> None:
        """Call `fn` once the first list has been taken in."""
        if self.synced:
            fn()
        else:
            self._on_synced.append(fn)

    def start(self) -> None:
        """Begin to list and watch (no effect the second time)."""
        if not self._started:
            self._started = True
            self._reflector.start()
            if self._resync_us:
                self._ctx.call_later_us(self._resync_us, self._resync)

    def _resync(self, _: Any) -> None:
        for obj in self.list():
            self._tell_update(obj, obj)
        self._ctx.call_later_us(self._resync_us, self._resync)

    # --- what the reflector puts in -------------------------------------------------------------------------

    @property
    def lazy(self) -> bool:
        return not self._handlers

    def replace(self, items: Sequence[Item]) -> None:
        new = {key_of(item.obj): item.obj for item in items}
        for key, obj in new.items():
            old = self._objects.get(key)
            if old is None or old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._put(key, stripped(obj))
        for key in [key for key in self._objects if key not in new]:
            self._remove(key, self._objects[key])
        if not self.synced:
            self.synced = True
            waiting, self._on_synced = self._on_synced, []
            for fn in waiting:
                fn()

    def apply(self, event: WatchEvent) -> None:
        assert event.item is not None
        obj = event.item.obj
        if event.type == "DELETED":
            self._remove(key_of(obj), stripped(obj))
        else:
            self._put(key_of(obj), stripped(obj))

    def _put(self, key: str, obj: Obj) -> None:
        old = self._objects.get(key)
        self._objects[key] = obj
        for index in self._indexes.values():
            index.change(key, old, obj)
        if old is not None:
            self._tell_update(old, obj)
            return
        if self._order is not None:
            insort(self._order, key)
        for handlers in self._handlers:
            if handlers.add is not None:
                handlers.add(obj)

    def _tell_update(self, old: Obj, new: Obj) -> None:
        for handlers in self._handlers:
            if handlers.update is not None:
                handlers.update(old, new)

    def _remove(self, key: str, last: Obj) -> None:
        old = self._objects.pop(key, None)
        if old is None:
            return
        self._order = None
        for index in self._indexes.values():
            index.change(key, old, None)
        for handlers in self._handlers:
            if handlers.delete is not None:
                handlers.delete(last)


class Informers:
    """The shared informers of one process."""

    def __init__(self, ctx: Context, client: Client, resync_us: int = 0) -> None:
        self._ctx = ctx
        self._client = client
        self._resync_us = resync_us
        self._made: dict[tuple[str, str], Informer] = {}

    def __getitem__(self, resource: str) -> Informer:
        return self.selected(resource)

    def selected(self, resource: str, namespace: str = "", labels: str = "", fields: str = "") -> Informer:
        """The informer of a part of a resource (label and field selectors as text)."""
        selection = Selection(namespace, labels, fields)
        known = self._made.get((resource, selection.text))
        if known is None:
            known = Informer(self._ctx, self._client, resource, selection, self._resync_us)
            self._made[resource, selection.text] = known
        return known

    def start(self) -> None:
        """Start those not yet started, in the order in which they were asked for."""
        for informer in list(self._made.values()):
            informer.start()

    async def start_and_sync(self) -> None:
        """Start all, and wait until each has its first list."""
        self.start()
        for informer in list(self._made.values()):
            if not informer.synced:
                done = self._ctx.future(f"sync of {informer.resource}")
                informer.when_synced(lambda done=done: done.set(None))  # type: ignore[misc]
                await done.wait()
