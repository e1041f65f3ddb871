"""Lease renewals of all nodes, and the nodes with a grace period that may be over.

Turns new items of the lease informer into the renew time of each node and the controller's time of
it (`Health`), and these into the nodes that may have been silent for too long.

Holds: the result is the same for single and for columnar renewals; the values of nodes with
       columnar renewals are in `nodelifecycle_columns`, and in a node's `Health` after `read`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from actors.controllers.nodelifecycle.decide import Health, Healthy, Turns
from sim.api.store import Item
from sim.api.watch.columnar_renewals import Runs
from sim.api.watch.delivery import Delivery
from sim.api.watch.lease_renewals import Renewal
from sim.client import Informer

if TYPE_CHECKING:
    from actors.controllers.nodelifecycle.renewal_columns import Columns

# (node or None for the lease of no known node, renew time)
NodeRenewal = tuple[Health | None, int]
NewItems = Sequence[Item | Runs]


class Renewals:
    """Renewals and deadlines of all nodes.

    holders: lease store key -> node; after a change of this map or of a node's index, call
        `invalidate_rows`
    """

    def __init__(self, leases: Informer) -> None:
        self._leases = leases
        self.holders: dict[str, Health] = {}
        self._columns: Columns | None = None
        self._row_count = -1  # number of rows when nodes were assigned to them, -1: assign again
        self._shifts = -1  # the informer's count of shifts at the last check
        # Heap of (last heartbeat, number, healthy node) for nodes without a row.
        self._deadlines: list[tuple[int, int, Health]] = []
        self._deadline_count = 0

    def invalidate_rows(self) -> None:
        """Assign nodes to rows again before the next columnar renewals."""
        self._row_count = -1

    def new(self) -> NewItems:
        """The lease items that have arrived since the last call."""
        return self._leases.news()

    def each(self, items: NewItems) -> Iterator[NodeRenewal]:
        """Renewals one by one."""
        for piece in items:
            for item in (piece,) if isinstance(piece, Item) else piece:
                yield self._renewal_of(item)

    def _renewal_of(self, item: Item) -> NodeRenewal:
        return self.holders.get(item.key), item.peek_us("spec", "renewTime")

    # --- renewals ---------------------------------------------------------------------------------

    def observe_all(self, items: NewItems, turns: Turns, examined: dict[str, Health]) -> None:
        """Observe renewals of nodes with a turn that is over, except for examined nodes."""
        for piece in items:
            if type(piece) is Renewal or isinstance(piece, Item):  # that of `Runs` is slow
                self.observe(*self._renewal_of(piece), turns, examined)
            else:
                self._observe_runs(piece, turns, examined)

    def _observe_runs(self, runs: Runs, turns: Turns, examined: dict[str, Health]) -> None:
        columns = self._columns_for(runs)
        mask = None if columns is None else columns.mask_of([*examined.values()])
        for stretch in runs.stretches():
            if isinstance(stretch, Renewal):
                self.observe(*self._renewal_of(stretch), turns, examined)
            elif columns is not None:
                window, lo, hi = stretch
                columns.observe(window.rows[lo:hi], window.value[lo:hi], turns, mask)

    def observe(self, node: Health | None, renewed: int, turns: Turns, examined: dict[str, Health]) -> None:
        """Observe one renewal."""
        if node is not None and node.row >= 0 and self._columns is not None:
            self._columns.record_newest(node.row, renewed)
        if node is None or node.name in examined or (turn := turns.of(node.index)) >= turns.done:
            return
        self.read(node)
        node.observe_renewal(renewed, turns.at_us(turn))
        if node.row >= 0 and self._columns is not None:
            self._columns.write(node, node.timed)

    # --- reports ----------------------------------------------------------------------------------

    def knows_latest(self, nodes: Sequence[Health]) -> bool:
        """True if the columns hold the latest renewals of all these nodes."""
        columns, shifts = self._columns, self._leases.shifts
        if columns is None or not nodes:
            return False
        if self._leases.delivery is not Delivery.ON_READ or self._shifts != shifts:
            self._shifts = shifts
            columns.forget_newest()
        return self._row_count >= 0 and columns.knows_newest(nodes)

    def forget_latest(self) -> None:
        """Mark the latest renewals as unknown, after some were read out of order."""
        if self._columns is not None:
            self._columns.forget_newest()

    def report(self, nodes: Sequence[Health], turns: Turns) -> None:
        """Do the work of `nodelifecycle_decide.observe` for healthy nodes that have only reported.

        `knows_latest` must be True for these nodes.
        """
        if nodes and self._columns is not None:
            self._columns.report(nodes, turns)

    def reset_probe_times(self, now_us: int) -> None:
        """Set the time of the last heartbeat of all nodes."""
        for node in self.holders.values():
            node.probe_us = now_us
        if self._columns is not None:
            self._columns.reset_probe_times(now_us)

    def _columns_for(self, runs: Runs) -> Columns | None:
        last = runs.last
        if last is not None and self._row_count != len(last.course.rows):
            # Imported late, as it needs numpy and only large clusters get here.
            from actors.controllers.nodelifecycle.renewal_columns import Columns

            self._row_count = len(last.course.rows)
            self._columns = self._columns or Columns()
            self._columns.assign_rows([self.holders.get(key) for key in last.course.rows])
        return self._columns

    # --- deadlines --------------------------------------------------------------------------------

    def read(self, node: Health) -> None:
        """Copy a node's values from the columns into its `Health`."""
        if node.row >= 0 and self._columns is not None:
            self._columns.read(node)

    def set_deadline(self, node: Health) -> None:
        """Set the deadline of an examined node, if it is healthy."""
        well = type(node.standing) is Healthy and node.renewed is not None
        if node.row >= 0 and self._columns is not None:
            node.timed = well
            self._columns.write(node, well)
        elif well and not node.timed:
            self._deadline_count += 1
            node.timed = True
            heappush(self._deadlines, (node.probe_us, self._deadline_count, node))

    def take_overdue(self, before_us: int) -> Iterator[Health]:
        """Nodes with a deadline and no heartbeat since `before_us`; clears their deadlines."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] < before_us:
            probe_us, number, node = deadlines[0]
            if node.row < 0 and type(node.standing) is Healthy and node.probe_us > probe_us:
                heapreplace(deadlines, (node.probe_us, number, node))
                continue
            heappop(deadlines)
            if node.row < 0:
                node.timed = False
                yield node
        if self._columns is not None:
            for node in self._columns.take_overdue(before_us):
                node.timed = False
                yield node
