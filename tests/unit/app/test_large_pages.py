"""Large pages are asked for in large runs, where all is in use, and never again of a system that knows none.

To see it fail: let `look` ask each time or in small runs, `together` leave out `in_use`, or `ask` go on after EINVAL.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sim.app import large_pages
from sim.app.large_pages import LARGE, LEAST_MIB, LargePages, System, together

ROLLUP = Path("/proc/self/smaps_rollup")
MAPPINGS = """\
55d0c0000000-55d0c0500000 rw-p 00000000 00:00 0                          [heap]
7f0000100000-7f0000700000 rw-p 00000000 00:00 0
7f0001000000-7f0001400000 r-xp 00000000 fd:00 1234                       /usr/lib/a library.so
7f0002000000-7f0002400000 rw-p 00000000 fd:00 1234                       /usr/lib/another.so
7f0003000000-7f0003400000 r--p 00000000 00:00 0
7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0                          [stack]
"""


HEAP = (0x55D0C0000000, 0x55D0C0400000)
ARENAS = (0x7F0000200000, 0x7F0000600000)


class Pretended(System):
    def __init__(self, failed: int = 0, unused: tuple[int, ...] = ()) -> None:
        self.failed, self.unused = failed, unused
        self.asked: list[tuple[int, int]] = []

    def mappings(self) -> str:
        return MAPPINGS

    def in_use(self, at: int) -> bool:
        return at not in self.unused

    def collapse(self, begin: int, end: int) -> int:
        self.asked.append((begin, end))
        return self.failed


def test_whole_large_pages_of_what_the_program_has_allocated() -> None:
    assert [*together(MAPPINGS, lambda _: True)] == [HEAP, ARENAS]


@pytest.mark.parametrize(
    ("unused", "asked"),
    [
        ([ARENAS[0]], [HEAP, (ARENAS[0] + LARGE, ARENAS[1])]),
        ([HEAP[0]], [(HEAP[0] + LARGE, HEAP[1]), ARENAS]),
        ([ARENAS[1] - LARGE], [HEAP, (ARENAS[0], ARENAS[1] - LARGE)]),
        ([HEAP[0], HEAP[0] + LARGE], [ARENAS]),
    ],
)
def test_only_what_is_in_use_is_put_together(unused: list[int], asked: list[tuple[int, int]]) -> None:
    system = Pretended(unused=tuple(unused))
    LargePages(lambda: 0.0, lambda: system).ask()
    assert system.asked == asked


def test_no_second_request_to_a_system_that_knows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_pages, "EVERY_S", 0.0)
    system = Pretended(errno.EINVAL)
    pages = LargePages(lambda: LEAST_MIB, lambda: system)
    pages.look()
    assert system.asked == [HEAP, ARENAS]
    pages.look()
    assert system.asked == [HEAP, ARENAS]


def test_what_fails_for_now_is_asked_for_again() -> None:
    system = Pretended(errno.EAGAIN)
    pages = LargePages(lambda: 0.0, lambda: system)
    pages.ask()
    pages.ask()
    assert system.asked == [HEAP, ARENAS, HEAP, ARENAS]


def test_asked_now_and_then_in_large_runs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr(large_pages, "perf_counter", lambda: now_s)
    resident_mib, system = LEAST_MIB - 1.0, Pretended()
    pages = LargePages(lambda: resident_mib, lambda: system)
    asked = []
    for now_s, resident_mib in ((0.0, 95), (1.9, 96), (2.0, 96), (3.9, 200), (4.0, 200)):  # noqa: B007
        pages.look()
        asked.append(len(system.asked))
    assert asked == [0, 0, 2, 2, 4]


@pytest.mark.skipif(not ROLLUP.exists(), reason="asks Linux")
def test_what_lies_in_memory_stays_as_it_is() -> None:
    """The real request, where there is one: there are large pages, or the system has refused."""
    kept = [f"{number:060d}" for number in range(200_000)]
    pages = LargePages(lambda: 0.0)
    pages.ask()
    assert kept == [f"{number:060d}" for number in range(200_000)]
    rollup = dict(line.split()[:2] for line in ROLLUP.read_text().splitlines()[1:])
    assert pages.refused or int(rollup["AnonHugePages:"]) > 0
