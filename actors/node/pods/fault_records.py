"""Which fault of a container's program explains what its pod's worker finds.  Pure.

Turns the instances of a container and the fault that changed its behaviour into the trace record of
the cause: an instance that started while a fault was active ends, or fails its probes, because of
that fault and not because of what started it.

Holds: only the first instance that met a fault is attributed to it.  Those after it follow from the
first, so that a crash loop is one chain of exits and restarts in the trace.
"""

from __future__ import annotations

from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.profile import Override
from sim.api.types import Obj


def met_first(runtime: PodRuntime, container: Container, fault: Override | None) -> int:
    """The record of the fault if no earlier instance of the container met it; else 0."""
    if fault is None:
        return 0
    older = [one for one in runtime.instances(container.name) if one.attempt < container.attempt]
    met_before = any(one.exit_us is not None and one.exit_us >= fault.since_us for one in older)
    return 0 if met_before else fault.record


def unseen_end(runtime: PodRuntime | None, status: Obj, now_us: int) -> int:
    """The record of the fault behind the end of a container that the status does not show; else 0."""
    if runtime is None:
        return 0
    record = 0
    for container in runtime.containers:
        fault = container.ended_by
        if fault is None or not container.exited(now_us) or container is not runtime.newest(container.name):
            continue
        if not _is_shown(status, container):
            record = met_first(runtime, container, fault) or record
    return record


def _is_shown(status: Obj, container: Container) -> bool:
    """True if the status shows the end of this instance."""
    keys = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    shown = [one for key in keys for one in status.get(key) or ()]
    matching = (one for one in shown if one["name"] == container.name)
    return any(
        one.get("containerID") == container.ident and "running" not in one["state"] for one in matching
    )
