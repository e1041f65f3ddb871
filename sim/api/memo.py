"""Results remembered by the identity of the values that they were computed from.

Objects are immutable and share their subtrees, so a result for one pod of a template holds for all
of them, without a comparison.

Holds: the memo keeps the values alive, so that no identity is reused while its entry exists; the
table is emptied when it reaches its bound, or with all others (`sim.remembered`), which costs time
and changes no result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sim import remembered

T = TypeVar("T")

# Templates and classes in use at one time; far above what a scenario has.
ENTRIES_MAX = 4096


class IdentityMemo(Generic[T]):
    """Maps tuples of objects, taken by identity, to results that are never None."""

    __slots__ = ("__weakref__", "_entries")

    def __init__(self) -> None:
        self._entries: dict[tuple[int, ...], tuple[tuple[Any, ...], T]] = {}
        remembered.register_while_used(self)

    def clear(self) -> None:
        """Drop all results."""
        self._entries.clear()

    def get(self, *objects: Any) -> T | None:
        """The result remembered for these objects; None if there is none."""
        entry = self._entries.get(tuple(map(id, objects)))
        return None if entry is None else entry[1]

    def put(self, result: T, *objects: Any) -> T:
        """Remembers and returns a result."""
        if len(self._entries) >= ENTRIES_MAX:
            self._entries.clear()
        self._entries[tuple(map(id, objects))] = (objects, result)
        return result


class Remembered:
    """A function that completes a value, with its results by the identity of the value.

    A result is complete, so that the function returns it unchanged.
    """

    __slots__ = ("_complete", "_results")

    def __init__(self, complete: Callable[[Any], Any]) -> None:
        self._complete = complete
        self._results: IdentityMemo[Any] = IdentityMemo()

    def __call__(self, value: Any) -> Any:
        """The completed value."""
        found = self._results.get(value)
        if found is None:
            found = self._results.put(self._complete(value), value)
            self._results.put(found, found)
        return found
