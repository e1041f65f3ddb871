"""Large pages are asked for once much memory has come, where all is in use, and never of a system that knows none.

To see it fail: let `LargePages.look` ask each time, or `ask` leave out `in_use`, or go on after EINVAL.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sim.app import large_pages
from sim.app.large_pages import GROWTH_MIB, LARGE, LargePages, System, large_stretches

ROLLUP = Path("/proc/self/smaps_rollup")
MAPPINGS = """\
55d0c0000000-55d0c0500000 rw-p 00000000 00:00 0                          [heap]
7f0000100000-7f0000700000 rw-p 00000000 00:00 0
7f0001000000-7f0001400000 r-xp 00000000 fd:00 1234                       /usr/lib/a library.so
7f0002000000-7f0002400000 rw-p 00000000 fd:00 1234                       /usr/lib/another.so
7f0003000000-7f0003400000 r--p 00000000 00:00 0
7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0                          [stack]
"""


class Pretended(System):
    def __init__(self, failed: int = 0, unused: tuple[int, ...] = ()) -> None:
        self.failed, self.unused = failed, unused
        self.asked: list[int] = []

    def mappings(self) -> str:
        return MAPPINGS

    def in_use(self, at: int) -> bool:
        return at not in self.unused

    def collapse(self, at: int) -> int:
        self.asked.append(at)
        return self.failed


HEAP = [0x55D0C0000000, 0x55D0C0200000]
ARENAS = [0x7F0000200000, 0x7F0000400000]


def test_whole_large_pages_of_what_the_program_has_allocated() -> None:
    assert [*large_stretches(MAPPINGS)] == HEAP + ARENAS


def test_only_what_is_in_use_is_put_together() -> None:
    system = Pretended(unused=(ARENAS[0],))
    assert LargePages(lambda: 0.0, lambda: system).ask() == 3
    assert system.asked == [*HEAP, ARENAS[1]]


def test_no_second_request_to_a_system_that_knows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_pages, "EVERY_S", 0.0)
    system = Pretended(errno.EINVAL)
    pages = LargePages(iter((100.0, 200.0)).__next__, lambda: system)
    pages.look()
    pages.look()
    assert system.asked == HEAP[:1]


def test_a_stretch_that_fails_for_now_is_asked_for_again() -> None:
    system = Pretended(errno.EAGAIN)
    pages = LargePages(lambda: 0.0, lambda: system)
    assert (pages.ask(), pages.ask()) == (0, 0)
    assert system.asked == 2 * (HEAP + ARENAS)


def test_asked_as_memory_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_pages, "EVERY_S", 0.0)
    system = Pretended()
    grown = iter((GROWTH_MIB, GROWTH_MIB + 1.0, 2.0 * GROWTH_MIB, 2.0 * GROWTH_MIB))
    pages = LargePages(grown.__next__, lambda: system)
    asked = []
    for _ in range(4):
        pages.look()
        asked.append(len(system.asked))
    assert asked == [4, 4, 8, 8]


@pytest.mark.skipif(not ROLLUP.exists(), reason="asks Linux")
def test_what_lies_in_memory_stays_as_it_is() -> None:
    """The real request, where there is one: the large pages are there, or the system has refused."""
    kept = [f"{number:060d}" for number in range(200_000)]
    pages = LargePages(lambda: 0.0)
    made = pages.ask()
    assert kept == [f"{number:060d}" for number in range(200_000)]
    rollup = dict(line.split()[:2] for line in ROLLUP.read_text().splitlines()[1:])
    assert pages.refused or int(rollup["AnonHugePages:"]) * 1024 >= made * LARGE
