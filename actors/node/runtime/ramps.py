"""Amounts that change in a straight line.  Pure."""

from __future__ import annotations

from sim.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Ramp:
    """An amount that goes from `start` to `end` in a straight line between two instants."""

    start: int
    end: int
    from_us: int
    until_us: int

    def at(self, now_us: int) -> int:
        """The amount at an instant."""
        if now_us >= self.until_us:
            return self.end
        done_us = max(0, now_us - self.from_us)
        return self.start + (self.end - self.start) * done_us // (self.until_us - self.from_us)


@dataclass(frozen=True, slots=True)
class Most:
    """Several users of a resource that do not add up: the largest amount at a time counts."""

    ramps: tuple[Ramp, ...]

    def at(self, now_us: int) -> int:
        """The largest amount at an instant."""
        return max(ramp.at(now_us) for ramp in self.ramps)

    @property
    def end(self) -> int:
        """The largest amount in the end."""
        return max(ramp.end for ramp in self.ramps)
