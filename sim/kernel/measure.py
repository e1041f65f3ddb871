"""Counting for a reader of metrics, in the line where the thing happens.

    count(kernel, "workqueue_retries_total", server, queue)
    observe(kernel, "job_controller_job_sync_duration_seconds", took_s, result, error)

Holds: nothing is counted while there is no reader; counting sends nothing, draws nothing and adds
no event.  Code that counts several families, or often, asks for `kernel.meters` once instead.

Mirrors  the idea of component-base/metrics.
"""

from __future__ import annotations

from sim.kernel.kernel import Kernel


def count(kernel: Kernel, family: str, *labels: str, by: float = 1) -> None:
    """Add to a counter."""
    if kernel.meters is not None:
        kernel.meters.count(family, labels, by)


def observe(kernel: Kernel, family: str, value: float, *labels: str) -> None:
    """Add a value to a histogram."""
    if kernel.meters is not None:
        kernel.meters.observe(family, labels, value)
