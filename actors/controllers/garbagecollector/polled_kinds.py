"""Owners and deletions among the objects of a kind that the garbage collector does not handle.

Turns a lazy informer into owner references and terminating objects, read on demand.

Holds: if only lease renewals have arrived, a refresh costs one comparison and builds no object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sim.api.types import Obj
from sim.api.watch.delivery import Delivery

if TYPE_CHECKING:
    from sim.client import Informer


class Unhandled:
    """The objects of a kind without handlers.

    refs: key -> owner references, for objects that have some
    terminating: keys of objects that are being deleted
    owners_checked: True if all owners were found and none was deleted since
    found: key -> owner references, for objects with owners that were found
    """

    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self.refs: dict[str, Any] = {}
        self.terminating: list[str] = []
        self.owners_checked = False
        self.found: dict[str, Any] = {}
        self._keys_by_owner: dict[str, list[str]] = {}  # owner uid -> keys, filled on demand
        self._shifts = -1

    def refresh(self) -> None:
        """Read what has changed since the last call."""
        informer = self.informer
        informer.pull()
        if informer.delivery is Delivery.ON_READ and informer.shifts == self._shifts:
            return
        self._shifts, self.owners_checked = informer.shifts, False
        self.refs = {key: refs for key, refs in informer.peek("metadata", "ownerReferences") if refs}
        self.terminating = [key for key, at in informer.peek("metadata", "deletionTimestamp") if at]
        self._keys_by_owner = {}

    def recheck_owners(self) -> None:
        """Mark all owners as unchecked, after one was deleted."""
        self.owners_checked, self.found = False, {}

    def owned_by(self, uid: str) -> list[Obj]:
        """The objects with an owner of this uid."""
        self.refresh()
        if self.refs and not self._keys_by_owner:
            for key, refs in self.refs.items():
                for ref in refs:
                    self._keys_by_owner.setdefault(ref["uid"], []).append(key)
        known = map(self.informer.get, self._keys_by_owner.get(uid, ()))
        return [obj for obj in known if obj is not None]

    def being_deleted(self) -> Mapping[str, Obj]:
        """Terminating objects by uid."""
        known = map(self.informer.get, self.terminating)
        return {obj["metadata"]["uid"]: obj for obj in known if obj is not None}
