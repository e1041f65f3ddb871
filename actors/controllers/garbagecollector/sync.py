"""Syncs of the garbage collector as steps: what follows an answer.  Pure.

Turns an object of one of the two queues, the graph and the answers to requests into the next
action.

Holds: an object is deleted only after each of its owners was found absent at the API server, or
       waits for it, and only under its own uid; a finalizer is removed last.

Mirrors  kubernetes v1.25 pkg/controller/garbagecollector/garbagecollector.go
         (attemptToDeleteWorker, isDangling, classifyReferences, attemptToDeleteItem,
         processDeletingDependentsItem, orphanDependents, attemptToOrphanWorker), operations.go
         (removeFinalizer).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping, Sequence
from typing import NamedTuple

from actors.controllers.garbagecollector.decide import (
    AbsentOwners,
    Dependents,
    Ident,
    Item,
    Ref,
    blocks,
    coordinates,
    disown_patch,
    finalizer_patch,
    is_deleted_under,
    item_of,
    owner_key,
    unblock_patch,
)
from actors.controllers.shared.shell import BACKOFF_US
from actors.controllers.shared.steps import Get, Sleep, SyncFailed, T
from sim.api.objects import is_deleting, key_of, split_key, uid_of
from sim.api.schema.resource import Resource
from sim.api.types import Obj, Reply
from sim.client.client import Propagation
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import SECOND

SWEEP_US = 30 * SECOND  # discovery sync period


@dataclass(frozen=True, slots=True)
class Patch:
    """Patch an object.  merge: True for a merge patch, False for a strategic one"""

    resource: Resource
    key: str
    body: Obj
    merge: bool


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete an object, if it has this uid.  policy: the propagation policy"""

    resource: Resource
    key: str
    uid: str
    policy: Propagation


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Check an object as `attempt_to_delete`, after a delay."""

    item: Item
    after_us: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Record an event about a dependent if this owner is in another namespace."""

    ident: Ident
    dependent: Obj
    ref: Ref


# The patches of a list are sent at once; each request has its reply, other actions have none.
Action = Get | Patch | list[Patch] | Remove | Enqueue | Report | Sleep
Steps = Generator[Action, Sequence[Reply], T]


class Seen(NamedTuple):
    """What syncs see besides the answers; the graph is asked at the moment of the decision.

    resources: all kinds that are known now
    unhandled: kinds of which no handler notices a deletion
    absent: owners known not to exist
    cached: the object with this key and uid in the cache
    dependents, all_dependents: those of an owner's kind and uid, among the kinds with handlers and
        among all
    """

    names: Names
    resources: Mapping[Ident, Resource]
    unhandled: Container[Ident]
    absent: AbsentOwners
    cached: Callable[[Ident, str, str], Obj | None]
    dependents: Callable[[str, str], Dependents]
    all_dependents: Callable[[str, str], Dependents]


def attempt_to_delete(seen: Seen, item: Item) -> Steps[None]:
    """Check the owners of an object, or its dependents if it waits for them.  Raises SyncFailed."""
    ident = item.api_version, item.kind
    resource = seen.resources.get(ident)
    if resource is None:
        # The kind was removed, and its objects with it; or the kind is not known yet, and
        # dependents that refer to the object wait for it.
        if item.virtual and seen.dependents(item.kind, item.uid):
            raise _no_mapping(ident)
        return
    if item.virtual:
        yield from _attempt_to_delete_virtual(seen, item, resource)
        return
    cached = seen.cached(ident, item.key, item.uid)
    if cached is None:
        return
    waits = is_deleted_under(cached, seen.names.finalizer_foreground)
    if is_deleting(cached) and not waits:
        return
    (live,) = yield Get(resource, *split_key(item.key))
    if not _found(live) or uid_of(live.obj) != item.uid:
        return
    if waits:
        yield from _process_deleting_dependents_item(seen, item, resource)
    else:
        yield from _attempt_to_delete_item(seen, item, resource, live.obj)


def _attempt_to_delete_virtual(seen: Seen, item: Item, resource: Resource) -> Steps[None]:
    """Check an owner that the cache does not have; queue its dependents if it is absent."""
    namespace, name = split_key(item.key)
    if seen.cached((item.api_version, item.kind), owner_key(resource, name, namespace), item.uid) is not None:
        return
    ref = {"apiVersion": item.api_version, "kind": item.kind, "name": name, "uid": item.uid}
    if (yield from _live_owner(seen, ref, namespace)) is not None:
        raise SyncFailed("owner not observed yet")
    for ident, dependent in seen.all_dependents(item.kind, item.uid):
        if resource.namespaced and dependent["metadata"].get("namespace") == namespace:
            yield Report(ident, dependent, ref)
        yield Enqueue(item_of(ident, dependent))


# --- owners ---------------------------------------------------------------------------------------


