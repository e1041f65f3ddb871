"""A garbage collector that takes an owner for gone that another version did not have.

The collector remembered absent owners by their uid alone.  A reference with the right uid under
another version, kind or name was looked up there, was not found, and the owner counted as absent
for every object that named it rightly.  While the owner was known no lookup was made, so that it
took a restart to see it.

Thread   https://github.com/kubernetes/kubernetes/issues/65200
Mended   v1.20 (https://github.com/kubernetes/kubernetes/pull/92743): absent owners are remembered
         with version, kind, namespace and name.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from actors.controllers.garbagecollector import loop, sync
from actors.controllers.garbagecollector.loop import GarbageCollector
from sim.api.types import Obj
from tests.planted.planting import Planted, replaced, together

_owners_found = GarbageCollector._owners_found


def _by_uid(ident: tuple[str, str], name: str, uid: str, namespace: str) -> tuple[str, ...]:
    return (uid,)


def _unknown_owners(collector: GarbageCollector, ident: tuple[str, str], obj: Obj, refs: Any) -> None:
    """Look only for owners of which no object has the uid."""
    objects = [each for informer in collector._informers.values() for each in informer.list()]
    known = {each["metadata"]["uid"]: None for each in objects}
    for ref in refs:
        collector._dependent_idents.setdefault(ref["kind"], {})[ident] = None
    _owners_found(collector, ident, obj, [ref for ref in refs if ref["uid"] not in known])


def _plant() -> AbstractContextManager[None]:
    return together(
        replaced(loop, "coordinates", _by_uid),
        replaced(sync, "coordinates", _by_uid),
        replaced(GarbageCollector, "_owners_found", _unknown_owners),
    )


BUG = Planted(
    name="garbled_owner",
    thread="https://github.com/kubernetes/kubernetes/issues/65200",
    mended="v1.20",
    plant=_plant,
    story="""
- {at: 60s, name: failover, crash: {actor: controller-manager-leader, restartAfter: 5s}}
""",
)
