"""Which processors are taken.  The expectations are those of upstream's cpu_assignment_test.go for
machines that are numbered as here.
"""

from __future__ import annotations

import pytest

from actors.node.resources.cpu_assignment import take_distributed, take_packed
from actors.node.resources.refusals import Unallocatable
from actors.node.resources.topology import cpu_text
from tests.unit.actors.node.resources.machines import cpus, machine

SINGLE = machine(8, threads=2)
FOUR = machine(80, sockets=2, numa=4, threads=2)  # topoDualSocketMultiNumaPerSocketHT


@pytest.mark.parametrize(
    ("topology", "available", "count", "taken"),
    [
        (SINGLE, "0-7", 1, "0"),
        (SINGLE, "0-7", 2, "0,4"),
        (SINGLE, "0-7", 8, "0-7"),
        (SINGLE, "1,3,5-7", 1, "6"),
        (SINGLE, "0-3,6", 2, "2,6"),
        (FOUR, "0-79", 40, "0-19,40-59"),
        (FOUR, "0-79", 20, "0-9,40-49"),
        (FOUR, "10-39,50-79", 20, "10-19,50-59"),
        (FOUR, "0-79", 60, "0-29,40-69"),
        (FOUR, "1-39,41-79", 60, "10-39,50-79"),
        (FOUR, "0-79", 64, "0-31,40-71"),
    ],
)
def test_packed_cpus_fill_the_largest_parts_first(topology, available, count, taken) -> None:
    assert cpu_text(take_packed(topology, cpus(available), count)) == taken


@pytest.mark.parametrize(
    ("available", "count", "group", "taken"),
    [
        ("0-79", 64, 1, "0-7,10-17,20-27,30-37,40-47,50-57,60-67,70-77"),
        ("0-79", 48, 1, "0-7,10-17,20-27,40-47,50-57,60-67"),
        ("1-29,32-39,41-69,72-79", 48, 1, "1-8,10-17,20-27,41-48,50-57,60-67"),
        ("2-29,31-39,42-69,71-79", 48, 1, "10-17,20-27,31-38,50-57,60-67,71-78"),
        ("3-39,43-79", 48, 1, "10-17,20-27,30-37,50-57,60-67,70-77"),
        ("0-79", 26, 1, "0-6,10-16,40-45,50-55"),
        ("0-79", 26, 2, "0-6,10-15,40-46,50-55"),
        ("0-79", 62, 1, "0-7,10-17,20-27,30-37,40-47,50-57,60-66,70-76"),
        ("0-79", 62, 2, "0-7,10-17,20-27,30-36,40-47,50-57,60-67,70-76"),
        ("0-8,10-18,20-40,41-48,50-58,60-79", 62, 1, "0-7,10-17,20-27,30-37,40-46,50-56,60-67,70-77"),
        ("0-8,10-18,20-40,41-48,50-58,60-79", 62, 2, "0-7,10-16,20-27,30-37,40-47,50-56,60-67,70-77"),
        ("0-79", 5, 2, "0-2,40-41"),
    ],
)
def test_distributed_cpus_leave_numa_nodes_even(available, count, group, taken) -> None:
    assert cpu_text(take_distributed(FOUR, cpus(available), count, group)) == cpu_text(cpus(taken))


def test_request_for_more_than_is_free_is_refused() -> None:
    with pytest.raises(Unallocatable, match="not enough cpus available to satisfy request"):
        take_packed(SINGLE, cpus("0-3"), 5)
    with pytest.raises(Unallocatable, match="not enough cpus"):
        take_distributed(FOUR, cpus("0-3"), 5, 1)


def test_socket_of_two_on_one_numa_node_is_taken_whole() -> None:
    two = machine(8, sockets=2, numa=1)
    assert cpu_text(take_packed(two, cpus("1-7"), 4)) == "4-7"


def test_groups_in_small_rests_end_the_search() -> None:
    two = machine(12, numa=2, threads=2)
    # Three free processors on each node cannot serve three pairs.
    assert take_distributed(two, cpus("0,6,1,3,9,4"), 6, 2) == cpus("0,1,3,4,6,9")
