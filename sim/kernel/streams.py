"""Named random streams: adding an actor, or a draw in one, moves nobody else's draws.

A stream's seed is a hash of the run's seed and the stream's name, never Python's `hash`.  Only `.random()` and
what Python builds on it without rejection loops over `getrandbits` of varying width is used by the project,
so that streams agree across Python versions.
"""

from __future__ import annotations

import hashlib
import random
from array import array

AHEAD_MIN = 32  # draws held by who draws rarely; a quarter of those drawn so far, if that is more


def stream(seed: int, name: str) -> random.Random:
    """A generator of its own for `name` (e.g. "node-17#1/probes") in the run with this seed."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    return random.Random(int.from_bytes(digest, "big"))


class Sparing:
    """The same draws for who draws rarely: a generator takes 2.5 KiB, the next few draws of it 0.4."""

    __slots__ = ("_ahead", "_drawn", "_name", "_seed")

    def __init__(self, seed: int, name: str) -> None:
        self._seed = seed
        self._name = name
        self._drawn = 0
        self._ahead = array("d")  # the next one last

    def random(self) -> float:
        if not self._ahead:
            draw = stream(self._seed, self._name).random
            for _ in range(self._drawn):
                draw()
            count = max(AHEAD_MIN, self._drawn // 4)  # so that a draw costs the same however many there were
            self._ahead = array("d", [draw() for _ in range(count)])
            self._ahead.reverse()
            self._drawn += count
        return self._ahead.pop()
