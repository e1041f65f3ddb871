"""Who of all nodes was heard of by its lease, and who has been silent for too long.

Turns what came to the informer of leases since one looked last into the time of renewal of each
node and the controller's time of it (`Health`), and these into the nodes whose silence may have
lasted too long.

Holds: it is the same whether renewals come one by one or in runs; those of nodes that have come in
runs are kept in columns (`nodelifecycle_columns`), and in a node's `Health` after `read`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from actors.controllers.nodelifecycle.decide import Health, Turns
from sim.api.store import Item
from sim.api.watch.columnar_renewals import Runs
from sim.api.watch.lease_renewals import Renewal
from sim.client import Informer

if TYPE_CHECKING:
    from actors.controllers.nodelifecycle.renewal_columns import Columns

# a node, None for a lease that is no known node's, and the time of renewal
Heard = tuple[Health | None, int]
News = Sequence[Item | Runs]


class Renewals:
    """holders: by the key of their lease in the store; who changes them, or their places, says so
    (`changed`).
    """

    def __init__(self, leases: Informer) -> None:
        self._leases = leases
        self.holders: dict[str, Health] = {}
        self._columns: Columns | None = None
        self._seated = -1  # so many rows there were when nodes were seated in them
        self._shifts = -1  # of the informer, as of the last time that it was asked
        # A heap of: last heard of, number, node that is well.
        self._deadlines: list[tuple[int, int, Health]] = []
        self._timed = 0

    def changed(self) -> None:
        self._seated = -1

    def news(self) -> News:
        return self._leases.news()

    def each(self, news: News) -> Iterator[Heard]:
        """Renewals one by one."""
        for piece in news:
            for item in piece if isinstance(piece, Runs) else (piece,):
                yield self._heard(item)

    def _heard(self, item: Item) -> Heard:
        return self.holders.get(item.key), item.peek_us("spec", "renewTime")

    # --- hearing ----------------------------------------------------------------------------------

    def hear(self, news: News, turns: Turns, looked: dict[str, Health]) -> None:
        """Tell those whose turn it was of their renewals; `looked`: who has been told."""
        for piece in news:
            if isinstance(piece, Runs):
                self._hear_runs(piece, turns, looked)
            else:
                self.tell(*self._heard(piece), turns, looked)

    def _hear_runs(self, runs: Runs, turns: Turns, looked: dict[str, Health]) -> None:
        columns = self._seats_in(runs)
        mask = None if columns is None else columns.of([*looked.values()])
        for stretch in runs.stretches():
            if isinstance(stretch, Renewal):
                self.tell(*self._heard(stretch), turns, looked)
            elif columns is not None:
                window, lo, hi = stretch
                columns.hear(window.rows[lo:hi], window.value[lo:hi], turns, mask)

    def tell(self, node: Health | None, renewed: int, turns: Turns, looked: dict[str, Health]) -> None:
        """Tell one."""
        if node is not None and node.row >= 0 and self._columns is not None:
            self._columns.saw(node.row, renewed)
        if node is None or node.name in looked or (turn := turns.of(node.index)) >= turns.done:
            return
        self.read(node)
        node.hear(renewed, turns.at_us(turn))
        if node.row >= 0 and self._columns is not None:
            self._columns.write(node, node.timed)

    # --- reports ----------------------------------------------------------------------------------

    def sees(self, nodes: Sequence[Health]) -> bool:
        """Whether the last renewals of all of these are known from the columns."""
        columns, shifts = self._columns, self._leases.shifts
        if columns is None or not nodes:
            return False
        if not self._leases.lazy or self._shifts != shifts:
            self._shifts = shifts
            columns.forget()
        return self._seated >= 0 and columns.sees(nodes)

    def unsure(self) -> None:
        """Renewals were read in another order than that in which they came."""
        if self._columns is not None:
            self._columns.forget()

    def report(self, nodes: Sequence[Health], turns: Turns) -> None:
        """As `listen` of each node, whose renewals it `sees`: it is well, and has reported or did
        so before the last pass.
        """
        if nodes and self._columns is not None:
            self._columns.report(nodes, turns)

    def heard_all(self, now_us: int) -> None:
        """Everybody counts as heard of now."""
        for node in self.holders.values():
            node.probe_us = now_us
        if self._columns is not None:
            self._columns.heard_all(now_us)

    def _seats_in(self, runs: Runs) -> Columns | None:
        last = runs.last
        if last is not None and self._seated != len(last.course.rows):
            # numpy: few clusters need it
            from actors.controllers.nodelifecycle.renewal_columns import Columns

            self._seated = len(last.course.rows)
            self._columns = self._columns or Columns()
            self._columns.seat([self.holders.get(key) for key in last.course.rows])
        return self._columns

    # --- silence ----------------------------------------------------------------------------------

    def read(self, node: Health) -> None:
        """Bring a node up to date."""
        if node.row >= 0 and self._columns is not None:
            self._columns.read(node)

    def expect(self, node: Health) -> None:
        """A node was looked at: if it is well, its silence will be noticed."""
        well = node.quiet and node.renewed is not None
        if node.row >= 0 and self._columns is not None:
            node.timed = well
            self._columns.write(node, well)
        elif well and not node.timed:
            self._timed += 1
            node.timed = True
            heappush(self._deadlines, (node.probe_us, self._timed, node))

    def late(self, before_us: int) -> Iterator[Health]:
        """Those that were well when they were last heard of, before then; each once until it is
        expected again.
        """
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] < before_us:
            probe_us, number, node = deadlines[0]
            if node.row < 0 and node.quiet and node.probe_us > probe_us:
                heapreplace(deadlines, (node.probe_us, number, node))
                continue
            heappop(deadlines)
            if node.row < 0:
                node.timed = False
                yield node
        if self._columns is not None:
            for node in self._columns.late(before_us):
                node.timed = False
                yield node
