"""Which fault of the programs on a node is behind what its agent finds.  Pure but for `caused`.

Turns the instances of a container and the fault that changed its behaviour into the trace record to blame: an instance that
was begun while a fault was in force ends, or fails its probes, by that fault and not by what began it.

Holds: only the first instance that met the fault is blamed on it; those after it follow from that one, so that a crash
loop stays one chain of exits and restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from actors.node.runtime.machine import Container, PodRuntime
from actors.node.runtime.profile import Override
from sim.api.types import Obj
from sim.kernel.kernel import Kernel


def met_first(runtime: PodRuntime, container: Container, fault: Override | None) -> int:
    """The record of the fault if no instance before this one met it; else 0."""
    if fault is None:
        return 0
    older = [one for one in runtime.instances(container.name) if one.attempt < container.attempt]
    met = any(one.exit_us is not None and one.exit_us >= fault.since_us for one in older)
    return 0 if met else fault.record


def unseen_end(runtime: PodRuntime | None, status: Obj, now_us: int) -> int:
    """The record of the fault that ended a container of which this status does not tell yet; 0 if there is none."""
    if runtime is None:
        return 0
    record = 0
    for container in runtime.containers:
        fault = container.ended_by
        if fault is None or not container.exited(now_us) or container is not runtime.newest(container.name):
            continue
        if not _is_told(status, container):
            record = met_first(runtime, container, fault) or record
    return record


def _is_told(status: Obj, container: Container) -> bool:
    keys = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    shown = [one for key in keys for one in status.get(key) or ()]
    told = (one for one in shown if one["name"] == container.name)
    return any(one.get("containerID") == container.ident and "running" not in one["state"] for one in told)


@contextmanager
def caused(kernel: Kernel, record: int) -> Iterator[None]:
    """What is done within is caused by this record, if there is one."""
    before = kernel.cause
    kernel.cause = record or before
    yield
    kernel.cause = before
