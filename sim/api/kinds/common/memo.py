"""Results of defaulting that objects of one template share."""

from __future__ import annotations

from typing import Any

from sim import remembered
from sim.api.kinds.common.fill import Fn

MEMO_MAX = 1024  # remembered results of one function; at the bound all are dropped


class Remembered:
    """Results of a function by the identity of the argument.

    The argument is kept alive, so that no other object gets its id.
    """

    def __init__(self, fn: Fn) -> None:
        self.fn = fn
        self.known: dict[int, tuple[Any, Any]] = {}
        remembered.register(self.known.clear)

    def __call__(self, value: Any) -> Any:
        found = self.known.get(id(value))
        if found is not None:
            return found[1]
        if len(self.known) >= MEMO_MAX:
            self.known.clear()
        result = self.fn(value)
        self.known[id(value)] = (value, result)
        if result is not value:
            self.known[id(result)] = (result, result)
        return result
