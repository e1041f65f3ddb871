"""The memory of a large run in large pages, where the system has them for who asks (Linux 6.1 and
later).

Turns what this process has in memory, looked at between slices of work, into requests to put it
into pages of 2 MiB.

Holds: nothing of a run depends on it.  Where the system knows no such request, there is none.

Why: the objects of a full cluster lie all over some hundred MiB, and whoever touches one has its
address translated; in pages of 4 KiB, in a virtual machine, that takes an eighth of the time of
filling 5,000 nodes (BENCHMARKS.md).  Python takes its memory in pieces of 1 MiB, too small for the
system to do it by itself, wherever the last one ended; it cuts them at multiples of 16 KiB, so that
pages at their ends are never used.  Pieces that begin at a multiple of their size waste nothing,
and two of them fill a large page: the pages together take no more memory than the small ones did.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from mmap import PAGESIZE
from pathlib import Path
from time import perf_counter

# bytes of a page; where small ones are of another size, large ones are too
SMALL, LARGE = 4 << 10, 2 << 20
MADV_COLLAPSE = 25  # include/uapi/asm-generic/mman-common.h
# One look at 800 MiB takes a few ms, and meanwhile a fill of 5,000 nodes takes some 5 MiB more.
EVERY_S = 1.0
PIECE = 1 << 20  # CPython's obmalloc.c: ARENA_SIZE
KEPT_MAX = 1_000  # stretches of addresses that are kept from use: a process may have 65,530 in all
UNUSED_MAX = 12  # small pages of a large one: as many as two pieces leave that begin anywhere
LEAST_MIB = 64  # what caches and small pages are good enough for
PROT_NONE, PRIVATE_ANONYMOUS, FAILED = 0, 0x22, (1 << 64) - 1  # of mmap
STATM, MAPS = Path("/proc/self/statm"), Path("/proc/self/maps")


class System:
    """What is asked of Linux."""

    def __init__(self) -> None:
        import ctypes  # only large runs need it

        library = ctypes.CDLL(None)
        self._madvise, self._mincore = library.madvise, library.mincore
        self._trim = getattr(library, "malloc_trim", None)  # glibc has it
        self._madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        self._map, self._unmap = library.mmap, library.munmap
        self._map.restype = ctypes.c_void_p
        self._map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._used = (ctypes.c_ubyte * (LARGE // PAGESIZE))()
        self._kept = 0

    def knows(self) -> bool:
        """Whether there are such pages, and such a request: one for nothing is refused where there
        is none.
        """
        return PAGESIZE == SMALL and bool(self._madvise(0, 0, MADV_COLLAPSE) == 0)

    def mappings(self) -> str:
        return MAPS.read_text(encoding="ascii", errors="replace")

    def trim(self) -> None:
        """Give back what the program has freed and the allocator kept."""
        if self._trim is not None:
            self._trim(0)

    def in_use(self, at: int) -> bool:
        """Whether nearly each small page of a large page's size has memory."""
        return self._mincore(at, LARGE, self._used) == 0 and bytes(self._used).count(0) <= UNUSED_MAX

    def align(self) -> None:
        """Let the next piece begin at a multiple of its size: addresses are given downwards, some
        are kept from use.
        """
        at = self._reserve(PIECE) if self._kept < KEPT_MAX else None
        if at is not None:
            self._unmap(at, PIECE)
            if at % PIECE:
                self._kept += 1
                self._reserve(at % PIECE)

    def _reserve(self, size: int) -> int | None:
        """Addresses without memory."""
        at = self._map(None, size, PROT_NONE, PRIVATE_ANONYMOUS, -1, 0)
        return None if at == FAILED else at

    def collapse(self, begin: int, end: int) -> None:
        """Put the small pages there into large ones, as far as that can be done now."""
        self._madvise(begin, end - begin, MADV_COLLAPSE)


class LargePages:
    """Of one process.  resident_mib: what it has in memory; system: made when there is something to
    ask for.
    """

    def __init__(self, resident_mib: Callable[[], float], system: Callable[[], System] = System) -> None:
        self._resident_mib, self._make = resident_mib, system
        self._system: System | None = None
        self._next_s = 0.0
        self._unknown = False  # the system has no such request

    def look(self) -> None:
        """Between two slices of work: ask, if it is time and this is a large run."""
        now_s = perf_counter()
        if now_s >= self._next_s and not self._unknown:
            self._next_s = now_s + EVERY_S
            try:
                if self._resident_mib() >= LEAST_MIB:
                    self.ask()
            except (OSError, ImportError):
                return  # for example no descriptor is left: a run does not depend on this

    def ask(self) -> None:
        """Put together what can be."""
        if self._system is None:
            self._system = self._make()
            self._unknown = not self._system.knows()
        if not self._unknown:
            self._system.trim()
            self._system.align()
            for begin, end in together(self._system.mappings(), self._system.in_use):
                self._system.collapse(begin, end)


def together(mappings: str, in_use: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    """Begin and end of what could be large pages in what the program has allocated, and is in use.

    mappings: as /proc/self/maps lists them; in_use: of a large page that would begin there
    """
    for line in mappings.splitlines():
        where, rights, _, _, inode, *name = line.split()
        if rights == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            first, last = (int(number, 16) for number in where.split("-"))
            at = begin = -(-first // LARGE) * LARGE
            while at + LARGE <= last:
                if not in_use(at):
                    if begin < at:
                        yield begin, at
                    begin = at + LARGE
                at += LARGE
            if begin < at:
                yield begin, at


def resident_mib() -> float:
    """The resident memory of this process in MiB; 0 where it cannot be read."""
    try:
        return int(STATM.read_text(encoding="ascii").split()[1]) * PAGESIZE / 2**20
    except OSError:  # another system, or no descriptor is left
        return 0.0


OF_THIS_PROCESS = LargePages(resident_mib)
