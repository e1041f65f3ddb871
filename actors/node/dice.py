"""A small random generator: one integer of state instead of the 2.5 KiB of `random.Random`.

Thousands of nodes each need a few streams that do not move one another's draws.

Mirrors  splitmix64 (Steele, Lea, Flood 2014), which passes BigCrush.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1


class Dice:
    """Uniform draws from a 64-bit seed."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, bound: int) -> int:
        """An integer in [0, bound)."""
        self._state = state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) * bound) >> 64

    def jitter_us(self, base_us: int, percent: int) -> int:
        """`base_us` stretched by up to `percent` (wait.Jitter)."""
        return base_us + self.below(base_us * percent // 100 + 1)


class Rhythm(Dice):
    """Pauses of one length, stretched by up to `percent`."""

    __slots__ = ("_base_us", "_bound")

    def __init__(self, seed: int, base_us: int, percent: int) -> None:
        super().__init__(seed)
        self._base_us = base_us
        self._bound = base_us * percent // 100 + 1

    def next_us(self, later_us: int) -> int:
        """A pause that begins so much later.  `below` written out: each heartbeat draws."""
        self._state = state = (self._state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return later_us + self._base_us + (((mixed ^ (mixed >> 31)) * self._bound) >> 64)
