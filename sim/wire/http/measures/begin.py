"""The begin of counting: what a reader of metrics switches on.

Holds: counting changes no result, since the servers leave their fast paths, which give the same
results as the ordinary ones.  They do more units of work then, and the positions in a journal are
numbers of units: a reader outside of the simulation begins through the gate
(`Gateway.begin_counting`), so that a replay begins at the same position.

Mirrors  kubernetes v1.25 pod-security-admission metrics.go (series that are there from the start).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

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


class Rebound(Protocol):
    """A server that may have to leave its fast paths."""

    def rebound(self) -> None:
        """Follow a change of what is counted."""
        ...


def begin_counting(kernel: Kernel, servers: Mapping[str, Rebound], meters: Meters) -> Meters:
    """Let the components count from now on, unless they do already."""
    if kernel.meters is None:
        kernel.meters = meters
        meters.begun_us = kernel.now_us
        for family, labels in FROM_THE_START:
            meters.count(family, labels, 0)
        for server in servers.values():
            server.rebound()
    return kernel.meters
