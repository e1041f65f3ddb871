"""Informers: a process's cached view of a resource with indexes and handlers, shared by name.

Turns the lists and watch events of a reflector into objects by key and calls of `add`, `update`,
`delete`.

Holds: an unchanged object keeps its identity, also through relists (of a compact item, the parts
that it shares with other items keep theirs); handlers are called in the order of events, after the
store and its indexes have changed; `managedFields` are never kept; an informer without handlers
costs no event until it is read, and then shows the same objects; a handler that is registered for
one routing value is not called for updates of objects with another value (`route`).

Mirrors  client-go v1.25 tools/cache/{shared_informer,delta_fifo,thread_safe_store}.go,
         informers/factory.go.
Differs  handlers run at the instant at which the event arrives, and have no queues of their own;
         the end of the first sync is observed at once (upstream polls each 100 ms); index results
         are in order of arrival; if no handler needs updates of heartbeat timestamps alone
         (`store.HeartbeatItem`), these are received late, a thousand at once; if all handlers of
         such updates accept late delivery, they are received when the informer is read, as long as
         no process, link or clock changes its state (`Standing`) and no handler asks for prompt
         delivery (`deliver_promptly`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from sys import intern
from typing import Any

from sim.api.objects import controller_of
from sim.api.schema.resource import Resource
from sim.api.store import HeartbeatItem, Item
from sim.api.types import Obj, WatchEvent
from sim.api.watch.columnar_renewals import Runs
from sim.api.watch.delivery import Delivery
from sim.api.watch.lease_renewals import Renewal
from sim.client.cache.handlers import EVERYBODY, HandlersByEvent, HeartbeatNeeds, Heartbeats, unmoved
from sim.client.cache.indexes import NAMESPACE, Index, IndexFn
from sim.client.cache.reflector import Reflector, Selection
from sim.client.cache.unread import Unread
from sim.client.client import Client
from sim.kernel import Context, Future, State
from sim.kernel.causes import caused_by
from sim.units import NO_REVISION, SECOND

Objects = list[Obj]  # `Informer.list` hides the name inside the class
Items = list[Item]


def stripped(obj: Obj) -> Obj:
    """The object without `managedFields`."""
    meta = obj["metadata"]
    if "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {k: v for k, v in meta.items() if k != "managedFields"}}


def _without_managed(item: Item) -> Item:
    bare = Item(item.key, stripped(item.obj), item.rev, item.created, item.managed)
    bare.cause = item.cause
    return bare


class View(Mapping[str, Obj]):
    """Key to object, over items that may be compact: an object is built when it is read."""

    __slots__ = ("_items",)

    def __init__(self, items: dict[str, Item]) -> None:
        self._items = items

    def __getitem__(self, key: str) -> Obj:
        return self._items[key].obj

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def copy(self) -> View:
        """A snapshot of the present items."""
        return View(self._items.copy())


RESYNC_MIN_US = SECOND  # client-go tools/cache/shared_informer.go: minimumResyncPeriod


class Informer:
    """The cached view that this process has of one resource or of a selection of it."""

    def __init__(
        self, ctx: Context, client: Client, resource: str | Resource, selection: Selection, resync_us: int = 0
    ) -> None:
        self.resource = resource if isinstance(resource, str) else resource.group_resource
        self.synced = False
        self._ctx = ctx
        self._items: dict[str, Item] = {}
        self._view = View(self._items)
        kind = client.scheme.resource(resource)
        self._custom = kind.custom
        # The key in the store is this prefix and the key in the informer.
        self._prefix = kind.prefix if kind.namespaced else f"{kind.prefix}/"
        self._cut = len(self._prefix)
        self._unread = Unread()
        # Number of changes other than lease renewals received while no handler was registered.
        self.shifts = 0
        self._order: list[str] | None = None
        self._indexes: dict[str, Index] = {}
        # Indexes by the part that they read: outer name, then inner name.
        self._by_part: dict[str, dict[str, list[Index]]] = {}
        self._handlers = HandlersByEvent()
        self._on_synced: list[Callable[[], None]] = []
        self._resync_us = max(resync_us, RESYNC_MIN_US) if resync_us else 0
        self._resynced = False
        self._heartbeats = HeartbeatNeeds(ctx.kernel.fast.lazy)
        # Without handlers events wait for a reader; without the fast path each is received as it
        # arrives.
        self.delivery = Delivery.ON_READ if ctx.kernel.fast.lazy else Delivery.EVENTS
        self._reflector = Reflector(ctx, client, resource, self, selection)
        ctx.on_hindrance(self._hindered)
        ctx.views += (self,)

    # --- reading ----------------------------------------------------------------------------------

    @property
    def objects(self) -> View:
        """Key to object, as of now; not to be changed, and not to be iterated over across an await."""
        self._settled()
        return self._view

    @property
    def selection(self) -> Selection:
        """The part of the resource that it holds."""
        return self._reflector.selection

    def items(self) -> dict[str, Item]:
        """The items by their keys in the storage, as of now."""
        return {item.key: item for item in self._settled().values()}

    def _settled(self) -> dict[str, Item]:
        self.pull()
        unread = self._unread
        if unread.late or unread.renewals or not unread.is_sorted:
            self._settle()
        return self._items

    def item(self, key: str) -> Item | None:
        """The item that holds an object; a handler that keeps items uses less memory than one that
        keeps objects, because a compact item is not built before its object is read.
        """
        return self._items.get(key)

    def long(self, key: str) -> str:
        """The key in the store, or a prefix of one, for a key of this informer."""
        return self._prefix + key

    def get(self, key: str) -> Obj | None:
        """The object of a key as of now; None if there is none."""
        self.pull()
        unread = self._unread
        if unread.renewals:
            unread.sort_in()
        entry, late = self._items.get(key), unread.late
        if (late and self._prefix + key in late) or not unread.is_sorted:
            if entry is None:
                self._settle()
            elif (newest := self.newest(self._prefix + key)) is not None and newest is not entry:
                late.pop(newest.key, None)
                self._put(key, newest)
            entry = self._items.get(key)
        return None if entry is None else entry.obj

    def is_unhandled(self) -> bool:
        """True while no handler is registered: a slow process then receives events at no cost, as
        they arrive or when they are read.
        """
        handlers = self._handlers
        return handlers.add.none and handlers.update.none and handlers.delete.none

    def pull(self) -> None:
        """Receive what has arrived; with handlers this has been done already, except for heartbeats
        that are delivered late.
        """
        if self.delivery is Delivery.ON_READ:
            self._reflector.pull()
        elif self.delivery is Delivery.CHANGES and self._heartbeats.on_read:
            self._reflector.pull_beats()
        elif self._heartbeats.is_disturbed and self._ctx.state is State.RUNNING:
            self._heartbeats.is_disturbed = False
            self._tune()

    def newest(self, long: str) -> Item | None:
        """The newest received item of this key in the store, without building objects that have not
        been read.
        """
        unread = self._unread
        unread.sort_in()
        entry = unread.late.get(long) or self._items.get(long.removeprefix(self._prefix))
        run = unread.run
        if run is not None and entry is not None and entry.rev < run.rev:
            result = run.course.newest(long, run.rev)
            if result is not None and result.rev > entry.rev:
                return result
        return entry

    def peek(self, section: str, field: str) -> Iterator[tuple[str, Any]]:
        """Key and one field of each object, without building objects that have not been read."""
        self.pull()
        self._look_up()
        late, prefix = self._unread.late, self._prefix
        for key, item in self._items.items():
            yield key, late.get(prefix + key, item).peek(section, field)
        for long, item in late.items():
            if (key := long.removeprefix(prefix)) not in self._items:
                yield key, item.peek(section, field)

    def news(self) -> Sequence[Item | Runs]:
        """The items received since the last call (none at the first call) and not deleted since, in
        order of arrival.

        There can be one reader only: each item is returned once.
        """
        news, self._unread.news = self._unread.news, []
        return news or ()

    def list(self) -> Objects:
        """All objects, in the order of their keys."""
        return [item.obj for item in self._in_order()]

    def _in_order(self) -> Items:
        items = self._settled()
        if self._order is None:
            self._order = sorted(items)
        return [items[key] for key in self._order]

    def add_index(self, name: str, fn: IndexFn, part: tuple[str, ...] = ()) -> None:
        """Add an index of the values of `fn`, which reads only `part`; by convention a second index
        of the same name is the same index.
        """
        if name not in self._indexes:
            index = self._indexes[name] = Index(fn, part)
            if part != NAMESPACE:  # the namespace of an object never changes
                self._by_part.setdefault(index.top, {}).setdefault(index.sub, []).append(index)
            if index.made:
                index.make((key, item.obj) for key, item in self._settled().items())

    def by_index(self, name: str, value: str) -> Objects:
        """The objects with this value, in order of arrival."""
        return [item.obj for item in self.items_by_index(name, value)]

    def items_by_index(self, name: str, value: str) -> Items:
        """The items of the objects with this value, in order of arrival; an item that is the same
        as before holds the same object, which need not be built to compare it.
        """
        items, index = self._settled(), self._indexes[name]
        if not index.made:
            index.make((key, index.read(item)) for key, item in items.items())
        return [items[key] for key in index.keys.get(value, ())]

    # --- handlers ---------------------------------------------------------------------------------

    def on(
        self,
        add: Callable[[Obj], None] | None = None,
        update: Callable[[Obj, Obj], None] | None = None,
        delete: Callable[[Obj], None] | None = None,
        about: str = EVERYBODY,
        beat: Callable[[Obj, Obj], None] | None = None,
        heartbeats: Heartbeats = Heartbeats.PROMPT,
    ) -> None:
        """Register handlers; `add` is called at once for each object that is already known.

        about: routing value (`route`); updates of objects with another value are not delivered
        `beat`: called in place of `update` for a revision that changed nothing but heartbeat
            timestamps (`store.HeartbeatItem`); default `update`; `unmoved` ignores them
        heartbeats: when `beat` has to be called
        """
        entry = self._in_order()
        if update is not None:
            self._handlers.update.add(update, about)
            if beat is not unmoved:
                self._handlers.beat.add(beat or update, about)
                self._heartbeats.add(heartbeats)
        if delete is not None:
            self._handlers.delete.add(delete, about)
        self._tune()
        if add is not None:
            self._handlers.add.add(add, about)
            for item in entry:
                add(item.obj)

    def deliver_promptly(self, who: str, is_needed: bool) -> None:
        """Request (or stop requesting) prompt delivery of heartbeats for the handler named `who`."""
        if self._heartbeats.require_prompt(who, is_needed):
            self._tune()

    def _tune(self) -> None:
        may_wait = self._ctx.runs_freely and self._heartbeats.may_wait()
        delivery = Delivery.CHANGES if may_wait else Delivery.EVENTS
        if delivery is not self.delivery:
            self.delivery = delivery
            self._reflector.tune()
            if may_wait and self._heartbeats.on_read:
                self._ctx.kernel.standing.deferred[self.plan] = None

    def _hindered(self) -> None:
        """Receive each heartbeat singly while the process is paused or slow, because each one costs
        a slow process time.
        """
        if self.delivery is not Delivery.ON_READ:
            if self.delivery is Delivery.CHANGES:
                self._reflector.pull_beats()
            self._tune()

    def plan(self) -> None:
        """The state of a process, link or clock changes: from now on receive heartbeats promptly,
        until the process runs freely and the informer is read.
        """
        needs = self._heartbeats
        if self.delivery is Delivery.CHANGES and needs.on_read and self._ctx.state is not State.DEAD:
            self.pull()
            needs.is_disturbed = True
            self._tune()

    def route(self, fn: Callable[[Obj], str], part: str) -> None:
        """Set the function that computes an object's routing value (`EVERYBODY`: all handlers).

        It reads only the field `part` of the metadata. An update that changes this field is
        delivered to all handlers. By convention a second call sets the same function.
        """
        self._handlers.route, self._handlers.route_part = fn, part

    def when_synced(self, fn: Callable[[], None]) -> None:
        """Call `fn` once the first list has been received; at once if it has been already."""
        if self.synced:
            fn()
        else:
            self._on_synced.append(fn)

    def start(self) -> None:
        """Start to list and watch; further calls have no effect."""
        if self._reflector.start() and self._resync_us:
            self._ctx.call_later_us(self._resync_us, self._resync)

    def stop(self) -> None:
        """Stop to list and watch; the objects received so far remain."""
        self._reflector.stop()
        self._ctx.views = tuple(view for view in self._ctx.views if view is not self)

    def _resync(self, _: Any) -> None:
        self._resynced = True
        for obj in self.list():
            self._tell_again(obj)
        self._ctx.call_later_us(self._resync_us, self._resync)

    def _tell_again(self, obj: Obj) -> None:
        """Call `update` for an object that has not changed, as a resync does."""
        for update in self._handlers.update.of[self._handlers.value_of(obj)]:
            update(obj, obj)

    # --- what the reflector puts in ---------------------------------------------------------------

    def replace(self, items: Sequence[Item]) -> None:
        """Replace the content of the store by a list.

        The cause of a change that the list shows is the write of the object, as for a watched
        change; the cause of a missing object is the last write by which its owner lost an object.

        Handlers are notified of unchanged objects too, as at a resync (shared_informer.go,
        sharedIndexInformer.OnUpdate: until the first resync every listener counts as due).
        """
        kernel = self._ctx.kernel
        self.shifts += 1
        self._settle()
        new = {self._short(item.key): item for item in items}
        for key, item in new.items():
            old = self._items.get(key)
            if old is None or old.rev != item.rev:
                with caused_by(kernel, item.cause):
                    if self._unread.news is not None:
                        self._unread.news.append(item)
                    self._put(key, item)
            elif self._custom and old.obj != item.obj:  # its definition converts it differently now
                self._put(key, item)
            elif self.delivery is not Delivery.ON_READ and not self._resynced:
                self._tell_again(old.obj)
        for key in [key for key in self._items if key not in new]:
            item = self._items[key]
            owner = controller_of(item.obj)
            gone = kernel.standing.gone(item.key if owner is None else owner["uid"])
            with caused_by(kernel, gone if gone > item.cause else 0):
                self._unread.drop_news(item.key)
                self._remove(key, item.obj)
        if not self.synced:
            self.synced = True
            waiting, self._on_synced = self._on_synced, []
            for fn in waiting:
                fn()

    def _short(self, long: str) -> str:
        """The informer's key ("namespace/name" or the name alone) for a key in the store."""
        return long[self._cut :]

    def apply(self, event: WatchEvent) -> None:
        """Apply one watch event to the store and notify handlers."""
        item = event.item
        assert item is not None and item.key[: self._cut] == self._prefix, "an event is of another resource"
        news, key = self._unread.news, item.key[self._cut :]
        if event.type == "DELETED":
            self._unread.drop_news(item.key)
            self._remove(key, stripped(item.obj))
        else:
            if news is not None:
                news.append(item)
            self._put(key, item, type(item) is HeartbeatItem)

    def absorb(self, events: Sequence[WatchEvent]) -> None:
        """Receive events while no handler is registered: items are indexed when they are read."""
        unread = self._unread
        if unread.absorb(events):
            return
        unread.sort_in()
        news, late = unread.news, unread.late
        for event in events:
            item = event.item
            if item is None:
                continue  # a bookmark
            self.shifts += not isinstance(item, Renewal)
            long = item.key
            if event.type != "DELETED":
                late[long] = item
                if news is not None:
                    news.append(item)
                continue
            late.pop(long, None)
            self._unread.drop_news(long)
            news = unread.news
            self._remove(long.removeprefix(self._prefix), item.obj)

    def _look_up(self) -> None:
        """Move the newest columnar renewal of each lease to the late items."""
        unread = self._unread
        unread.sort_in()
        if not unread.is_sorted and unread.run is not None:
            unread.is_sorted = True
            for long in unread.run.course.rows:
                newest = self.newest(long)
                if newest is not None and newest is not self._items.get(long.removeprefix(self._prefix)):
                    unread.late[long] = newest

    def _settle(self) -> None:
        self._look_up()
        late, self._unread.late = self._unread.late, {}
        for long, item in late.items():
            self._put(self._short(long), item)

    def _put(self, key: str, item: Item, with_new_times: bool = False) -> None:
        """Store an item and notify handlers.

        `with_new_times`: True if nothing but heartbeat timestamps is new
        """
        items, obj, handlers = self._items, item.obj, self._handlers
        if "managedFields" in obj["metadata"]:
            item = _without_managed(item)
            obj = item.obj
        entry = items.get(key)
        if entry is None:
            key = intern(key)  # all informers share one string
        items[key] = item
        if entry is not None:
            if self.delivery is Delivery.ON_READ and not self._indexes:
                return  # there is no handler and no index to update
            old = entry.obj
            if with_new_times:  # no index reads heartbeat timestamps
                for beat in handlers.beat.of[EVERYBODY]:
                    beat(old, obj)
                return
            was: Any
            now: Any
            for top, parts in self._by_part.items():
                was, now = old.get(top), obj.get(top)
                if was is now and top:
                    continue
                deep = "" not in parts and was and now
                if not deep or [*map(was.get, parts)] != [*map(now.get, parts)]:
                    for sub, indexes in parts.items():
                        if not (sub and was and now) or was.get(sub) is not now.get(sub):
                            self._reindex(indexes, intern(key), old, obj)
            route, part, value = handlers.route, handlers.route_part, EVERYBODY
            if route is not None and old["metadata"].get(part) is obj["metadata"].get(part):
                value = route(obj)
            for update in handlers.update.of[value]:
                update(old, obj)
            return
        self._order = None
        for index in self._indexes.values():
            if index.made:
                index.add(key, obj)
        value = handlers.value_of(obj)
        for add in handlers.add.of[value]:
            add(obj)

    def _reindex(self, indexes: Sequence[Index], key: str, old: Obj, obj: Obj) -> None:
        for index in indexes:
            if not index.made:
                before = {**self._items, key: Item(key, old, NO_REVISION, NO_REVISION)}
                index.make((each, item.obj) for each, item in before.items())
            index.update(key, old, obj)

    def _remove(self, key: str, last: Obj) -> None:
        entry = self._items.pop(key, None)
        if entry is None:
            return
        old = entry.obj
        self._order = None
        for index in self._indexes.values():
            if index.made:
                index.remove(key, old)
        for delete in self._handlers.delete.of[self._handlers.value_of(last)]:
            delete(last)


