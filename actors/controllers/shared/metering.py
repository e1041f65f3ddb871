"""What controllers of endpoints count for a reader of metrics: how many a sync changes.

Mirrors  kubernetes v1.25 pkg/controller/*/metrics/metrics.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sim.api.types import Obj


class EndpointChanges(NamedTuple):
    """How many endpoints slices gain, keep in another form, and lose."""

    added: int
    updated: int
    removed: int


def endpoint_changes(
    pieces: Iterable[Obj], written: Sequence[Obj], deleted: Sequence[Obj]
) -> EndpointChanges:
    """What happens to the endpoints of slices.

    pieces: the slices as they are; written: those that are created or changed, in their new form
    """
    names = {piece["metadata"].get("name") for piece in (*written, *deleted)}
    old = _endpoints(piece for piece in pieces if piece["metadata"]["name"] in names)
    new = _endpoints(written)
    had, has = Counter(address for address, _ in old), Counter(address for address, _ in new)
    same = Counter(repr(endpoint) for _, endpoint in old) & Counter(repr(endpoint) for _, endpoint in new)
    kept = (had & has).total()
    return EndpointChanges((has - had).total(), kept - same.total(), (had - has).total())


def _endpoints(slices: Iterable[Obj]) -> list[tuple[str, Obj]]:
    """The endpoints of slices, each with its address and its place among the ports."""
    return [
        (f"{endpoint['addresses'][0]} {piece.get('ports')}", endpoint)
        for piece in slices
        for endpoint in piece.get("endpoints") or ()
    ]
