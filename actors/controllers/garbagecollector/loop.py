"""Garbage collector: deletes objects without owners; finishes foreground and orphan deletions.

Turns changes of objects into the graph of owners and into objects to check, and carries out the
steps of each sync.

Holds: nothing is decided about an object here; the steps are those of `sync`. An event of an object
       without owners costs two lookups.

Mirrors  kubernetes v1.25 pkg/controller/garbagecollector/{garbagecollector,graph_builder}.go.
Differs  the graph is an index by owner on the informers, not a copy of them; an owner in another
         namespace than its dependents is reported when it was searched for in theirs; leases have
         no handlers, because an event for each renewal would be the largest cost of all: they are
         swept every 30 s, and when an object of a kind that owns leases is deleted. So the deletion
         of a lease starts up to 30 s late, and the objects that it owns or blocks notice it up to
         30 s late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from actors.controllers.garbagecollector.decide import (
    AbsentOwners,
    Dependents,
    Ident,
    Item,
    Ref,
    coordinates,
    item_of,
    owner_key,
    starts_deletion_with,
    unblocked,
)
from actors.controllers.garbagecollector.polled_kinds import Unhandled
from actors.controllers.garbagecollector.sync import (
    SWEEP_US,
    Action,
    Enqueue,
    Patch,
    Remove,
    Report,
    Seen,
    Steps,
    attempt_to_delete,
    attempt_to_orphan,
)
from actors.controllers.shared.aggregated_resources import delegated_among, discover
from actors.controllers.shared.shell import Env, run_workers
from actors.controllers.shared.steps import Get, Sleep, SyncFailed, carry_out
from sim.api.aggregation.delegation import Delegated
from sim.api.crd.served import Served
from sim.api.objects import split_key
from sim.api.schema.resource import Resource
from sim.api.types import Obj, Reply
from sim.client import unmoved

if TYPE_CHECKING:
    from sim.client import Informer

CLIENT = "generic-garbage-collector"
COMPONENT = "garbage-collector-controller"
METADATA_QPS_FACTOR = 2  # startGarbageCollectorController doubles the rate of the metadata client
OWNER_INDEX = "owner"
_UNHANDLED = ("leases",)  # updated all the time, deleted rarely
_VERBS = ("delete", "list", "watch")


async def start(env: Env) -> None:
    """Run the garbage collector until its process ends."""
    await GarbageCollector(env).run()


class GarbageCollector:
    """Shell of the controller: the graph of owners over the informers, and the two queues."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._names = env.names
        self._client = env.client(CLIENT, env.options.api_qps * METADATA_QPS_FACTOR)
        self._recorder = env.recorder(COMPONENT, env.client(CLIENT))
        self._delete_queue = env.queue("garbage_collector_attempt_to_delete")
        self._orphan_queue = env.queue("garbage_collector_attempt_to_orphan")
        self._absent = AbsentOwners()
        self._informers: dict[Ident, Informer] = {}
        self._resources: dict[Ident, Resource] = {}
        # Owner kind -> informers that hold dependents of this kind, learned from owner references,
        # so that a delete does not query every informer.
        self._dependent_idents: dict[str, dict[Ident, None]] = {}
        # uid -> object that waits for its dependents. They may refer to it by another name or from
        # another namespace.
        self._waiting: dict[str, Item] = {}
        self._unhandled: dict[Ident, Unhandled] = {}  # kinds without handlers
        self._owner_kinds_of_unhandled: dict[str, None] = {}
        self._unhandled_owners: dict[str, Item] = {}  # uid -> unhandled object that owns others
        # uid -> finalizers of an unhandled object with a deletion that was handled. A change of the
        # finalizers can start another kind of deletion.
        self._terminating: dict[str, list[str]] = {}
        # resource name -> (version, informer) of custom resources
        self._custom: dict[str, tuple[str, Informer]] = {}
        definitions = env.scheme.resource("customresourcedefinitions")
        self._definitions = (definitions.api_version, definitions.kind)
        services = env.scheme.resource("apiservices")
        self._api_services = (services.api_version, services.kind)
        self._elsewhere: list[Resource] = []  # of other servers
        self._followed: dict[Ident, None] = {}  # each kind in the version of its informer
        for resource in env.scheme.resources:
            ident = (resource.api_version, resource.kind)
            # A reference may name its owner in any version, and a kind without a watch can own too.
            self._resources[ident] = resource
            shared = env.scheme.resource(resource.plural)
            watched = all(verb in resource.verbs for verb in _VERBS) and env.scheme.serves(shared)
            if resource.plural == "events" or not watched:
                continue
            self._informers[ident] = env.informers[resource.plural]
            if shared is resource:
                self._followed[ident] = None
                if resource.plural in _UNHANDLED:
                    self._unhandled[ident] = Unhandled(self._informers[ident])

    async def run(self) -> None:
        """Start the handlers, the workers and the sweeps."""
        for ident in self._followed:
            if ident not in self._unhandled:
                self._follow(ident, self._informers[ident])
        await self._env.informers.start_and_sync()
        graph = self._cached, self._dependents, self._all_dependents
        seen = Seen(self._names, self._resources, self._unhandled, self._absent, *graph)
        workers = self._env.options.concurrent_gc_syncs
        run_workers(self._env, self._delete_queue, partial(self._sync, attempt_to_delete, seen), workers)
        run_workers(self._env, self._orphan_queue, partial(self._sync, attempt_to_orphan, seen), workers)
        self._sweep_forever(None)

    def _update_kinds(self) -> None:
        """Start to follow new custom resources and stop to follow removed ones."""
        definitions = self._informers.get(self._definitions)
        if definitions is None:
            return
        served = Served(definitions.list())
        wanted: dict[str, Resource] = {}  # the preferred version is the first
        for resource in (*served.preferred(), *self._elsewhere):
            if all(verb in resource.verbs for verb in _VERBS):
                wanted.setdefault(resource.group_resource, resource)
        for name, (version, informer) in list(self._custom.items()):
            for ident in [ident for ident, known in self._informers.items() if known is informer]:
                del self._informers[ident], self._resources[ident]
                self._followed.pop(ident, None)
            if name not in wanted or wanted[name].version != version:
                del self._custom[name]
                informer.stop()
        for name, resource in wanted.items():
            followed = (resource.api_version, resource.kind)
            known = self._custom.get(name)
            informer = self._env.informers.custom(resource) if known is None else known[1]
            for each in (*served.resources, *self._elsewhere):
                if each.group_resource == name:
                    self._informers[each.api_version, each.kind] = informer
                    self._resources[each.api_version, each.kind] = each
            self._followed[followed] = None
            if known is None:
                self._custom[name] = resource.version, informer
                self._follow(followed, informer)
                informer.start()

    def _discover(self) -> None:
        """Find the resources of other servers, if there are any."""
        services = self._informers.get(self._api_services)
        found = delegated_among(services.list()) if services is not None else []
        if found:
            self._env.ctx.spawn(self._discover_elsewhere, found, name="garbage-collector-discovery")
        elif self._elsewhere:
            self._elsewhere = []
            self._update_kinds()

    async def _discover_elsewhere(self, found: Sequence[Delegated]) -> None:
        """Follow the resources of other servers.

        Quirk: those of a server that is away are no longer followed.
        """
        known = {each.group_resource for each in self._env.scheme.resources}
        now, _ = await discover(self._client, found, known, all_versions=True)
        before = {(each.group_resource, each.version): each for each in self._elsewhere}
        self._elsewhere = [before.get((each.group_resource, each.version), each) for each in now]
        self._update_kinds()

    def _follow(self, ident: Ident, informer: Informer) -> None:
        informer.add_index(OWNER_INDEX, _owner_uids, ("metadata", "ownerReferences"))

        def added(obj: Obj) -> None:
            meta = obj["metadata"]
            refs = meta.get("ownerReferences")
            if refs:
                self._owners_found(ident, obj, refs)
            if "deletionTimestamp" in meta:
                self._deletion_starts(ident, None, obj)

        def updated(old: Obj, new: Obj) -> None:
            before, after = old["metadata"], new["metadata"]
            if before["uid"] != after["uid"]:
                self._recheck_owners()
                self._waiting.pop(before["uid"], None)
                added(new)  # deleted and created again between two lists
                return
            had, has = before.get("ownerReferences") or (), after.get("ownerReferences") or ()
            if had is not has and had != has:
                known = {ref["uid"]: ref for ref in had}
                self._owners_found(ident, new, [ref for ref in has if ref["uid"] not in known])
                for ref in unblocked(had, has):
                    if (waiting := self._waiting.get(ref["uid"])) is not None:
                        self._delete_queue.add(waiting)
                    elif (owner := self._owner(ref, after.get("namespace", ""))) is not None:
                        self._delete_queue.add(item_of((ref["apiVersion"], ref["kind"]), owner))
            if "deletionTimestamp" in after:
                self._deletion_starts(ident, old, new)

        def deleted(obj: Obj) -> None:
            meta = obj["metadata"]
            dependents = self._dependents(ident[1], meta["uid"])
            if dependents:
                self._absent.add(coordinates(ident, meta["name"], meta["uid"], meta.get("namespace", "")))
            for dependent_of, dependent in dependents:
                self._delete_queue.add(item_of(dependent_of, dependent))
            self._waiting.pop(meta["uid"], None)
            for ref in meta.get("ownerReferences") or ():
                if (waiting := self._waiting.get(ref["uid"])) is not None:
                    self._delete_queue.add(waiting)
            if ident[1] in self._owner_kinds_of_unhandled:
                self._recheck_owners()
                self._sweep()

        informer.on(added, updated, deleted, beat=unmoved)

    # --- the graph --------------------------------------------------------------------------------

    def _dependents(self, kind: str, uid: str) -> Dependents:
        """Dependents among the kinds with handlers."""
        return [
            (ident, dependent)
            for ident in self._dependent_idents.get(kind, ())
            if ident in self._informers
            for dependent in self._informers[ident].by_index(OWNER_INDEX, uid)
        ]

    def _all_dependents(self, kind: str, uid: str) -> Dependents:
        """Dependents among all kinds."""
        unhandled = [(ident, obj) for ident, kept in self._unhandled.items() for obj in kept.owned_by(uid)]
        return self._dependents(kind, uid) + unhandled

    def _owner(self, ref: Ref, namespace: str) -> Obj | None:
        """The cached owner with the reference's uid, or None."""
        ident = (ref["apiVersion"], ref["kind"])
        resource = self._resources.get(ident)
        if resource is None:
            return None
        return self._cached(ident, owner_key(resource, ref["name"], namespace), ref["uid"])

    def _cached(self, ident: Ident, key: str, uid: str) -> Obj | None:
        """The object with this key and uid in the cache, or None."""
        informer = self._informers.get(ident)
        found = None if informer is None else informer.get(key)
        return found if found is not None and found["metadata"]["uid"] == uid else None

    def _record_unhandled_owner(self, ident: Ident, key: str, uid: str) -> None:
        """Record an owner without handlers, so that sweeps notice its deletion."""
        if ident in self._unhandled:
            self._unhandled_owners[uid] = Item(*ident, key, uid, virtual=True)

    def _owners_found(self, ident: Ident, obj: Obj, refs: Any) -> None:
        """Record the owners of an object; queue those that the cache does not have."""
        namespace = obj["metadata"].get("namespace", "")
        for ref in refs:
            self._dependent_idents.setdefault(ref["kind"], {})[ident] = None
            owner_ident = (ref["apiVersion"], ref["kind"])
            resource = self._resources.get(owner_ident)
            if resource is None:
                # It may be a custom resource with a definition that is still to come.
                key = f"{namespace}/{ref['name']}" if namespace else ref["name"]
                self._delete_queue.add(Item(*owner_ident, key, ref["uid"], virtual=True))
                continue
            key = owner_key(resource, ref["name"], namespace)
            self._record_unhandled_owner(owner_ident, key, ref["uid"])
            if self._cached(owner_ident, key, ref["uid"]) is not None:
                if owner_ident not in self._followed:  # named by another version: verify it
                    self._delete_queue.add(item_of(ident, obj))
                continue
            if resource.namespaced and "namespace" not in obj["metadata"]:
                self._report_namespace(ident, obj, ref)
                continue
            self._delete_queue.add(Item(*owner_ident, key, ref["uid"], virtual=True))

    def _report_namespace(self, ident: Ident, obj: Obj, ref: Ref) -> None:
        """Record an event for an object with an owner in another namespace.

        A cluster-wide object with such an owner is never collected.
        """
        meta = obj["metadata"]
        namespace = meta.get("namespace", "")
        informer = self._informers.get((ref["apiVersion"], ref["kind"]))
        owners = () if informer is None else informer.objects.values()
        found = next((owner["metadata"] for owner in owners if owner["metadata"]["uid"] == ref["uid"]), None)
        if found is None or found["namespace"] == namespace:
            return
        about = {"apiVersion": ident[0], "kind": ident[1], "name": meta["name"], "uid": meta["uid"]}
        if namespace:
            about["namespace"] = namespace
        owner = f"{ref['apiVersion']}/{ref['kind']}, namespace: {namespace}, name: {ref['name']}, uid: {ref['uid']}"
        text = f'ownerRef [{owner}] does not exist in namespace "{namespace}"'
        self._recorder.event(about, "Warning", "OwnerRefInvalidNamespace", text)

    def _deletion_starts(self, ident: Ident, old: Obj | None, new: Obj) -> None:
        if starts_deletion_with(old, new, self._names.finalizer_orphan):
            self._orphan_queue.add(item_of(ident, new))
        elif starts_deletion_with(old, new, self._names.finalizer_foreground):
            for dependent_of, dependent in self._all_dependents(ident[1], new["metadata"]["uid"]):
                self._delete_queue.add(item_of(dependent_of, dependent))
            item = self._waiting[new["metadata"]["uid"]] = item_of(ident, new)
            self._delete_queue.add(item)

    def _sweep_forever(self, _: object) -> None:
        self._update_kinds()
        self._discover()
        self._sweep()
        self._env.ctx.call_later_us(SWEEP_US, self._sweep_forever)

    def _recheck_owners(self) -> None:
        for kept in self._unhandled.values():
            kept.recheck_owners()

    def _sweep(self) -> None:
        """Check the objects without handlers: their owners, their deletions, and their dependents."""
        terminating: dict[str, list[str]] = {}
        for ident, kept in self._unhandled.items():
            kept.refresh()
            if not kept.owners_checked:
                self._check_owners_of(ident, kept)
            for uid, obj in kept.being_deleted().items():
                terminating[uid] = obj["metadata"].get("finalizers") or []
                if terminating[uid] != self._terminating.get(uid):
                    self._deletion_starts(ident, None, obj)
        for uid in self._terminating:
            if uid not in terminating:
                self._waiting.pop(uid, None)
        self._terminating = terminating
        for uid, item in list(self._unhandled_owners.items()):
            if not self._all_dependents(item.kind, uid):
                del self._unhandled_owners[uid]
            elif self._cached((item.api_version, item.kind), item.key, uid) is None:
                self._delete_queue.add(item)

    def _check_owners_of(self, ident: Ident, kept: Unhandled) -> None:
        orphans: dict[str, None] = {}
        found: dict[str, Any] = {}
        for key, refs in kept.refs.items():
            if kept.found.get(key) is not refs:
                for ref in refs:
                    self._owner_kinds_of_unhandled[ref["kind"]] = None
                    owner_ident, namespace = (ref["apiVersion"], ref["kind"]), split_key(key)[0]
                    if (resource := self._resources.get(owner_ident)) is not None:
                        place = owner_key(resource, ref["name"], namespace)
                        self._record_unhandled_owner(owner_ident, place, ref["uid"])
                    if self._owner(ref, namespace) is None:
                        orphans[key] = None
            if key not in orphans:
                found[key] = refs
        kept.owners_checked, kept.found = not orphans, found
        for key in orphans:
            if (orphan := kept.informer.get(key)) is not None:
                self._delete_queue.add(item_of(ident, orphan))

    # --- syncs ------------------------------------------------------------------------------------

    async def _sync(self, attempt: Callable[[Seen, Item], Steps[None]], seen: Seen, item: Item) -> str | None:
        try:
            await carry_out(attempt(seen, item), self._do)
        except SyncFailed as failed:
            return None if failed.silent else str(failed)
        return None

    async def _do(self, action: Action) -> Sequence[Reply]:
        match action:
            case Get(resource, namespace, name):
                return [await self._client.get(resource, namespace, name)]
            case Patch():
                return [await self._patch(action)]
            case list():
                return await self._env.ctx.gather(*(partial(self._patch, patch) for patch in action))
            case Remove(resource, key, uid, policy):
                return [await self._client.delete(resource, *split_key(key), uid=uid, policy=policy)]
            case Enqueue(item, after_us):
                self._delete_queue.add_after_us(item, after_us)
            case Report(ident, dependent, ref):
                self._report_namespace(ident, dependent, ref)
            case Sleep(us):
                await self._env.ctx.sleep_us(us)
            case _:
                assert_never(action)
        return ()

    async def _patch(self, patch: Patch) -> Reply:
        kind = "merge" if patch.merge else "strategic"
        return await self._client.patch(patch.resource, *split_key(patch.key), patch.body, kind=kind)


def _owner_uids(obj: Obj) -> tuple[str, ...]:
    refs = obj["metadata"].get("ownerReferences")
    return tuple(ref["uid"] for ref in refs) if refs else ()
