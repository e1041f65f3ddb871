"""Decisions of the garbage collector: what to do with an object that may have lost its owners.

Pure.

Turns an object, the states of its owners and its dependents into a verdict, and verdicts into
patches.

Mirrors  kubernetes v1.25 pkg/controller/garbagecollector/{garbagecollector,patch,operations}.go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from sim.api.types import Obj
from sim.client.client import Propagation
from sim.dataclass import dataclass
from sim.ident import Names

ABSENT_MAX = 500  # size of the absent owner cache

Ref = Mapping[str, Any]


class OwnerState(Enum):
    """State of an owner: SOLID exists, WAITING is deleted in the foreground, DANGLING is absent."""

    SOLID = "solid"
    WAITING = "waiting"
    DANGLING = "dangling"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with an object.

    disown: uids of the owner references to remove
    unblock: True to clear blockOwnerDeletion in the object's references
    policy: propagation policy of the DELETE, "" if the object stays
    """

    disown: tuple[str, ...] = ()
    unblock: bool = False
    policy: Propagation = ""


def decide(
    item: Obj, owners: Sequence[tuple[Ref, OwnerState]], dependents: Sequence[Obj], names: Names
) -> Verdict:
    """Keep an object with a solid owner and remove its other references; else delete the object."""
    states = [state for _, state in owners]
    if OwnerState.SOLID in states:
        return Verdict(tuple(ref["uid"] for ref, state in owners if state is not OwnerState.SOLID))
    if OwnerState.WAITING in states and dependents:
        # A circle of foreground deletions would wait for itself.
        circle = any(is_deleting_dependents(dependent, names) for dependent in dependents)
        return Verdict(unblock=circle, policy="Foreground")
    finalizers = item["metadata"].get("finalizers") or ()
    if names.finalizer_orphan in finalizers:
        return Verdict(policy="Orphan")
    return Verdict(policy="Foreground" if names.finalizer_foreground in finalizers else "Background")


def is_deleting_dependents(obj: Obj, names: Names) -> bool:
    """True if the object is deleted in the foreground: it waits for its dependents."""
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and names.finalizer_foreground in (meta.get("finalizers") or ())


def starts_deletion_with(old: Obj | None, new: Obj, finalizer: str) -> bool:
    """True if this change starts the deletion of the object under a finalizer."""

    def deleted_under(obj: Obj) -> bool:
        meta = obj["metadata"]
        return "deletionTimestamp" in meta and finalizer in (meta.get("finalizers") or ())

    return deleted_under(new) and (old is None or not deleted_under(old))


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


def disown_patch(uid: str, owners: Sequence[str]) -> Obj:
    """The strategic patch that removes owner references from the object with this uid."""
    gone = [{"$patch": "delete", "uid": owner} for owner in owners]
    return {"metadata": {"ownerReferences": gone, "uid": uid}}


def unblock_patch(item: Obj) -> Obj:
    """The strategic patch that clears blockOwnerDeletion in all references."""
    meta = item["metadata"]
    refs = [
        {**ref, "blockOwnerDeletion": False}
        for ref in meta.get("ownerReferences") or ()
        if ref.get("blockOwnerDeletion")
    ]
    return {"metadata": {"ownerReferences": refs, "uid": meta["uid"]}}


def merged_disown_patch(item: Obj, owners: Sequence[str]) -> Obj:
    """As `disown_patch`, as a merge patch for this revision, because custom resources have no
    strategic patch.
    """
    left = [ref for ref in item["metadata"].get("ownerReferences") or () if ref["uid"] not in owners]
    return _merged(item, left)


def merged_unblock_patch(item: Obj) -> Obj:
    """As `unblock_patch`, for a custom resource."""
    refs = item["metadata"].get("ownerReferences") or ()
    return _merged(
        item, [{**ref, "blockOwnerDeletion": False} if ref.get("blockOwnerDeletion") else ref for ref in refs]
    )


def _merged(item: Obj, refs: list[Obj]) -> Obj:
    meta = item["metadata"]
    changed = {"ownerReferences": refs, "uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    return {"metadata": changed}


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
