"""A distribution in one line of a terminal, and the caption of numbers about distributions."""

from __future__ import annotations

from collections.abc import Sequence

from sim.statistics import histogram

CAPTION_OF_NUMBERS = (
    "pN is the least value that at least N % of all do not exceed; what never happened counts as later than everything. "
    "min, max and mean are of what happened."
)
BLOCKS = " ▁▂▃▄▅▆▇█"


def blocks(values: Sequence[float], width: int, unit: str = "s") -> str:
    """A histogram in one line of a terminal; each bin with a value is visible. Without a unit the
    values are counts.
    """
    counts = histogram(values, width, whole=not unit).counts
    top = max(counts)
    return "".join(BLOCKS[max(1, round(8 * count / top))] if count else " " for count in counts)
