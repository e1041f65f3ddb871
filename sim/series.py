"""A step function of virtual time: a number that holds from an instant until the next one.

Holds: the points are in the order of time, and neighbours differ in their value; before the first
point the value is 0.
"""

from __future__ import annotations

from dataclasses import field

from sim.dataclass import dataclass

Point = tuple[int, int]  # an instant, and the value from then on


@dataclass(slots=True)
class Series:
    """A step function of time.  A second value of one instant replaces the first."""

    points: list[Point] = field(default_factory=list)

    def put(self, at_us: int, value: int) -> None:
        """Set the value from an instant on; instants do not decrease."""
        points = self.points
        if points and points[-1][0] == at_us:
            del points[-1]
        if (points[-1][1] if points else 0) != value:
            points.append((at_us, value))

    def add(self, at_us: int, change: int) -> None:
        """Change the last value from an instant on."""
        self.put(at_us, self.last + change)

    @property
    def last(self) -> int:
        """The present value."""
        return self.points[-1][1] if self.points else 0

    def at(self, at_us: int) -> int:
        """The value at an instant."""
        value = 0
        for when_us, following in self.points:
            if when_us > at_us:
                break
            value = following
        return value

    def pieces(self, from_us: int, end_us: int) -> list[tuple[int, int, int]]:
        """The pieces (from, to, value) that cover a window, without pieces of no length."""
        found, at_us, value = [], from_us, 0
        for next_us, following in self.points:
            if next_us >= end_us:
                break
            if next_us > at_us:
                found.append((at_us, next_us, value))
                at_us = next_us
            value = following
        if end_us > at_us:
            found.append((at_us, end_us, value))
        return found
