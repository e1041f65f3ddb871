"""The work of the process itself, in parts of a millisecond while clients are served.

What compaction has removed from the store is freed in parts between two slices of the simulation:
60,000 revisions at once take 130 ms.  Large pages, each request for which takes 20 ms, are not
requested.

Holds: nothing in a simulation depends on it.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from actors.storage.memory import MemoryStore
from sim.kernel import Kernel

PART: Final = 500  # changes that are freed at a time


class Discarded:
    """What is still to be freed."""

    def __init__(self) -> None:
        self._left: list[list[Any]] = []

    def take(self, gone: list[Any]) -> None:
        """Free the changes in this list later."""
        self._left.append(gone)

    def free(self) -> None:
        """Free some of them."""
        if self._left:
            del self._left[-1][-PART:]
            if not self._left[-1]:
                self._left.pop()


@contextmanager
def in_small_parts(kernel: Kernel, store: MemoryStore) -> Iterator[None]:
    """Do what the process itself has to do in small parts for a while."""
    discarded, before = Discarded(), (kernel.after_slice, store.on_forget)
    kernel.after_slice, store.on_forget = discarded.free, discarded.take
    try:
        yield
    finally:
        kernel.after_slice, store.on_forget = before
