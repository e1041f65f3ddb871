"""Large pages are requested in large runs, for memory in use, until the system refuses a request.

To see it fail: let `look` ask each time or in small runs, `together` leave out `in_use`, or `ask`
go on where the system knows no such request; `collapse` do nothing.
"""

from __future__ import annotations

import errno
import sys
from subprocess import run

import pytest

from sim.app.process import large_pages
from sim.app.process.large_pages import (
    LARGE,
    LEAST_MIB,
    MADV_COLLAPSE,
    MAPS,
    LargePages,
    System,
    resident_mib,
    together,
)

# Prints the part of new objects that the requested ranges cover, and whether an object changed.
REAL = """
from sim.app.process.large_pages import LargePages, System
asked = []
class Recording(System):
    def collapse(self, begin, end):
        asked.append((begin, end))
        super().collapse(begin, end)
kept = [f"{number:060d}" for number in range(400_000)]
LargePages(lambda: 0.0, Recording).ask()
covered = sum(any(begin <= id(one) < end for begin, end in asked) for one in kept) / len(kept)
print(covered if System().knows() else "unknown", kept != [f"{number:060d}" for number in range(400_000)])
"""
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
    def __init__(self, known: bool = True, unused: tuple[int, ...] = ()) -> None:
        self.known, self.unused = known, unused
        self.asked: list[tuple[int, int]] = []

    def mappings(self) -> str:
        return MAPPINGS

    def in_use(self, at: int) -> bool:
        return at not in self.unused

    def trim(self) -> None:
        pass

    def align(self) -> None:
        pass

    def knows(self) -> bool:
        return self.known

    def collapse(self, begin: int, end: int) -> None:
        self.asked.append((begin, end))


def test_regions_are_whole_large_pages_of_allocated_memory() -> None:
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
def test_only_memory_in_use_is_collapsed(unused: list[int], asked: list[tuple[int, int]]) -> None:
    system = Pretended(unused=tuple(unused))
    LargePages(lambda: 0.0, lambda: system).ask()
    assert system.asked == asked


def test_unsupported_request_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_pages, "EVERY_S", 0.0)
    monkeypatch.setattr(large_pages, "FIRST_S", 0.0)
    system = Pretended(known=False)
    looked: list[None] = []

    def resident_mib() -> float:
        looked.append(None)
        return LEAST_MIB

    pages = LargePages(resident_mib, lambda: system)
    pages.look()
    pages.look()
    assert not system.asked and len(looked) == 1


def test_large_pages_are_requested_periodically_in_large_runs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr(large_pages, "process_time", lambda: now_s)
    resident_mib, system = LEAST_MIB - 1.0, Pretended()
    pages = LargePages(lambda: resident_mib, lambda: system)
    asked = []
    looks = ((2.9, 200), (3.0, 63), (3.9, 64), (4.0, 64), (4.9, 200), (5.0, 200))
    for now_s, resident_mib in looks:  # noqa: B007
        pages.look()
        asked.append(len(system.asked))
    assert asked == [0, 0, 0, 2, 2, 4]


def test_lack_of_descriptors_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreadable:
        def exists(self) -> bool:
            return True

        def read_text(self, **_: str) -> str:
            raise OSError(errno.EMFILE, "Too many open files")

    def no_system() -> Pretended:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(large_pages, "STATM", Unreadable())
    monkeypatch.setattr(large_pages, "FIRST_S", 0.0)
    assert resident_mib() == 0.0
    LargePages(lambda: LEAST_MIB, no_system).look()


@pytest.mark.skipif(not MAPS.exists(), reason="asks Linux")
def test_collapse_is_the_request_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[tuple[int, int, int]] = []
    system = System()
    monkeypatch.setattr(system, "_madvise", lambda *request: requests.append(request))
    system.collapse(*HEAP)
    assert requests == [(HEAP[0], HEAP[1] - HEAP[0], MADV_COLLAPSE)]


@pytest.mark.skipif(not MAPS.exists(), reason="asks Linux")
def test_contents_of_collapsed_memory_are_unchanged() -> None:
    """The real request, in a process of its own: whether the system has large pages to give depends
    on the machine, so that the requested ranges are compared, not the pages obtained.
    """
    ended = run([sys.executable, "-c", REAL], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    covered, changed = ended.stdout.split()
    assert changed == "False"
    if covered != "unknown":
        assert float(covered) > 1 / 10
