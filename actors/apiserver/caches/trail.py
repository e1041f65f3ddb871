"""How far the watch caches of a server are behind its storage: by its options, its connection, and
faults.

Holds: faults survive the incarnations of the server; each new one begins with those in force.
"""

from __future__ import annotations

from actors.apiserver.caches.watch_caches import Caches
from actors.apiserver.ports import StorageConnection


class CacheTrail:
    """Sets lag and standstill of the caches of the present incarnation.

    own_lag_us: the lag of the options
    """

    def __init__(self, own_lag_us: int) -> None:
        self._own_lag_us = own_lag_us
        self._lag_us = 0
        self._frozen = False
        self._caches: Caches | None = None
        self._reach: StorageConnection | None = None

    def begin(self, caches: Caches, reach: StorageConnection) -> None:
        """Set the caches of a new incarnation."""
        self._caches, self._reach = caches, reach
        self._apply()

    def end(self) -> None:
        """The incarnation has ended."""
        self._caches = self._reach = None

    def lag(self, by_us: int) -> None:
        """Fault: delay the watch caches behind the storage by this additional time."""
        self._lag_us = by_us
        self._apply()

    def freeze(self, frozen: bool) -> None:
        """Fault: freeze the watch caches, so that they no longer follow the storage."""
        self._frozen = frozen
        self._apply()

    def follow(self) -> None:
        """Follow a change of the connection to the storage: it was cut, slowed down or restored."""
        if self._caches is not None and self._reach is not None and not self._reach.cut:
            self._caches.go_on()
        self._apply()

    def _apply(self) -> None:
        if self._caches is not None and self._reach is not None:
            horizon = self._caches.horizon
            horizon.set_lag(self._own_lag_us + self._lag_us + self._reach.lag_us)
            horizon.freeze(self._frozen or self._reach.cut)
