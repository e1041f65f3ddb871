"""In which order messages arrive, where the network leaves it open.

Messages of one link, and events of one watch, arrive in the order that the transport has.  Those of
different processes, and of watches of different resources, arrive in any order that their delays
allow, and their delays are drawn.  An arrangement replaces these draws and nothing else, so that a
search can go through the orders while all other draws of a run stay the same.

Holds: a delay depends on the seed, the arrangement, the link (of a watch, its resource too) and the
       instant, so that fast paths draw the same; without an arrangement the draws are as ever.
Mirrors  Burckhardt, Kothari, Musuvathi, Nagarakatte: A randomized scheduler with probabilistic
         guarantees of finding bugs (2010), with priorities of threads as here of names.
Differs  from it: an order lasts for the whole run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

from sim.dataclass import dataclass

AMONG_MAX = 18  # names of which every permutation has a number that JSON readers distinguish


@dataclass(frozen=True, slots=True)
class Arrivals:
    """An arrangement.

    order: without `among` the number of a set of draws, of which 0 is that of the seed; with it the
        number of a permutation, in the order of the alphabet of which 0 is the list itself
    spread_us: every delay may be longer by up to as much
    among: processes, nodes and resources; messages of the first in the permutation have the
        shortest delays, those of the last one the longest
    """

    order: int = 0
    spread_us: int = 0
    among: tuple[str, ...] = ()

    @property
    def draws(self) -> str:
        """A prefix of the names of the random streams; "" for those of the seed."""
        return f"arrivals/{self.order}/" if self.order and not self.among else ""

    @property
    def separates_watches(self) -> bool:
        """True if watches of different resources have delays of their own."""
        return bool(self.order or self.among)

    def bounds_us(self, names: Sequence[str], low_us: int, high_us: int) -> tuple[int, int]:
        """The bounds of a delay.

        names: of what the message is between, and of what it is about; the first that is one of
            `among` decides
        """
        span_us, ranks = high_us + self.spread_us - low_us, permuted(self.among, self.order)
        rank = next((ranks.index(name) for name in names if name in ranks), -1)
        if rank < 0:
            return low_us, low_us + span_us
        return low_us + span_us * rank // len(ranks), low_us + span_us * (rank + 1) // len(ranks)


def permuted(names: Sequence[str], number: int) -> list[str]:
    """The permutation of names with this number, in the order in which a dictionary has them."""
    left, result = list(names), list[str]()
    while left:
        index, number = divmod(number, factorial(len(left) - 1))
        result.append(left.pop(index % len(left)))
    return result
