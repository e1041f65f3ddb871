"""Large memory pages for large runs, on systems with a request for them (Linux 6.1 and later).

Turns the memory map of this process, examined between slices of work, into requests to collapse
small pages into pages of 2 MiB.

Holds: nothing in a run depends on it. Without support by the system it does nothing.

Why: the objects of a full cluster are spread over some hundred MiB, and each access translates an
address; with pages of 4 KiB, in a virtual machine, this takes an eighth of the time of filling
5,000 nodes (BENCHMARKS.md). Python allocates memory in pieces of 1 MiB at arbitrary addresses, too
small for the system to use large pages by itself. It cuts them at multiples of 16 KiB, so that
pages at their ends are never used. Pieces that begin at a multiple of their size waste nothing, and
two of them fill a large page: the large pages together take no more memory than the small ones.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from mmap import PAGESIZE
from pathlib import Path
from time import process_time

# Bytes of a page. Where small pages have another size, large ones have too.
SMALL, LARGE = 4 << 10, 2 << 20
MADV_COLLAPSE = 25  # include/uapi/asm-generic/mman-common.h
# Seconds of processor time, so that other work on the machine adds no scans. One scan of 800 MiB
# takes a few ms; a fill of 5,000 nodes allocates some 5 MiB between two scans.
EVERY_S = 1.0
# A short run does not get back what its large pages cost (2 to 5 ms each): the first scan of a
# process is this late.
FIRST_S = 3.0
PIECE = 1 << 20  # CPython's obmalloc.c: ARENA_SIZE
KEPT_MAX = 1_000  # reserved address ranges: a process may have 65,530 mappings in all
# Small pages of a large one that may be unused: as many as two unaligned pieces leave.
UNUSED_MAX = 12
LEAST_MIB = 64  # smallest memory for which large pages are worth it
PROT_NONE, PRIVATE_ANONYMOUS, FAILED = 0, 0x22, (1 << 64) - 1  # constants of mmap
STATM, MAPS = Path("/proc/self/statm"), Path("/proc/self/maps")


class System:
    """The requests to Linux."""

    def __init__(self) -> None:
        import ctypes  # only large runs need it

        library = ctypes.CDLL(None)
        self._madvise, self._mincore = library.madvise, library.mincore
        self._trim = getattr(library, "malloc_trim", None)  # only glibc has it
        self._madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        self._map, self._unmap = library.mmap, library.munmap
        self._map.restype = ctypes.c_void_p
        self._map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._used = (ctypes.c_ubyte * (LARGE // PAGESIZE))()
        self._kept = 0

    def knows(self) -> bool:
        """True if the system has such pages and supports the request, tested with an empty range."""
        return PAGESIZE == SMALL and bool(self._madvise(0, 0, MADV_COLLAPSE) == 0)

    def mappings(self) -> str:
        """The memory map of this process."""
        return MAPS.read_text(encoding="ascii", errors="replace")

    def trim(self) -> None:
        """Return freed memory that the allocator keeps to the system."""
        if self._trim is not None:
            self._trim(0)

    def in_use(self, at: int) -> bool:
        """True if nearly each small page in the range of a large page has memory."""
        return self._mincore(at, LARGE, self._used) == 0 and bytes(self._used).count(0) <= UNUSED_MAX

    def align(self) -> None:
        """Make the next piece begin at a multiple of its size, by reserving addresses: the system
        assigns them downwards.
        """
        at = self._reserve(PIECE) if self._kept < KEPT_MAX else None
        if at is not None:
            self._unmap(at, PIECE)
            if at % PIECE:
                self._kept += 1
                self._reserve(at % PIECE)

    def _reserve(self, size: int) -> int | None:
        """Reserve addresses without memory."""
        at = self._map(None, size, PROT_NONE, PRIVATE_ANONYMOUS, -1, 0)
        return None if at == FAILED else at

    def collapse(self, begin: int, end: int) -> None:
        """Collapse small pages in a range into large ones, as far as possible now."""
        self._madvise(begin, end - begin, MADV_COLLAPSE)


class LargePages:
    """The large pages of one process.

    resident_mib: returns the resident memory
    system: created when the first request is needed
    """

    def __init__(self, resident_mib: Callable[[], float], system: Callable[[], System] = System) -> None:
        self._resident_mib, self._make = resident_mib, system
        self._system: System | None = None
        self._next_s = FIRST_S
        self._unknown = False  # the system does not support the request

    def look(self) -> None:
        """Collapse pages between two slices of work, if it is time and this is a large run."""
        now_s = process_time()
        if now_s >= self._next_s and not self._unknown:
            self._next_s = now_s + EVERY_S
            try:
                if self._resident_mib() >= LEAST_MIB:
                    self.ask()
            except (OSError, ImportError):
                return  # for example no file descriptor is left, which must not affect the run

    def ask(self) -> None:
        """Collapse all possible pages."""
        if self._system is None:
            self._system = self._make()
            self._unknown = not self._system.knows()
        if not self._unknown:
            self._system.trim()
            self._system.align()
            for begin, end in together(self._system.mappings(), self._system.in_use):
                self._system.collapse(begin, end)


def together(mappings: str, in_use: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    """Begin and end of each range of allocated and used memory that large pages could cover.

    mappings: in the form of /proc/self/maps
    in_use: returns True for a large page at an address that is in use
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
    """The resident memory of this process in MiB; 0 if it cannot be read."""
    try:
        return int(STATM.read_text(encoding="ascii").split()[1]) * PAGESIZE / 2**20
    except OSError:  # not Linux, or no file descriptor is left
        return 0.0


OF_THIS_PROCESS = LargePages(resident_mib)
