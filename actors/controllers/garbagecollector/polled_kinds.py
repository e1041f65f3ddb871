"""A kind that the garbage collector follows without handlers: read as a whole, when somebody asks
and it has changed.

Turns a lazy informer into who is owned by whom, and who is being deleted, among its objects.

Holds: while nothing comes but renewals a look costs a comparison, and no object is built for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sim.api.types import Obj

if TYPE_CHECKING:
    from sim.client import Informer


class Quiet:
    """refs: owner references by key, where there are some; going: keys of what is being deleted

    sound: the owners of all were found, and none of these has gone since; found: references by key
    whose owners were
    """

    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self.refs: dict[str, Any] = {}
        self.going: list[str] = []
        self.sound = False
        self.found: dict[str, Any] = {}
        self._below: dict[str, list[str]] = {}  # keys by uid of an owner, once somebody has asked
        self._shifts = -1

    def look(self) -> None:
        """Read what has changed since the last look."""
        informer = self.informer
        informer.pull()
        if informer.lazy and informer.shifts == self._shifts:
            return
        self._shifts, self.sound = informer.shifts, False
        self.refs = {key: refs for key, refs in informer.peek("metadata", "ownerReferences") if refs}
        self.going = [key for key, at in informer.peek("metadata", "deletionTimestamp") if at]
        self._below = {}

    def forget(self) -> None:
        """An owner has gone: all are to be looked for again."""
        self.sound, self.found = False, {}

    def owned_by(self, uid: str) -> list[Obj]:
        self.look()
        if self.refs and not self._below:
            for key, refs in self.refs.items():
                for ref in refs:
                    self._below.setdefault(ref["uid"], []).append(key)
        known = map(self.informer.get, self._below.get(uid, ()))
        return [obj for obj in known if obj is not None]

    def being_deleted(self) -> Mapping[str, Obj]:
        """By uid."""
        known = map(self.informer.get, self.going)
        return {obj["metadata"]["uid"]: obj for obj in known if obj is not None}
