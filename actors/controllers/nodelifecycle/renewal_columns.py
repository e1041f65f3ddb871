"""When thousands of nodes were last heard of, in columns: what comes with runs of renewals touches
no object of a node.

Turns renewals by row (`Course.rows`) into the last one of each node and the controller's time of
it.

Holds: the same as `Health.renewed` and `Health.probe_us` of a node would be if it were told of each
renewal; while a node has a row these columns hold it, and its `Health` as of the last `read` or
`write`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from actors.controllers.nodelifecycle.decide import Health, Turns

NOT_HEARD = -(1 << 62)  # in the place of a time of renewal
NOT_SEEN = NOT_HEARD - 1


class Columns:
    """By row: `renewed`, `probe_us` as of `Health`; index: of the node in the list of all, -1: no
    node; timed: it is well, and late if nothing is heard of it; newest: time of the last renewal
    that has come, heard or not, NOT_SEEN where that is not known.
    """

    def __init__(self) -> None:
        self._nodes: list[Health | None] = []
        self._renewed = self._probe_us = self._index = self._newest = np.zeros(0, np.int64)
        self._timed = np.zeros(0, bool)

    def seat(self, nodes: Sequence[Health | None]) -> None:
        """From now on these are in the rows.  A node that had none brings what is known of it."""
        more = len(nodes) - len(self._nodes)
        if more:
            none = np.zeros(more, np.int64)
            self._renewed = np.concatenate((self._renewed, none))
            self._probe_us = np.concatenate((self._probe_us, none))
            self._timed = np.concatenate((self._timed, none.astype(bool)))
            self._newest = np.concatenate((self._newest, np.full(more, NOT_SEEN)))
        self._index = np.array([-1 if node is None else node.index for node in nodes], np.int64)
        known, self._nodes = [*self._nodes, *[None] * more], [*nodes]
        for row, (before, node) in enumerate(zip(known, nodes, strict=True)):
            if node is None:
                self._timed[row] = False
            elif node is not before:
                node.row = row
                self.write(node, node.timed)

    def read(self, node: Health) -> None:
        renewed = int(self._renewed[node.row])
        node.renewed = None if renewed == NOT_HEARD else renewed
        node.probe_us = int(self._probe_us[node.row])

    def write(self, node: Health, timed: bool) -> None:
        row = node.row
        self._renewed[row] = NOT_HEARD if node.renewed is None else node.renewed
        self._probe_us[row] = node.probe_us
        self._timed[row] = timed

    def heard_all(self, now_us: int) -> None:
        self._probe_us[:] = now_us

    def hear(self, rows: Any, times: Any, turns: Turns, looked: Any) -> None:
        """Renewals, at most one of a row; looked: by row, who need not be told."""
        self._newest[rows] = times
        index = self._index[rows]
        turn = (index - turns.first) % turns.count
        new = (index >= 0) & (turn < turns.done) & ~looked[rows] & (times > self._renewed[rows])
        rows = rows[new]
        self._renewed[rows] = times[new]
        self._probe_us[rows] = turns.at_us(turn[new])

    def saw(self, row: int, time_us: int) -> None:
        self._newest[row] = time_us

    def forget(self) -> None:
        """Others may have changed leases."""
        self._newest[:] = NOT_SEEN

    def sees(self, nodes: Sequence[Health]) -> bool:
        """Whether the last renewals of all of these are known."""
        return bool((self._newest[[node.row for node in nodes]] != NOT_SEEN).all())

    def report(self, nodes: Sequence[Health], turns: Turns) -> None:
        """These are well and have reported, or did so before the last pass: they forget the renewal
        that they had.
        """
        rows = np.array([node.row for node in nodes])
        newest = self._newest[rows]
        timed = newest > self._renewed[rows]
        self._renewed[rows] = np.where(timed, newest, NOT_HEARD)
        self._probe_us[rows] = turns.at_us((self._index[rows] - turns.first) % turns.count)
        self._timed[rows] = timed
        for node, well in zip(nodes, timed.tolist(), strict=True):
            node.timed = well

    def of(self, nodes: Sequence[Health]) -> Any:
        """A column that is true for these."""
        column = np.zeros(len(self._nodes), bool)
        column[[node.row for node in nodes if node.row >= 0]] = True
        return column

    def late(self, before_us: int) -> list[Health]:
        """Who is timed and was last heard of before then; they are timed no more."""
        rows = (self._timed & (self._probe_us < before_us)).nonzero()[0]
        self._timed[rows] = False
        return [node for row in rows.tolist() if (node := self._nodes[row]) is not None]
