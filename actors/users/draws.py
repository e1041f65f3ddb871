"""How many of several objects a command takes, drawn at random.

Turns a number, or a share in percent, into some of the objects, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Drawn:
    """A draw of objects; the number is drawn first if the ends of the range differ.

    low, high: a number of objects, or percent of them
    share: True if the numbers are percent, rounded down, of which a share above 0 is one at least
    stream: name of the random stream
    """

    low: int
    high: int
    share: bool
    stream: str

    def of(self, names: Sequence[str], random: Random) -> list[str]:
        """Some of the names; all of them if there are no more."""
        count = self.low if self.low == self.high else random.randint(self.low, self.high)
        if self.share:
            count = max(len(names) * count // 100, 1 if count else 0)
        chosen = sorted(random.sample(range(len(names)), min(count, len(names))))
        return [names[index] for index in chosen]
