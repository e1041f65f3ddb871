"""One bound on all tables of remembered results that hold content of requests from outside.

Each table bounds its number of entries, for the simulation's own objects are small and alike.  A
client can send other ones: an entry for a list of 49,000 finalizers takes 3 MiB, and 4,096 of them
all memory.  So the tables register here, and all are emptied whenever bodies from outside have
brought `WEIGHT_MAX`.  To weigh each entry would cost more than the tables save.

Holds: to empty a table costs time and changes no result; a simulation without clients from outside
never empties one here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar
from weakref import WeakSet

WEIGHT_MAX = 8 << 20  # about as many bytes of memory, of objects that stay remembered
VALUE_WEIGHT = 64  # of one value of a text: about the size of a Python string, with its entry

R = TypeVar("R")


_clear_calls: list[Callable[[], object]] = []
_tables: WeakSet[Any] = WeakSet()  # those of one cluster, which end with it
_weight = 0


def register(clear: Callable[[], object]) -> None:
    """Let a table of a module be emptied with the others, by this function."""
    _clear_calls.append(clear)


def register_while_used(table: Any) -> None:
    """Let a table be emptied with the others, by its method `clear`, as long as it exists."""
    _tables.add(table)


def cached(entries_max: int, typed: bool = False) -> Callable[[Callable[..., R]], _lru_cache_wrapper[R]]:
    """As `lru_cache`, for a function of content of requests."""

    def decorate(function: Callable[..., R]) -> _lru_cache_wrapper[R]:
        made = lru_cache(entries_max, typed)(function)
        _clear_calls.append(made.cache_clear)
        return made

    return decorate


def take_in(text: bytes | bytearray) -> None:
    """Note a body from outside, before its content is remembered anywhere."""
    global _weight
    _weight += len(text) + VALUE_WEIGHT * text.count(b",")
    if _weight > WEIGHT_MAX:
        _weight = 0
        for clear in _clear_calls:
            clear()
        for table in tuple(_tables):  # in any order: one table does not depend on another
            table.clear()
