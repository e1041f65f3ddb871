"""What to do with an object whose owners may be gone: the garbage collector's decision and its
patches.

Mirrors  kubernetes v1.25 pkg/controller/garbagecollector/{garbagecollector,patch,operations}.go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sim.api.types import Obj
from sim.ident import Names

ABSENT_MAX = 500  # size of the absent owner cache

Ref = Mapping[str, Any]


class OwnerState(Enum):
    """solid: exists; waiting: exists and waits for its dependents to go; dangling: does not exist."""

    SOLID = "solid"
    WAITING = "waiting"
    DANGLING = "dangling"


@dataclass(frozen=True, slots=True)
class Verdict:
    """disown: uids of owner references to drop; unblock: let no own reference block its owner;
    policy: of the DELETE ("": the object stays)."""

    disown: tuple[str, ...] = ()
    unblock: bool = False
    policy: str = ""


def decide(
    item: Obj, owners: Sequence[tuple[Ref, OwnerState]], dependents: Sequence[Obj], names: Names
) -> Verdict:
    """One solid owner keeps an object; then its other references go.

    None left: the object goes.
    """
    states = [state for _, state in owners]
    if OwnerState.SOLID in states:
        return Verdict(tuple(ref["uid"] for ref, state in owners if state is not OwnerState.SOLID))
    if OwnerState.WAITING in states and dependents:
        # a circle of foreground deletions would wait for itself
        circle = any(is_deleting_dependents(dependent, names) for dependent in dependents)
        return Verdict(unblock=circle, policy="Foreground")
    finalizers = item["metadata"].get("finalizers") or ()
    if names.finalizer_orphan in finalizers:
        return Verdict(policy="Orphan")
    return Verdict(policy="Foreground" if names.finalizer_foreground in finalizers else "Background")


def is_deleting_dependents(obj: Obj, names: Names) -> bool:
    """Being deleted in the foreground: it waits for its dependents."""
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and names.finalizer_foreground in (meta.get("finalizers") or ())


def starts_deletion_with(old: Obj | None, new: Obj, finalizer: str) -> bool:
    """Whether this change is the one with which the object is deleted under a finalizer."""

    def deleted_under(obj: Obj) -> bool:
        meta = obj["metadata"]
        return "deletionTimestamp" in meta and finalizer in (meta.get("finalizers") or ())

    return deleted_under(new) and (old is None or not deleted_under(old))


def unblocked(before: Sequence[Ref], after: Sequence[Ref]) -> list[Ref]:
    """References that blocked their owner's deletion and do so no more."""
    now = {ref["uid"]: ref for ref in after}
    return [
        ref
        for ref in before
        if ref.get("blockOwnerDeletion") and not now.get(ref["uid"], {}).get("blockOwnerDeletion")
    ]


def blocks(dependent: Obj, owner_uid: str) -> bool:
    refs = dependent["metadata"].get("ownerReferences") or ()
    return any(ref["uid"] == owner_uid and ref.get("blockOwnerDeletion") for ref in refs)


def disown_patch(uid: str, owners: Sequence[str]) -> Obj:
    gone = [{"$patch": "delete", "uid": owner} for owner in owners]
    return {"metadata": {"ownerReferences": gone, "uid": uid}}


def unblock_patch(item: Obj) -> Obj:
    meta = item["metadata"]
    refs = [
        {**ref, "blockOwnerDeletion": False}
        for ref in meta.get("ownerReferences") or ()
        if ref.get("blockOwnerDeletion")
    ]
    return {"metadata": {"ownerReferences": refs, "uid": meta["uid"]}}


def merged_disown_patch(item: Obj, owners: Sequence[str]) -> Obj:
    """As `disown_patch`, of a custom resource, which knows no strategic patches: of exactly this
    revision.
    """
    left = [ref for ref in item["metadata"].get("ownerReferences") or () if ref["uid"] not in owners]
    return _merged(item, left)


def merged_unblock_patch(item: Obj) -> Obj:
    """As `unblock_patch`, of a custom resource."""
    refs = item["metadata"].get("ownerReferences") or ()
    return _merged(
        item, [{**ref, "blockOwnerDeletion": False} if ref.get("blockOwnerDeletion") else ref for ref in refs]
    )


def _merged(item: Obj, refs: list[Obj]) -> Obj:
    meta = item["metadata"]
    said = {"ownerReferences": refs, "uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    return {"metadata": said}


def finalizer_patch(obj: Obj, finalizer: str) -> Obj | None:
    """A merge patch that takes a finalizer off exactly this revision; None if it is not there."""
    meta = obj["metadata"]
    finalizers = meta.get("finalizers") or []
    if finalizer not in finalizers:
        return None
    left = [entry for entry in finalizers if entry != finalizer]
    return {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": left}}


class AbsentOwners:
    """Owners known not to exist, the least recently asked for forgotten first."""

    def __init__(self, bound: int = ABSENT_MAX) -> None:
        self._bound = bound
        self._known: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def add(self, owner: tuple[str, ...]) -> None:
        self._known[owner] = None
        self._known.move_to_end(owner)
        if len(self._known) > self._bound:
            self._known.popitem(last=False)

    def __contains__(self, owner: tuple[str, ...]) -> bool:
        if owner not in self._known:
            return False
        self._known.move_to_end(owner)
        return True
