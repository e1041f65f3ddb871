"""Topology hints: assigns endpoints of a Service to zones in proportion to the zones' CPU.  Pure.

Turns nodes into CPU shares of zones, shares and a number of endpoints into the allocation of each
zone, and slices into slices with hints.

Holds: a slice without other changes keeps its hints while no zone exceeds its maximum; if some
       ready endpoint cannot get a hint, no endpoint gets one.

Mirrors  kubernetes v1.25
         pkg/controller/endpointslice/topologycache/{topologycache.go,sliceinfo.go,utils.go}.
Differs  zones with equal gaps are taken in the order of their names (upstream: map order).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from sim.api.objects import is_ready
from sim.api.types import Obj
from sim.units import quantity_milli

if TYPE_CHECKING:
    from sim.ident import Names

OVERLOAD = 0.2  # topologycache.go: OverloadThreshold
# Zone -> share of the CPU of all nodes; empty if a zone or CPU is unknown, or with only one zone.
Shares = Mapping[str, float]
Counts = dict[str, int]  # zone -> number of endpoints with a hint for it


class Allocation(NamedTuple):
    """Bounds of the number of endpoints in a zone, and the number that its share gives."""

    least: int
    most: int
    desired: float


def hints_enabled(service: Obj, names: Names) -> bool:
    """True if the Service's annotation enables topology hints."""
    annotations = service["metadata"].get("annotations") or {}
    return annotations.get(names.annotation_topology_hints) in ("Auto", "auto")


def shares_of(nodes: Iterable[Obj], names: Names) -> Shares:
    """The CPU share of each zone, over ready nodes outside of the control plane.

    Empty if one of these nodes has no zone or no CPU, or if there is only one zone.
    """
    by_zone: dict[str, int] = {}
    excluded = [f"{names.label_node_role_prefix}{role}" for role in ("control-plane", "master")]
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        if not is_ready(node) or any(label in labels for label in excluded):
            continue
        zone = labels.get(names.label_zone)
        cpu = quantity_milli(((node.get("status") or {}).get("allocatable") or {}).get("cpu", "0"))
        if not zone or not cpu:
            return {}
        by_zone[zone] = by_zone.get(zone, 0) + cpu
    total = sum(by_zone.values())
    return {zone: by_zone[zone] / total for zone in sorted(by_zone)} if len(by_zone) > 1 else {}


def _least(count: float, share: float) -> int:
    return ceil(count * share * (1 / (1 + OVERLOAD)))


def allocations_of(shares: Shares, count: int) -> dict[str, Allocation]:
    """The allocation of each zone for `count` ready endpoints; empty if there are too few
    endpoints.
    """
    if not shares or len(shares) > count:
        return {}
    least = {zone: _least(count, share) for zone, share in shares.items()}
    room = count - sum(least.values())
    if room < 0:
        return {}
    return {
        zone: Allocation(least[zone], least[zone] + room, max(share * count, float(least[zone])))
        for zone, share in shares.items()
    }


def is_overloaded(counts: Mapping[str, int], shares: Shares) -> bool:
    """True if a zone has fewer endpoints than its minimum, or if the shares are unknown now."""
    if not counts:
        return False
    total = sum(counts.values())
    return not shares or any(
        zone not in counts or counts[zone] < _least(total, share) for zone, share in shares.items()
    )


def _ready(piece: Obj) -> list[Obj]:
    """The ready endpoints of a slice: only these get hints."""
    return [e for e in piece.get("endpoints") or () if (e.get("conditions") or {}).get("ready")]


def _zones_of(endpoint: Obj) -> list[str]:
    return [zone["name"] for zone in (endpoint.get("hints") or {}).get("forZones") or ()]


def _bare(endpoint: Obj) -> Obj:
    return {k: v for k, v in endpoint.items() if k != "hints"}


def without_hints(endpoints: list[Obj]) -> list[Obj]:
    """The endpoints without hints; the same list if none has a hint."""
    return [*map(_bare, endpoints)] if any("hints" in endpoint for endpoint in endpoints) else endpoints


def plain(piece: Obj) -> Obj:
    """The slice without hints; the same object if it has none."""
    endpoints = piece.get("endpoints") or []
    bare = without_hints(endpoints)
    return piece if bare is endpoints else {**piece, "endpoints": bare}


