"""How a watch delivers: what its owner is notified of, and what may wait."""

from __future__ import annotations

from enum import Enum


class Delivery(Enum):
    """The modes of delivery; each leaves more to wait than the one before.

    What waits comes with the next event that is delivered, at the end of the watch, or when the
    owner reads.
    """

    EVERYTHING = "every event and every bookmark, as it becomes visible"
    EVENTS = "every event; a bookmark alone waits"
    CHANGES = "as EVENTS, and a change of heartbeat times alone waits"
    ON_READ = "everything waits until the owner reads; the end does not"


# The modes in which events wait.
WAITING = (Delivery.CHANGES, Delivery.ON_READ)
