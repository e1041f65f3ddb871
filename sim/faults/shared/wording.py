"""Words that several checks use in remedies."""

from __future__ import annotations

from collections.abc import Sequence

NAMED_MAX = 6  # names in a remedy


def first_names(known: Sequence[str], what: str) -> str:
    """The first names of those that exist, and the number of the others."""
    few = ", ".join(known[:NAMED_MAX])
    more = f" and {len(known) - NAMED_MAX} more" if len(known) > NAMED_MAX else ""
    return f"there are {few}{more}" if known else f"there is no {what} at all"
