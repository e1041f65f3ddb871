"""Protocols stay few, and each has a name of its own (`tests.tidy.house`)."""

from tests.tidy.house import protocols, protocols_of_one_name

PROTOCOLS_MAX = 78  # lower it with each protocol that a class or a function replaces


def test_protocols_have_names_of_their_own() -> None:
    assert list(protocols_of_one_name()) == []


def test_protocols_are_no_more_than_recorded() -> None:
    assert len(list(protocols())) <= PROTOCOLS_MAX
