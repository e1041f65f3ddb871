"""A small random generator: one integer of state instead of the 2.5 KiB of `random.Random`.

Thousands of nodes each need a few streams that are independent of each other.

Mirrors  splitmix64 (Steele, Lea, Flood 2014), which passes BigCrush.
"""

from __future__ import annotations

from typing import Any, TypeVar

from sim.units import Virtual

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15  # added to the state with each draw


Word = TypeVar("Word", bound=Any)


def mix(state: Word) -> Word:
    """Return 64 random bits for a state, which is an integer or an array of 64-bit words."""
    mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
    return mixed ^ (mixed >> 31)  # type: ignore[no-any-return]


def keyed(key: int, at_us: Virtual) -> int:
    """Return 64 random bits that depend on a key and an instant only, not on earlier draws."""
    return mix((key + at_us * GAMMA) & MASK)


class Dice:
    """Uniform draws from a 64-bit seed."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & MASK

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        self._state = state = (self._state + GAMMA) & MASK
        return (mix(state) * bound) >> 64

    def jitter_us(self, base_us: int, percent: int) -> int:
        """`base_us` stretched by up to `percent` (wait.Jitter)."""
        return base_us + self.below(base_us * percent // 100 + 1)

    def jitters_us(self, base_us: int, percent: int, count: int) -> list[int]:
        """So many draws of `jitter_us`, as `below` makes them, in one call."""
        bound, state, found = base_us * percent // 100 + 1, self._state, []
        for _ in range(count):
            state = (state + GAMMA) & MASK
            found.append(base_us + (mix(state) * bound >> 64))
        self._state = state
        return found
