"""The snapshots of a run that a storage may be set back to."""

from __future__ import annotations

from actors.storage.actor import Storage
from actors.storage.snapshots import Snapshot, snapshot_of
from sim.units import Revision, Virtual


class Snapshots:
    """The snapshots of a run, by their instants."""

    def __init__(self) -> None:
        self.at: dict[Virtual, Snapshot] = {}

    def keep(self, storage: Storage, at_us: Virtual) -> bool:
        """Keep the state of an instant; False if it has passed and its history is gone."""
        kernel, store = storage.kernel, storage.store
        if at_us > kernel.now_us:
            kernel.call_at(at_us, lambda _: self._keep(storage, at_us, store.revision))
            return True
        if store.floor and (store.oldest_us is None or store.oldest_us > at_us):
            return False
        self._keep(storage, at_us, store.revision_at(at_us))
        return True

    def _keep(self, storage: Storage, at_us: Virtual, rev: Revision) -> None:
        self.at[at_us] = snapshot_of(rev, storage.store.state_at(rev))
