"""Pods of a dead node that stay ready for ever, as the write that says otherwise is not repeated.

The node controller marked the pods of a node as not ready once, when the node became silent.  What
failed then was left as it was, and Services sent requests to the dead node.

Thread   https://github.com/kubernetes/kubernetes/issues/48681
Mended   v1.17 (https://github.com/kubernetes/kubernetes/pull/84445): the next pass tries again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from actors.controllers.nodelifecycle.writes import PodMarks
from sim.api.types import Obj
from tests.planted.planting import Planted, replaced

_mark = PodMarks.mark


async def _mark_once(marks: PodMarks, pods: list[Obj]) -> bool:
    await _mark(marks, pods)
    return True


def _plant() -> AbstractContextManager[None]:
    return replaced(PodMarks, "mark", _mark_once)


BUG = Planted(
    name="unmarked_pods",
    thread="https://github.com/kubernetes/kubernetes/issues/48681",
    mended="v1.17",
    plant=_plant,
    story="""
- {at: 60s, name: slow, storage: {how: slow, by: 1s}, for: 40s}
- {at: 78s, name: no-quorum, storage: {how: lost-quorum}, for: 15s}
""",
)
