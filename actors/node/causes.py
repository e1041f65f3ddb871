"""The cause of work that no message led to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sim.kernel.kernel import Kernel


@contextmanager
def caused(kernel: Kernel, record: int) -> Iterator[None]:
    """Everything done in this context is caused by the record; 0 keeps the present cause."""
    before = kernel.cause
    kernel.cause = record or before
    yield
    kernel.cause = before
