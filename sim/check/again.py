"""Conditions that have to cease to hold before they count: `again: true` of an expectation."""

from __future__ import annotations

from collections.abc import Sequence

from sim.check.tally import Tally


class Again:
    """Which conditions have ceased to hold in the window, as `again` wants it.

    awaited: True if a condition counts only after it has ceased to hold
    """

    def __init__(self, awaited: bool, tally: Tally | None) -> None:
        self.awaited = awaited
        if awaited and tally is None:
            raise ValueError("'again' goes with a condition; what happens may happen at any time")
        self._tally = tally
        self._ceased = False
        self._keys: dict[str, None] = {}  # the objects that did not fulfil the condition

    def open(self) -> None:
        """The window begins: what does not hold has ceased to."""
        if self.awaited and self._tally is not None:
            self.look(tuple(self._tally.state))

    def look(self, keys: Sequence[str]) -> None:
        """Note what does not hold now, within the window.  keys: objects with a change"""
        if not self.awaited or self._tally is None:
            return
        self._ceased = self._ceased or not self._tally.holds
        if self._tally.condition.each:
            self._keys.update({key: None for key in keys if self._tally.state.get(key) is False})

    def ceased(self, key: str = "") -> bool:
        """True if the condition, or an object with it, counts from now on when it holds."""
        return not self.awaited or (key in self._keys if key else self._ceased)

    @property
    def never(self) -> str:
        """The words for what was never measured."""
        if not self.awaited:
            return "never"
        if self._tally is not None and self._tally.holds and not self._ceased:
            return "never ceased to hold"
        return "never again"
