"""Every feature gate of v1.25: stage, default, and whether it is locked to its default.

Mirrors  kubernetes v1.25 pkg/features/kube_features.go, apiserver pkg/features/kube_features.go,
         component-base featuregate/feature_gate.go (AllAlpha, AllBeta) and
         logs/api/v1/kube_features.go, controller-manager pkg/features/kube_features.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from sim.texts import rows

GATES_FILE = Path(__file__).with_name("gates.txt")
ALPHA, BETA, GA, DEPRECATED = "alpha", "beta", "GA", "deprecated"
ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"


class Gate(NamedTuple):
    """One feature gate.  locked: True if it cannot be set to another value than its default"""

    stage: str
    default: bool
    locked: bool = False


_STAGES = {
    "alpha off": Gate(ALPHA, False),
    "beta on": Gate(BETA, True),
    "beta off": Gate(BETA, False),
    "GA on": Gate(GA, True),
    "GA locked": Gate(GA, True, locked=True),
    "deprecated off": Gate(DEPRECATED, False),
}


def _rows() -> Iterator[tuple[str, Gate]]:
    for stage, names in rows(GATES_FILE)["stages"].items():
        for name in names.split():
            yield name, _STAGES[stage]


GATES: Mapping[str, Gate] = MappingProxyType(dict(sorted(_rows())))
