"""Where the API machinery counts for a reader of metrics.

Turns nothing; the process that runs the machinery provides the counts.
"""

from __future__ import annotations

from typing import Protocol


class Counting(Protocol):
    """The counts since the first reader."""

    def count(self, family: str, labels: tuple[str, ...], by: float = 1) -> None:
        """Add to a counter."""
        ...

    def observe(self, family: str, labels: tuple[str, ...], value: float, times: int = 1) -> None:
        """Add a value to a histogram, once or several times."""
        ...


def uncounted() -> Counting | None:
    """No counts: there is no reader."""
    return None
