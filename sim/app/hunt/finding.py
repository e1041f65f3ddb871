"""A failure that a hunt met: the scenario that fails, and what a run of it showed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """A scenario document that fails.

    document: an ordinary scenario without a section `hunt`, complete in itself, with its seed
    failed: names of the expectations that failed, in the order of the document; of a run that ended
        with an exception, its text
    cause: key of the cause, by which failures are grouped
    trace_sha256: of the run; "" if it did not end
    number: that of the candidate in its hunt
    """

    document: Mapping[str, Any]
    seed: int
    failed: tuple[str, ...]
    cause: str
    trace_sha256: str
    number: int = 0
