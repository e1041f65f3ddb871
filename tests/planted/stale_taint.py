"""A pod that is evicted although the taint that it did not tolerate is gone.

The taint manager cancelled an eviction only when no taint with the effect NoExecute was left on the
node.  One that the pod tolerates for ever kept the eviction of the other one alive.

Thread   https://github.com/kubernetes/kubernetes/issues/90794
Mended   v1.20 (https://github.com/kubernetes/kubernetes/pull/93722)
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from actors.controllers.taint_manager.decide import Taint, stay_us
from actors.controllers.taint_manager.loop import TaintManager
from sim.api.types import Obj
from tests.planted.planting import Planted, replaced

_update_timer = TaintManager._update_timer


def _never_cancelled(manager: TaintManager, pod: Obj, taints: list[Taint]) -> None:
    if stay_us(taints, pod["spec"].get("tolerations") or ()) is not None:
        _update_timer(manager, pod, taints)


def _plant() -> AbstractContextManager[None]:
    return replaced(TaintManager, "_update_timer", _never_cancelled)


BUG = Planted(
    name="stale_taint",
    thread="https://github.com/kubernetes/kubernetes/issues/90794",
    mended="v1.20",
    plant=_plant,
    story="""
- {at: 60s, name: cut, fail: {nodes: {name: node-0}, how: network-cut}, for: 40s}
""",
)
