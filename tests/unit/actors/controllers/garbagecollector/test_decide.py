"""Identities, references, finalizers and patches of the garbage collector."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.garbagecollector.decide import (
    AbsentOwners,
    blocks,
    disown_patch,
    finalizer_patch,
    is_deleted_under,
    starts_deletion_with,
    unblock_patch,
    unblocked,
)

FOREGROUND = "foregroundDeletion"


def item(**meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": "u", **meta}}


def test_deletion_starts_once() -> None:
    before, marked = item(), item(deletionTimestamp="t", finalizers=["orphan"])
    assert starts_deletion_with(before, marked, "orphan")
    assert starts_deletion_with(None, marked, "orphan")
    assert not starts_deletion_with(marked, marked, "orphan")
    assert not starts_deletion_with(before, marked, "foregroundDeletion")


def test_removed_or_nonblocking_reference_unblocks_its_owner() -> None:
    blocking = [{"uid": "a", "blockOwnerDeletion": True}, {"uid": "b", "blockOwnerDeletion": True}]
    assert unblocked(blocking, [{"uid": "a", "blockOwnerDeletion": True}]) == blocking[1:]
    assert unblocked(blocking[:1], [{"uid": "a", "blockOwnerDeletion": False}]) == blocking[:1]
    assert unblocked([{"uid": "c"}], []) == []


def test_absent_owners_drop_the_least_recently_used() -> None:
    absent = AbsentOwners(2)
    absent.add(("a",))
    absent.add(("b",))
    assert ("a",) in absent
    absent.add(("c",))
    assert [owner in absent for owner in (("a",), ("b",), ("c",))] == [True, False, True]


def test_finalizer_patch_applies_to_the_revision_read() -> None:
    patch = finalizer_patch(item(resourceVersion="5", finalizers=["a", "b"]), "a")
    assert patch == {"metadata": {"resourceVersion": "5", "finalizers": ["b"]}}
    assert finalizer_patch(item(), "a") is None


def refs(*blocking: bool | None) -> list[dict[str, Any]]:
    return [{"uid": f"o{n}", "blockOwnerDeletion": flag} for n, flag in enumerate(blocking)]


def test_references_are_cleared_or_removed_by_patches() -> None:
    owned = item(ownerReferences=refs(True, None, False), resourceVersion="7")
    cleared = [{"uid": "o0", "blockOwnerDeletion": False}]
    assert unblock_patch(owned, custom=False) == {"metadata": {"ownerReferences": cleared, "uid": "u"}}
    assert unblock_patch(item(), custom=False) == {"metadata": {"ownerReferences": [], "uid": "u"}}
    gone = [{"$patch": "delete", "uid": "o1"}]
    assert disown_patch(owned, ["o1"], custom=False) == {"metadata": {"ownerReferences": gone, "uid": "u"}}


def test_references_of_a_custom_resource_are_replaced_in_the_revision_read() -> None:
    owned, bare = (
        item(ownerReferences=refs(True, None, False), resourceVersion="7"),
        item(resourceVersion="7"),
    )
    meta = {"uid": "u", "resourceVersion": "7"}
    free, left = refs(False, None, False), [refs(True)[0], refs(None, None, False)[2]]
    assert unblock_patch(owned, custom=True) == {"metadata": {"ownerReferences": free, **meta}}
    assert unblock_patch(bare, custom=True) == {"metadata": {"ownerReferences": [], **meta}}
    assert disown_patch(owned, ["o1"], custom=True) == {"metadata": {"ownerReferences": left, **meta}}
    assert disown_patch(bare, ["o1"], custom=True) == {"metadata": {"ownerReferences": [], **meta}}


def test_a_dependent_blocks_the_owner_that_its_reference_says() -> None:
    owned = item(ownerReferences=refs(True, False))
    assert [blocks(owned, uid) for uid in ("o0", "o1", "o2")] == [True, False, False]
    assert not blocks(item(), "o0")


@pytest.mark.parametrize(
    ("meta", "waits"),
    [
        ({"deletionTimestamp": "t", "finalizers": [FOREGROUND]}, True),
        ({"finalizers": [FOREGROUND]}, False),
        ({"deletionTimestamp": "t", "finalizers": ["other"]}, False),
        ({"deletionTimestamp": "t"}, False),
    ],
)
def test_foreground_deletions_wait_for_dependents(meta: dict[str, Any], waits: bool) -> None:
    assert is_deleted_under(item(**meta), FOREGROUND) is waits
    assert starts_deletion_with(item(), item(**meta), FOREGROUND) is waits
    assert starts_deletion_with(item(deletionTimestamp="t"), item(**meta), FOREGROUND) is waits


def test_an_owner_that_was_looked_up_is_dropped_later() -> None:
    absent = AbsentOwners(2)
    for owner in ("a", "b", "a", "c"):
        absent.add((owner,))
    assert [owner in absent for owner in (("a",), ("b",), ("c",))] == [True, False, True]
