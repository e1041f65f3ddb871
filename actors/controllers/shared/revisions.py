"""ControllerRevisions: the history of a StatefulSet's or DaemonSet's templates.

Turns an owner's revisions and the names of the live ones into their order and into those to prune.

Holds: revisions are ordered by number, then creation, then name; live ones are never pruned.

Mirrors  kubernetes v1.25 pkg/controller/history/controller_history.go.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.controllers.shared.pod_owners import candidates_of
from actors.controllers.shared.pod_template_hash import revision_json
from actors.controllers.shared.shell import Owner, adopt, can_adopt
from sim.api.objects import controller_of
from sim.api.raw_text import text_of
from sim.api.selectors import from_selector
from sim.api.types import Obj, Reply
from sim.client import Client, Informer

RESOURCE = "controllerrevisions"


def ordered(revisions: Sequence[Obj]) -> list[Obj]:
    """Revisions by number, creation time and name."""
    return sorted(
        revisions,
        key=lambda r: (r["revision"], r["metadata"].get("creationTimestamp") or "", r["metadata"]["name"]),
    )


def next_number(revisions: Sequence[Obj]) -> int:
    """The number of the next revision."""
    return max((int(r["revision"]) for r in revisions), default=0) + 1


def prunable(revisions: Sequence[Obj], live: Sequence[str], limit: int) -> list[Obj]:
    """The oldest of the ordered revisions that are not live, all but `limit` of them.

    live: names of the revisions that a pod or a status refers to
    """
    names = set(live)  # membership only
    unused = [r for r in revisions if r["metadata"]["name"] not in names]
    return unused[: max(0, len(unused) - limit)]


def make_revision(owner: Obj, ref: Obj, name: str, labels: dict[str, str], data: Obj, number: int) -> Obj:
    """A ControllerRevision to create.

    Its data are in the order of Go's encoder, since a controller in Go that takes over compares
    their text.
    """
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
        "data": msgspec.json.decode(revision_json(data)),
        "revision": number,
    }


def same_data(revision: Obj, data: Obj) -> bool:
    """True if a revision has these data, in the text of Go's encoder (EqualRevision)."""
    given = revision["data"]
    return bool(given == data) and (type(given) is dict or text_of(given) == revision_json(data))


def listed(informer: Informer, owner: Obj) -> list[Obj]:
    """The ordered revisions that match the owner's selector and have no other controller."""
    selector = from_selector(owner["spec"]["selector"])
    found = candidates_of(informer, owner)
    return ordered([obj for obj in found if selector.matches(obj["metadata"].get("labels") or {})])


async def adopt_orphans(client: Client, informer: Informer, owner: Owner) -> str | None:
    """Adopt the listed revisions without a controller; returns the first error. Releases none."""
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
    """Give an older revision that is current again the highest number."""
    return await client.update(RESOURCE, {**revision, "revision": number})
