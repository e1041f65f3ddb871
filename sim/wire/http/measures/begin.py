"""The begin of counting: what a reader of metrics switches on.

Holds: counting changes no result, since the servers leave their fast paths, which give the same
results as the ordinary ones.  They do more units of work then, and the positions in a journal are
numbers of units: a reader outside of the simulation begins through the gate
(`Gateway.begin_counting`), so that a replay begins at the same position.

Mirrors  kubernetes v1.25 pod-security-admission metrics.go (series that are there from the start).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sim.kernel import Kernel
from sim.kernel.meters import Meters

_ALLOWED = ("allow", "privileged", "latest", "enforce")
# Series that upstream shows before they count anything (pod-security-admission metrics.go).
FROM_THE_START = tuple(
    (f"pod_security_{family}_total", (*decided, operation, what, ""))
    for family, what, decided in (
        ("evaluations", "pod", _ALLOWED),
        ("exemptions", "pod", ()),
        ("exemptions", "controller", ()),
    )
    for operation in ("create", "update")
)


def begin_counting(kernel: Kernel, rebounds: Iterable[Callable[[], None]], meters: Meters) -> Meters:
    """Let the components count from now on, unless they do already.

    rebounds: of each server, lets it follow a change of what is counted
    """
    if kernel.meters is None:
        kernel.meters = meters
        meters.begun_us = kernel.now_us
        for family, labels in FROM_THE_START:
            meters.count(family, labels, 0)
        for rebound in rebounds:
            rebound()
    return kernel.meters
