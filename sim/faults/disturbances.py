"""The steps after which a window begins again: `after: last fault` and `after: last disturbance`."""

from __future__ import annotations

from sim.faults import FAULTS

LAST_FAULT, LAST_DISTURBANCE = "last fault", "last disturbance"
LAST = (LAST_FAULT, LAST_DISTURBANCE)
_NAMES = frozenset(fault.name for fault in FAULTS)


def disturbs(after: str, kind: str) -> bool:
    """True if a window `after` begins again with a step of this kind, or with its end."""
    kind = kind.removeprefix("end of ")
    return kind in _NAMES if after == LAST_FAULT else kind not in ("mark", "request")
