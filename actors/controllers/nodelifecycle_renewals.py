"""Whose lease was renewed since one looked last.

Turns what came to the informer of leases into the nodes that they speak of, and the times in them.

Holds: each renewal is given once, in the order in which they came, whether they came one by one or in runs.
"""

from __future__ import annotations

from actors.controllers.nodelifecycle_decide import Health
from sim.client import Informer
from sim.machinery.renewal import Renewal
from sim.machinery.runs import Runs
from sim.machinery.store import Item

Heard = tuple[Health | None, int]  # a node, None for a lease that is no known node's, and the time of renewal


class Renewals:
    """holders: by the key of their lease in the store; who changes them says so (`changed`)."""

    def __init__(self, leases: Informer) -> None:
        self._leases = leases
        self.holders: dict[str, Health] = {}
        self._seats: dict[int, Health] = {}  # by their row in runs
        self._seated = -1  # so many rows there were then

    def changed(self) -> None:
        self._seated = -1

    def heard(self) -> list[Heard]:
        found: list[Heard] = []
        for piece in self._leases.news():
            if not isinstance(piece, Runs):
                found.append(self._single(piece))
                continue
            seats = self._seats_in(piece)
            for stretch in piece.stretches():
                if isinstance(stretch, Renewal):
                    found.append(self._single(stretch))
                    continue
                window, lo, hi = stretch
                rows, times = window.rows[lo:hi].tolist(), window.value[lo:hi].tolist()
                found += zip(map(seats.get, rows), times, strict=True)
        return found

    def _single(self, item: Item) -> Heard:
        return self.holders.get(item.key), item.peek_us("spec", "renewTime")

    def _seats_in(self, runs: Runs) -> dict[int, Health]:
        last = runs.last
        rows = {} if last is None else last.course.rows
        if last is not None and self._seated != len(rows):
            self._seated = len(rows)
            self._seats = {row: self.holders[key] for key, row in rows.items() if key in self.holders}
        return self._seats
