"""Last renewals of thousands of nodes in columns, so that columnar renewals touch no Node object.

Turns renewals by row (`Course.rows`) into the last renewal of each node and the controller's time
of it.

Holds: the columns are equal to the `Health.renewed` and `Health.probe_us` that single renewals
       would give; while a node has a row, the columns are the truth and its `Health` is as of the
       last `read` or `write`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from actors.controllers.nodelifecycle.decide import Health, Turns

NO_RENEWAL = -(1 << 62)  # in place of a renew time
UNKNOWN = NO_RENEWAL - 1


class Columns:
    """Columns over the rows.

    renewed, probe_us: as in `Health`
    index: position of the node in the order of passes, -1 for a row without node
    timed: True if the node is healthy and has a deadline
    newest: latest renew time that has arrived, observed or not; UNKNOWN if not known
    """

    def __init__(self) -> None:
        self._nodes: list[Health | None] = []
        self._renewed = self._probe_us = self._index = self._newest = np.zeros(0, np.int64)
        self._timed = np.zeros(0, bool)

    def assign_rows(self, nodes: Sequence[Health | None]) -> None:
        """Set the nodes of the rows; a new node brings the values of its `Health`."""
        more = len(nodes) - len(self._nodes)
        if more:
            none = np.zeros(more, np.int64)
            self._renewed = np.concatenate((self._renewed, none))
            self._probe_us = np.concatenate((self._probe_us, none))
            self._timed = np.concatenate((self._timed, none.astype(bool)))
            self._newest = np.concatenate((self._newest, np.full(more, UNKNOWN)))
        self._index = np.array([-1 if node is None else node.index for node in nodes], np.int64)
        known, self._nodes = [*self._nodes, *[None] * more], [*nodes]
        for row, (before, node) in enumerate(zip(known, nodes, strict=True)):
            if node is None:
                self._timed[row] = False
            elif node is not before:
                node.row = row
                self.write(node, node.timed)

    def read(self, node: Health) -> None:
        """Copy a node's values into its `Health`."""
        renewed = int(self._renewed[node.row])
        node.renewed = None if renewed == NO_RENEWAL else renewed
        node.probe_us = int(self._probe_us[node.row])

    def write(self, node: Health, timed: bool) -> None:
        """Copy a node's `Health` into the columns."""
        row = node.row
        self._renewed[row] = NO_RENEWAL if node.renewed is None else node.renewed
        self._probe_us[row] = node.probe_us
        self._timed[row] = timed

    def reset_probe_times(self, now_us: int) -> None:
        """Set the time of the last heartbeat of all nodes."""
        self._probe_us[:] = now_us

    def observe(self, rows: Any, times: Any, turns: Turns, examined: Any) -> None:
        """Observe renewals, at most one for each row.

        examined: mask of rows with nodes that were examined in full
        """
        self._newest[rows] = times
        index = self._index[rows]
        turn = (index - turns.first) % turns.count
        new = (index >= 0) & (turn < turns.done) & ~examined[rows] & (times > self._renewed[rows])
        rows = rows[new]
        self._renewed[rows] = times[new]
        self._probe_us[rows] = turns.at_us(turn[new])

    def record_newest(self, row: int, time_us: int) -> None:
        """Record the latest renew time of a row."""
        self._newest[row] = time_us

    def forget_newest(self) -> None:
        """Mark the latest renew times as unknown, as leases may have changed by other means."""
        self._newest[:] = UNKNOWN

    def knows_newest(self, nodes: Sequence[Health]) -> bool:
        """True if the latest renew times of all these nodes are known."""
        return bool((self._newest[[node.row for node in nodes]] != UNKNOWN).all())

    def report(self, nodes: Sequence[Health], turns: Turns) -> None:
        """Observe status heartbeats of healthy nodes, which clear the last renewal of a node.

        A renewal that arrived after the one cleared counts as a new one.
        """
        rows = np.array([node.row for node in nodes])
        newest = self._newest[rows]
        timed = newest > self._renewed[rows]
        self._renewed[rows] = np.where(timed, newest, NO_RENEWAL)
        self._probe_us[rows] = turns.at_us((self._index[rows] - turns.first) % turns.count)
        self._timed[rows] = timed
        for node, well in zip(nodes, timed.tolist(), strict=True):
            node.timed = well

    def mask_of(self, nodes: Sequence[Health]) -> Any:
        """A column that is True for these nodes."""
        column = np.zeros(len(self._nodes), bool)
        column[[node.row for node in nodes if node.row >= 0]] = True
        return column

    def take_overdue(self, before_us: int) -> list[Health]:
        """Nodes with a deadline and no heartbeat since `before_us`; clears their deadlines."""
        rows = (self._timed & (self._probe_us < before_us)).nonzero()[0]
        self._timed[rows] = False
        return [node for row in rows.tolist() if (node := self._nodes[row]) is not None]
