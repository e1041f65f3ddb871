"""The keys of the storage by which the replicas of the API server know of each other.

Turns nothing: the storage holds these records, and each API server reads and writes them.

Mirrors  kubernetes v1.25 apiserver pkg/storage/etcd3/compact.go,
         pkg/controlplane/reconcilers/lease.go.
"""

from __future__ import annotations

from sim.units import Virtual


class CompactionRecord:
    """The key by which API servers agree on one compaction per interval."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0

    def settle(self, seen: int) -> bool:
        """Compare-and-swap: True if the caller's version was current and it now holds this round."""
        if seen != self.version:
            return False
        self.version += 1
        return True


class MasterLeases:
    """The keys by which API servers find each other's addresses; each expires some time after its
    last renewal.

    holders: by address, the server that has it and the end of its lease (microseconds of virtual
        time)
    """

    __slots__ = ("holders",)

    def __init__(self) -> None:
        self.holders: dict[str, tuple[str, Virtual]] = {}

    def renew(self, address: str, holder: str, until_us: Virtual) -> None:
        """Write the key of an address, valid until `until_us`."""
        self.holders[address] = holder, until_us

    def remove(self, address: str) -> None:
        """Delete the key of an address."""
        self.holders.pop(address, None)

    def alive(self, now_us: int) -> list[str]:
        """The addresses with leases that have not expired, sorted."""
        return sorted(address for address, (_, until_us) in self.holders.items() if now_us < until_us)
