"""ControllerRevisions: the history of a StatefulSet's or DaemonSet's templates.

Turns an owner's revisions and live hashes into their order and into those that may be pruned.

Holds: revisions are ordered by number, then creation, then name; the live ones are never pruned.

Mirrors  kubernetes v1.25 pkg/controller/history/controller_history.go.
Differs  revisions are compared as JSON values, not as bytes: an API that reorders keys makes no new revision.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.controllers.pod_owners import candidates_of
from actors.controllers.shell import Owner, adopt, can_adopt, claim_objects
from sim.client import Client, Informer
from sim.machinery.api import Obj, Reply
from sim.machinery.objects import controller_of
from sim.machinery.selectors import from_selector

RESOURCE = "controllerrevisions"


def ordered(revisions: Sequence[Obj]) -> list[Obj]:
    return sorted(
        revisions,
        key=lambda r: (r["revision"], r["metadata"].get("creationTimestamp") or "", r["metadata"]["name"]),
    )


def next_number(revisions: Sequence[Obj]) -> int:
    return max((int(r["revision"]) for r in revisions), default=0) + 1


def prunable(revisions: Sequence[Obj], live: Sequence[str], limit: int) -> list[Obj]:
    """The oldest revisions that no pod and no status names, beyond `limit` (`revisions` are ordered)."""
    names = set(live)  # membership only
    unused = [r for r in revisions if r["metadata"]["name"] not in names]
    return unused[: max(0, len(unused) - limit)]


def make_revision(owner: Obj, ref: Obj, name: str, labels: dict[str, str], data: Obj, number: int) -> Obj:
    meta: Obj = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "labels": labels,
        "ownerReferences": [ref],
    }
    annotations = owner["metadata"].get("annotations")
    if annotations:
        meta["annotations"] = annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": meta,
        "data": data,
        "revision": number,
    }


async def claimed(client: Client, informer: Informer, owner: Owner) -> tuple[list[Obj], str | None]:
    """The owner's revisions in order; orphans with the selector's labels are adopted first."""
    selector = from_selector(owner.obj["spec"]["selector"])
    found, error = await claim_objects(
        client,
        owner,
        RESOURCE,
        candidates_of(informer, owner.obj),
        lambda obj: selector.matches(obj["metadata"].get("labels") or {}),
    )
    return ordered(found), error


def listed(informer: Informer, owner: Obj) -> list[Obj]:
    """The revisions in order that match the owner's selector and that it or nobody controls."""
    selector = from_selector(owner["spec"]["selector"])
    found = candidates_of(informer, owner)
    return ordered([obj for obj in found if selector.matches(obj["metadata"].get("labels") or {})])


async def adopt_orphans(client: Client, informer: Informer, owner: Owner) -> str | None:
    """Take in the listed revisions that nobody controls; the first error.  None is ever let go."""
    orphans = [obj for obj in listed(informer, owner.obj) if controller_of(obj) is None]
    refused = await can_adopt(client, owner) if orphans else None
    if refused is not None:
        return f"can't adopt ControllerRevisions: {refused}"
    for revision in orphans:
        error = await adopt(client, owner, RESOURCE, revision)
        if error is not None:
            return error
    return None


async def renumber(client: Client, revision: Obj, number: int) -> Reply:
    """An older revision is the present one again: it gets the highest number."""
    return await client.update(RESOURCE, {**revision, "revision": number})
