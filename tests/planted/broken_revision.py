"""A StatefulSet that never leaves a broken revision.

With a limit of unavailable pods, all pods that were not available counted against it, those of the
broken revision too, so that no room was left to replace any of them.

Thread   https://github.com/kubernetes/kubernetes/issues/137409; that ordered sets do so by design
         is https://github.com/kubernetes/kubernetes/issues/67250.
Mended   v1.35.4 (https://github.com/kubernetes/kubernetes/pull/137904), by the gate
         MaxUnavailableStatefulSet that is off again, like in v1.25.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from actors.controllers.statefulset import decide
from tests.planted.planting import Planted, replaced


def _plant() -> AbstractContextManager[None]:
    return replaced(decide, "_roll", decide._roll_several)


BUG = Planted(
    name="broken_revision",
    thread="https://github.com/kubernetes/kubernetes/issues/137409",
    mended="v1.35.4",
    plant=_plant,
    story="""
- {at: 55s, name: bad-image, workload: {image: "r/db:2", pullError: "manifest unknown"}, for: 150s}
""",
)