def _kept(piece: Obj, counts: Counts, allocations: Mapping[str, Allocation]) -> Counts | None:
    """The hints of a slice counted by zone, or None if the slice must be rewritten.

    A slice must be rewritten if an endpoint has no hint, if a zone is unknown, or if a zone would
    exceed its maximum.
    """
    found: Counts = {}
    for endpoint in _ready(piece):
        zones = _zones_of(endpoint)
        if not zones:
            return None
        found[zones[0]] = found.get(zones[0], 0) + 1
    for zone, number in found.items():
        known = allocations.get(zone)
        if known is None or number + counts.get(zone, 0) > known.most:
            return None
    return found


class Hinted(NamedTuple):
    """Slices to write, with their hints.

    written: the slices that had other changes, in the given order
    more: further slices that are written only because their hints change
    counts: zone -> number of endpoints; empty if hints are removed
    """

    written: list[Obj]
    more: list[Obj]
    counts: Counts


def unhinted(written: Sequence[Obj], unchanged: Sequence[Obj]) -> Hinted:
    """Remove the hints of all slices."""
    more = [bare for piece in unchanged if (bare := plain(piece)) is not piece]
    return Hinted([plain(piece) for piece in written], more, {})


def hinted(written: Sequence[Obj], unchanged: Sequence[Obj], shares: Shares) -> Hinted:
    """Give each ready endpoint a hint for its own zone, moving surplus endpoints to zones that lack
    some.
    """
    number = sum(len(_ready(piece)) for piece in (*written, *unchanged))
    allocations = allocations_of(shares, number)
    if not allocations:
        return unhinted(written, unchanged)
    counts: Counts = {}
    more: list[Obj] = []
    for piece in unchanged:
        kept = _kept(piece, counts, allocations)
        if kept is None:
            more.append(piece)
        else:
            counts = {zone: counts.get(zone, 0) + kept.get(zone, 0) for zone in {**counts, **kept}}
    own = [e.get("zone") for piece in (*written, *more) for e in _ready(piece)]
    for zone in own:
        if not zone:
            return unhinted(written, unchanged)
        counts[zone] = counts.get(zone, 0) + 1
    giving, receiving = _epoch(allocations, counts)
    made = [_with_hints(piece, giving, receiving, counts) for piece in (*written, *more)]
    return Hinted(made[: len(written)], made[len(written) :], counts)


def _epoch(allocations: Mapping[str, Allocation], counts: Mapping[str, int]) -> tuple[Counts, Counts]:
    """(zone -> endpoints to give away, zone -> endpoints to receive), largest gap first."""
    gaps = {zone: counts.get(zone, 0) - each.desired for zone, each in allocations.items()}
    give = {zone: gap for zone, gap in gaps.items() if gap > 0}
    want = {zone: -gap for zone, gap in gaps.items() if gap < 0}
    giving: Counts = {}
    receiving: Counts = {}
    while give and want:
        giver, taker = max(give, key=give.__getitem__), max(want, key=want.__getitem__)
        if min(give[giver], want[taker]) < 0.5 or max(give[giver], want[taker]) < 1:
            break
        for zone, gap, moved in ((giver, give, giving), (taker, want, receiving)):
            gap[zone] -= 1
            moved[zone] = moved.get(zone, 0) + 1
    return giving, receiving


def _with_hints(piece: Obj, giving: Counts, receiving: Counts, counts: Counts) -> Obj:
    """The slice with a hint on each ready endpoint; decrements the moves that it uses, updates
    `counts`.
    """
    endpoints = []
    for endpoint in piece.get("endpoints") or ():
        bare = _bare(endpoint)
        if (endpoint.get("conditions") or {}).get("ready"):
            zone = own = endpoint["zone"]
            if giving.get(own):
                taker = next((other for other in sorted(receiving) if receiving[other]), None)
                if taker is not None:
                    zone = taker
                    giving[own] -= 1
                    receiving[taker] -= 1
                    counts[own] -= 1
                    counts[taker] = counts.get(taker, 0) + 1
            bare["hints"] = {"forZones": [{"name": zone}]}
        endpoints.append(bare)
    return {**piece, "endpoints": endpoints or piece.get("endpoints")}
