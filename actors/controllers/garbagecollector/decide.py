"""Decisions of the garbage collector on references, finalizers and changes of objects.  Pure.

Turns objects into identities, into what their changes start, and into patches.

Mirrors  kubernetes v1.25 pkg/controller/garbagecollector/{graph,patch,operations}.go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from sim.api.objects import is_deleting, key_of, uid_of
from sim.api.schema.resource import Resource
from sim.api.types import Obj
from sim.dataclass import dataclass

ABSENT_MAX = 500  # size of the absent owner cache

Ref = Mapping[str, Any]
Ident = tuple[str, str]  # apiVersion and kind
Dependents = list[tuple[Ident, Obj]]


@dataclass(frozen=True, slots=True)
class Item:
    """An object by identity.

    virtual: True if the object is known from an owner reference only
    """

    api_version: str
    kind: str
    key: str
    uid: str
    virtual: bool = False


def item_of(ident: Ident, obj: Obj) -> Item:
    """The identity of an object of this kind."""
    return Item(*ident, key_of(obj), uid_of(obj))


def owner_key(resource: Resource, name: str, namespace: str) -> str:
    """Key of the owner that a dependent in this namespace refers to by name."""
    return f"{namespace}/{name}" if namespace and resource.namespaced else name


def coordinates(ident: Ident, name: str, uid: str, namespace: str) -> tuple[str, ...]:
    """By what an absent owner is known."""
    return (*ident, name, uid, namespace)


def is_deleted_under(obj: Obj, finalizer: str) -> bool:
    """True if the object is being deleted and has this finalizer."""
    return is_deleting(obj) and finalizer in (obj["metadata"].get("finalizers") or ())


def starts_deletion_with(old: Obj | None, new: Obj, finalizer: str) -> bool:
    """True if this change starts the deletion of the object under a finalizer."""
    return is_deleted_under(new, finalizer) and (old is None or not is_deleted_under(old, finalizer))


def unblocked(before: Sequence[Ref], after: Sequence[Ref]) -> list[Ref]:
    """The references that blocked the deletion of their owner and no longer do."""
    now = {ref["uid"]: ref for ref in after}
    return [
        ref
        for ref in before
        if ref.get("blockOwnerDeletion") and not now.get(ref["uid"], {}).get("blockOwnerDeletion")
    ]


def blocks(dependent: Obj, owner_uid: str) -> bool:
    """True if the dependent blocks the deletion of an owner."""
    refs = dependent["metadata"].get("ownerReferences") or ()
    return any(ref["uid"] == owner_uid and ref.get("blockOwnerDeletion") for ref in refs)


def disown_patch(obj: Obj, owners: Sequence[str], custom: bool) -> Obj:
    """The patch that removes owner references: a strategic one, or a merge patch for this revision
    of a custom resource, which has no strategic patch.
    """
    if custom:
        refs = obj["metadata"].get("ownerReferences") or ()
        return _merged(obj, [ref for ref in refs if ref["uid"] not in owners])
    gone = [{"$patch": "delete", "uid": owner} for owner in owners]
    return {"metadata": {"ownerReferences": gone, "uid": uid_of(obj)}}


def unblock_patch(obj: Obj, custom: bool) -> Obj:
    """As `disown_patch`, but clears blockOwnerDeletion in all references."""
    refs = obj["metadata"].get("ownerReferences") or ()
    free = [{**ref, "blockOwnerDeletion": False} if ref.get("blockOwnerDeletion") else ref for ref in refs]
    if custom:
        return _merged(obj, free)
    changed = [after for before, after in zip(refs, free, strict=True) if after is not before]
    return {"metadata": {"ownerReferences": changed, "uid": uid_of(obj)}}


def _merged(obj: Obj, refs: list[Obj]) -> Obj:
    revision = obj["metadata"]["resourceVersion"]
    return {"metadata": {"ownerReferences": refs, "uid": uid_of(obj), "resourceVersion": revision}}


def finalizer_patch(obj: Obj, finalizer: str) -> Obj | None:
    """A merge patch that removes a finalizer from this revision; None if it does not have it."""
    meta = obj["metadata"]
    finalizers = meta.get("finalizers") or []
    if finalizer not in finalizers:
        return None
    left = [entry for entry in finalizers if entry != finalizer]
    return {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": left}}


class AbsentOwners:
    """Owners known not to exist; beyond the bound, the least recently used one is dropped."""

    def __init__(self, bound: int = ABSENT_MAX) -> None:
        self._bound = bound
        self._known: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def add(self, owner: tuple[str, ...]) -> None:
        """Add an owner."""
        self._known[owner] = None
        self._known.move_to_end(owner)
        if len(self._known) > self._bound:
            self._known.popitem(last=False)

    def __contains__(self, owner: tuple[str, ...]) -> bool:
        if owner not in self._known:
            return False
        self._known.move_to_end(owner)
        return True
