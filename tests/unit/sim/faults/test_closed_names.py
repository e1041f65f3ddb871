"""The types that close a set of names hold exactly the names that are in use."""

from typing import get_args

from sim.faults import ASPECTS, FAULTS
from sim.faults.machines.fail import SLOW_DISK, WAYS, Mode
from sim.faults.shared.ledger import AspectName


def test_aspect_names_are_those_of_the_faults() -> None:
    assert sorted(get_args(AspectName)) == sorted(ASPECTS)


def test_aspects_of_one_name_are_one_aspect() -> None:
    assert [a.name for fault in FAULTS for a in fault.aspects if ASPECTS[a.name] is not a] == []


def test_ways_to_fail_are_those_of_the_type() -> None:
    assert sorted(get_args(Mode)) == sorted([*WAYS, SLOW_DISK])