def _live_owner(seen: Seen, ref: Ref, namespace: str) -> Steps[Obj | None]:
    """The owner of a dependent in this namespace as the API server has it, None if it is absent."""
    ident = ref["apiVersion"], ref["kind"]
    resource = seen.resources.get(ident)
    if resource is None:
        raise _no_mapping(ident)
    namespace = namespace if resource.namespaced else ""
    owner = coordinates(ident, ref["name"], ref["uid"], namespace)
    if owner in seen.absent:
        return None
    if resource.namespaced and not namespace:
        raise SyncFailed("it cannot own a cluster-wide object", silent=True)
    (live,) = yield Get(resource, namespace, ref["name"])
    if _found(live) and uid_of(live.obj) == ref["uid"]:
        return live.obj
    seen.absent.add(owner)
    return None


def _attempt_to_delete_item(seen: Seen, item: Item, resource: Resource, live: Obj) -> Steps[None]:
    """Keep an object with a solid owner and remove its other references; else delete the object."""
    meta, foreground = live["metadata"], seen.names.finalizer_foreground
    solid, waiting, lost = False, False, []
    for ref in meta.get("ownerReferences") or ():
        owner = yield from _live_owner(seen, ref, meta.get("namespace", ""))
        if owner is not None and not is_deleted_under(owner, foreground):
            solid = True
            continue
        waiting = waiting or owner is not None
        lost.append(ref["uid"])
    if not lost:
        return
    if solid:
        (reply,) = yield _disown(resource, live, lost)
        _found(reply)
        return
    policy = _policy_of(live, seen.names)
    if waiting and (dependents := seen.all_dependents(item.kind, item.uid)):
        policy = "Foreground"
        if any(is_deleted_under(each, foreground) for _, each in dependents):
            # A circle of foreground deletions would wait for itself.
            (reply,) = yield Patch(resource, item.key, unblock_patch(live, resource.custom), resource.custom)
            if not reply.ok:
                raise SyncFailed(reply.message)
    (reply,) = yield Remove(resource, item.key, item.uid, policy)
    _found(reply)


def _policy_of(obj: Obj, names: Names) -> Propagation:
    """The policy by which an object without owners is deleted, by its finalizers."""
    finalizers = obj["metadata"].get("finalizers") or ()
    if names.finalizer_orphan in finalizers:
        return "Orphan"
    return "Foreground" if names.finalizer_foreground in finalizers else "Background"


# --- dependents -----------------------------------------------------------------------------------


def _process_deleting_dependents_item(seen: Seen, item: Item, resource: Resource) -> Steps[None]:
    """Queue the dependents that block the deletion of an object; without any, it may go."""
    dependents, foreground = seen.all_dependents(item.kind, item.uid), seen.names.finalizer_foreground
    blocking = [(ident, dependent) for ident, dependent in dependents if blocks(dependent, item.uid)]
    if not blocking:
        yield from _remove_finalizer(item, resource, foreground)
    for ident, dependent in blocking:
        if not is_deleted_under(dependent, foreground):
            yield Enqueue(item_of(ident, dependent))
        if ident in seen.unhandled:
            # No handler notices its deletion, so check again after the next sweep.
            yield Enqueue(item, SWEEP_US)


def attempt_to_orphan(seen: Seen, item: Item) -> Steps[None]:
    """Remove an owner from its dependents' references, then its finalizer.  Raises SyncFailed."""
    resource = seen.resources.get((item.api_version, item.kind))
    if resource is None:
        return
    dependents = seen.all_dependents(item.kind, item.uid)
    for reply in (yield [_disown(seen.resources[ident], each, [item.uid]) for ident, each in dependents]):
        _found(reply)
    yield from _remove_finalizer(item, resource, seen.names.finalizer_orphan)


def _disown(resource: Resource, dependent: Obj, owners: Sequence[str]) -> Patch:
    """The patch that removes owners from the references of an object."""
    body = disown_patch(dependent, owners, resource.custom)
    return Patch(resource, key_of(dependent), body, resource.custom)


def _remove_finalizer(item: Item, resource: Resource, finalizer: str) -> Steps[None]:
    """Remove a finalizer from the live object, again after a conflict."""
    for wait_us in (0, *BACKOFF_US):
        if wait_us:
            yield Sleep(wait_us)
        (reply,) = yield Get(resource, *split_key(item.key))
        patch = finalizer_patch(reply.obj, finalizer) if reply.ok else None
        if patch is not None and uid_of(reply.obj) == item.uid:
            (reply,) = yield Patch(resource, item.key, patch, True)
        if reply.reason != "Conflict":
            break
    _found(reply)


def _found(reply: Reply) -> bool:
    """False if there is no such object any more.  Raises SyncFailed for another error."""
    if not reply.ok and reply.reason != "NotFound":
        raise SyncFailed(reply.message)
    return reply.ok


def _no_mapping(ident: Ident) -> SyncFailed:
    return SyncFailed(f"unable to get REST mapping for {'/'.join(ident)}.")
