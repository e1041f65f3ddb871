"""Sets of equally large parts of a cluster's CIDR, of which nodes get one each.

Turns a cluster CIDR and the mask size of a node into parts that are taken and released.

Holds: the next part is the first free one at or after the last one handed out, so that a released
       part is used again only when all parts after it have been.

Mirrors  kubernetes v1.25 pkg/controller/nodeipam/ipam/cidrset/cidr_set.go.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network

Network = IPv4Network | IPv6Network


class OutOfRange(ValueError):
    """A CIDR that shares no address with the cluster's CIDR."""


class NoneLeft(Exception):
    """All parts are in use."""


def overlap(one: Network, other: Network) -> bool:
    """True if two networks, of any family, share an address."""
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.overlaps(other)
    return isinstance(other, IPv6Network) and one.overlaps(other)


class CidrSet:
    """The parts of one cluster CIDR.

    changed: is called with how many parts are taken and how many are freed; tried: with the number
        of used parts that a search for a free one has passed
    """

    def __init__(self, cluster: Network, mask_size: int) -> None:
        self.cluster = cluster
        self._mask_size = mask_size
        self._step = 1 << cluster.max_prefixlen - mask_size
        self._count = 1 << mask_size - cluster.prefixlen
        self._used = 0  # bit i: the part at index i is in use
        self._next = 0
        self.changed: Callable[[int, int], None] = lambda taken, freed: None
        self.tried: Callable[[int], None] = lambda tries: None

    @property
    def usage(self) -> float:
        """The share of the parts that is in use."""
        return self._used.bit_count() / self._count

    def take_next(self) -> Network:
        """The next free part, which is then in use; raises NoneLeft."""
        free = ~self._used & (1 << self._count) - 1
        if not free:
            raise NoneLeft(
                "CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range"
            )
        after = free >> self._next << self._next
        index = _lowest_bit(after or free)
        self.tried((index - self._next) % self._count)
        self.changed(1, 0)
        self._next = (index + 1) % self._count
        self._used |= 1 << index
        address = int(self.cluster.network_address) + index * self._step
        kind = IPv4Network if isinstance(self.cluster, IPv4Network) else IPv6Network
        return kind((address, self._mask_size))

    def occupy(self, cidr: Network) -> None:
        """Mark all parts that a CIDR touches as used; raises OutOfRange."""
        bits = self._bits(cidr)
        self.changed((bits & ~self._used).bit_count(), 0)
        self._used |= bits

    def release(self, cidr: Network) -> None:
        """Mark all parts that a CIDR touches as free; raises OutOfRange."""
        bits = self._bits(cidr)
        self.changed(0, (bits & self._used).bit_count())
        self._used &= ~bits

    def _bits(self, cidr: Network) -> int:
        if not overlap(self.cluster, cidr):
            raise OutOfRange(f"cidr {cidr} is out the range of cluster cidr {self.cluster}")
        if cidr.prefixlen <= self.cluster.prefixlen:
            return (1 << self._count) - 1
        base = int(self.cluster.network_address)
        first = (int(cidr.network_address) - base) // self._step
        last = (int(cidr.broadcast_address) - base) // self._step
        return (1 << last + 1) - (1 << first)


def _lowest_bit(value: int) -> int:
    return (value & -value).bit_length() - 1
