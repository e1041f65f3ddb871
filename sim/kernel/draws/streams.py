"""Named random streams: a new actor, or a new draw in one stream, changes no other stream.

A stream's seed is a hash of the run's seed and the stream's name, never Python's `hash`.  Only
`.random()` and what Python builds on it without rejection loops over `getrandbits` of varying width
is used by the project, so that streams agree across Python versions.
"""

from __future__ import annotations

import hashlib
import random
from array import array
from collections.abc import Sequence

from sim.dataclass import dataclass
from sim.kernel.draws.dice import MASK

# A `Sparing` stream prepares a quarter of the number of earlier draws, at least AHEAD_MIN; above
# AHEAD_MAX they would take as much memory as a generator.
AHEAD_MIN = 32
AHEAD_MAX = 256


def _seed_of(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest(), "big")


def stream(seed: int, name: str) -> random.Random:
    """A generator of its own for `name` (e.g. "node-17#1/probes") in the run with this seed."""
    return random.Random(_seed_of(seed, name))


def key_of(seed: int, name: str) -> int:
    """A key of `name` for draws that depend on nothing but their purpose (`dice.keyed`)."""
    return _seed_of(seed, name) & MASK


class Sparing:
    """The draws of `stream` with less memory, for actors that draw rarely.

    A generator takes 2.9 KiB, its next draws 0.4 KiB.
    ahead: the prepared draws, the next one last
    """

    __slots__ = ("_drawn", "_kept", "_seed", "ahead")

    def __init__(self, seed: int, name: str) -> None:
        self._seed = _seed_of(seed, name)
        self._drawn = 0
        self.ahead = array("d")  # the next one last
        self._kept: random.Random | None = None  # the generator, once draws are frequent

    def random(self) -> float:
        """Draw a float in [0, 1)."""
        return (self.ahead or self.more()).pop()

    def more(self) -> array[float]:
        """Prepare the next draws; called when `ahead` is empty."""
        generator, drawn = self._kept, self._drawn
        count = max(AHEAD_MIN, drawn // 4)  # so that a draw costs the same however many there were
        if generator is None:
            generator = random.Random(self._seed)
            if drawn:
                generator.getrandbits(64 * drawn)  # two words of 32 bits a draw
        if count > AHEAD_MAX:
            self._kept, count = generator, AHEAD_MIN
        draw = generator.random
        ahead = self.ahead = array("d", [draw() for _ in range(count)])
        ahead.reverse()
        self._drawn += count
        return ahead


@dataclass(frozen=True, slots=True)
class Drawn:
    """A draw of objects; the number is drawn first if the ends of the range differ.

    low, high: a number of objects, or percent of them
    share: True if the numbers are percent, rounded down, of which a share above 0 is one at least
    stream: name of the random stream
    not_yet: True if what an earlier draw has taken is left out
    healthy: True if the caller leaves out what is not in order
    spent: what the earlier draws have taken; None while nothing is drawn
    """

    low: int
    high: int
    share: bool
    stream: str = ""
    not_yet: bool = False
    healthy: bool = False
    spent: dict[str, None] | None = None

    def of(self, names: Sequence[str], source: random.Random) -> list[str]:
        """Some of the names; all that are left if there are no more."""
        count = self.low if self.low == self.high else source.randint(self.low, self.high)
        if self.share:
            count = max(len(names) * count // 100, 1 if count else 0)
        if self.spent is not None:
            names = [name for name in names if name not in self.spent]
        chosen = [names[index] for index in sorted(source.sample(range(len(names)), min(count, len(names))))]
        if self.spent is not None:
            self.spent.update(dict.fromkeys(chosen))
        return chosen