class Informers:
    """The shared informers of one process."""

    def __init__(self, ctx: Context, client: Client, resync_us: int = 0) -> None:
        self._ctx = ctx
        self._client = client
        self._resync_us = resync_us
        self._made: dict[tuple[str, str], Informer] = {}
        # `start_and_sync` calls that wait while starting is held.
        self._held: list[Future] | None = None

    def hold(self) -> None:
        """Make `start_and_sync` wait until `release` is called."""
        self._held = []

    def release(self) -> None:
        """Let waiting and later calls of `start_and_sync` proceed."""
        current, self._held = self._held, None
        for waiting in current or ():
            waiting.set(None)

    def __getitem__(self, resource: str) -> Informer:
        return self.selected(resource)

    def selected(self, resource: str, namespace: str = "", labels: str = "", fields: str = "") -> Informer:
        """The informer of a part of a resource (label and field selectors as text)."""
        selection = Selection(namespace, labels, fields)
        entry = self._made.get((resource, selection.text))
        if entry is None:
            entry = Informer(self._ctx, self._client, resource, selection, self._resync_us)
            self._made[resource, selection.text] = entry
        return entry

    def custom(self, resource: Resource) -> Informer:
        """An informer of a custom resource that may stop being served; the caller starts and stops
        stops it.
        """
        return Informer(self._ctx, self._client, resource, Selection())

    def start(self) -> None:
        """Start the informers that are not started yet, in the order of their creation."""
        for informer in self._served():
            informer.start()

    def _served(self) -> list[Informer]:
        """The informers of kinds that the server serves; one of a disabled kind stays empty, and
        `start_and_sync` does not wait for it.
        """
        return [each for each in self._made.values() if self._client.scheme.serves(each.resource)]

    async def start_and_sync(self) -> None:
        """Start all, and wait until each has its first list."""
        if self._held is not None:
            self._held.append(self._ctx.future("the start of informers"))
            await self._held[-1].wait()
        self.start()
        for informer in self._served():
            if not informer.synced:
                done = self._ctx.future(f"sync of {informer.resource}")
                informer.when_synced(lambda done=done: done.set(None))  # type: ignore[misc]
                await done.wait()
