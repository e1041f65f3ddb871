"""Parts of a cluster's CIDR: which one a node gets, and when it is free again."""

from __future__ import annotations

import pytest

from actors.controllers.nodeipam.cidr_sets import CidrSet, NoneLeft, OutOfRange
from actors.controllers.nodeipam.range_allocator import Clash, Sets
from sim.options.controllers.networks import network


def taken(parts: CidrSet, count: int) -> list[str]:
    return [str(parts.take_next()) for _ in range(count)]


def test_released_part_waits_until_all_later_parts_were_handed_out() -> None:
    parts = CidrSet(network("10.0.0.0/22"), 24)
    assert taken(parts, 2) == ["10.0.0.0/24", "10.0.1.0/24"]
    parts.release(network("10.0.0.0/24"))
    assert taken(parts, 3) == ["10.0.2.0/24", "10.0.3.0/24", "10.0.0.0/24"]
    with pytest.raises(NoneLeft):
        parts.take_next()
    parts.release(network("10.0.2.0/24"))
    assert taken(parts, 1) == ["10.0.2.0/24"]


def test_occupied_network_takes_every_part_that_it_touches() -> None:
    parts = CidrSet(network("10.0.0.0/22"), 24)
    parts.occupy(network("10.0.1.128/25"))
    parts.occupy(network("10.0.2.0/23"))
    assert taken(parts, 1) == ["10.0.0.0/24"]
    with pytest.raises(NoneLeft):
        parts.take_next()
    whole = CidrSet(network("10.0.0.0/22"), 24)
    whole.occupy(network("10.0.0.0/8"))
    with pytest.raises(NoneLeft):
        whole.take_next()
    with pytest.raises(OutOfRange, match=r"cidr 11\.0\.0\.0/24 is out the range of"):
        whole.occupy(network("11.0.0.0/24"))


def test_ipv6_parts_have_their_own_mask() -> None:
    assert taken(CidrSet(network("fd00::/56"), 64), 2) == ["fd00::/64", "fd00:0:0:1::/64"]


def test_node_with_a_cidr_that_no_set_can_hold_is_a_clash() -> None:
    sets = Sets([CidrSet(network("10.0.0.0/22"), 24)])
    node = {"metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}
    with pytest.raises(Clash, match="node:n has an allocated cidr: fd00::/64 at index:1"):
        sets.occupy(node)
    far = {"metadata": {"name": "n"}, "spec": {"podCIDRs": ["192.168.0.0/24"]}}
    with pytest.raises(Clash, match=r"failed to mark cidr\[192.168.0.0/24\] at idx \[0\]"):
        sets.occupy(far)


def test_part_of_the_first_family_leaks_when_the_second_is_full() -> None:
    first, second = CidrSet(network("10.0.0.0/23"), 24), CidrSet(network("fd00::/64"), 64)
    sets = Sets([first, second])
    sets.take()
    with pytest.raises(NoneLeft):
        sets.take()
    with pytest.raises(NoneLeft):
        first.take_next()
