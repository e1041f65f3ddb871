"""What a scheduler that runs alone takes from its configuration file."""

from __future__ import annotations

import pytest

from sim.app.daemons.scheduler import profiles


@pytest.mark.parametrize(
    ("content", "flag", "shown"),
    [
        ("", True, True),
        ({}, False, False),
        ({"enableProfiling": False}, True, False),
        ({"enableProfiling": True}, False, True),
        ({"parallelism": 4}, False, True),
    ],
)
def test_profiles_are_shown_by_the_file_and_without_one_by_the_flag(
    content: object, flag: bool, shown: bool
) -> None:
    assert profiles(content, flag) is shown
