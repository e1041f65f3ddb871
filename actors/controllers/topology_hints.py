"""Which zone each endpoint of a Service is meant for: as many for each zone as its share of the nodes' processors.  Pure.

Turns nodes into shares of zones, shares and a number of endpoints into what each zone may have, and slices into slices with
hints.

Holds: slices that are not to be written keep their hints as long as no zone has more than its most; where hints cannot be given
to all ready endpoints, none has one.

Mirrors  kubernetes v1.25 pkg/controller/endpointslice/topologycache/{topologycache.go,sliceinfo.go,utils.go}.
Differs  zones that are alike are taken by name (upstream: map order).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from sim.machinery.api import Obj
from sim.machinery.objects import is_ready
from sim.units import quantity_milli

if TYPE_CHECKING:
    from sim.ident import Names

OVERLOAD = 0.2  # topologycache.go: OverloadThreshold
# Of the processors of all nodes, by zone; empty: not known for all, or there is one zone.
Shares = Mapping[str, float]
Counts = dict[str, int]  # of endpoints with hints, by zone


class Allocation(NamedTuple):
    """How many endpoints a zone has at least and at most, and how many it should have."""

    least: int
    most: int
    desired: float


def hints_enabled(service: Obj, names: Names) -> bool:
    annotations = service["metadata"].get("annotations") or {}
    return annotations.get(names.annotation_topology_hints) in ("Auto", "auto")


def shares_of(nodes: Iterable[Obj], names: Names) -> Shares:
    """By the nodes that are ready and no control plane; one of them without zone or processors is one too many."""
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
    """What each zone may have of so many ready endpoints; empty: there are too few."""
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
    """Whether some zone has fewer endpoints than it should have at least, or shares are not known any more."""
    if not counts:
        return False
    total = sum(counts.values())
    return not shares or any(
        zone not in counts or counts[zone] < _least(total, share) for zone, share in shares.items()
    )


def _ready(piece: Obj) -> list[Obj]:
    """The endpoints of a slice that get hints."""
    return [e for e in piece.get("endpoints") or () if (e.get("conditions") or {}).get("ready")]


def _zones_of(endpoint: Obj) -> list[str]:
    return [zone["name"] for zone in (endpoint.get("hints") or {}).get("forZones") or ()]


def _bare(endpoint: Obj) -> Obj:
    return {k: v for k, v in endpoint.items() if k != "hints"}


def without_hints(endpoints: list[Obj]) -> list[Obj]:
    """The same list where there are none."""
    return [*map(_bare, endpoints)] if any("hints" in endpoint for endpoint in endpoints) else endpoints


def plain(piece: Obj) -> Obj:
    """The same slice where it has no hints."""
    endpoints = piece.get("endpoints") or []
    bare = without_hints(endpoints)
    return piece if bare is endpoints else {**piece, "endpoints": bare}


def _kept(piece: Obj, counts: Counts, allocations: Mapping[str, Allocation]) -> Counts | None:
    """How many endpoints of a slice are for each zone, if it may stay as it is."""
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
    """Slices to write with their hints: those that were to be written anyway, in their order, and more of the others.

    counts: how many endpoints are for each zone; empty: there are no hints
    """

    written: list[Obj]
    more: list[Obj]
    counts: Counts


def unhinted(written: Sequence[Obj], unchanged: Sequence[Obj]) -> Hinted:
    """None has a hint."""
    more = [bare for piece in unchanged if (bare := plain(piece)) is not piece]
    return Hinted([plain(piece) for piece in written], more, {})


def hinted(written: Sequence[Obj], unchanged: Sequence[Obj], shares: Shares) -> Hinted:
    """Each ready endpoint is for its own zone, unless that has too many and another too few."""
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
    giving, receiving = _moves(allocations, counts)
    made = [_with_hints(piece, giving, receiving, counts) for piece in (*written, *more)]
    return Hinted(made[: len(written)], made[len(written) :], counts)


def _moves(allocations: Mapping[str, Allocation], counts: Mapping[str, int]) -> tuple[Counts, Counts]:
    """How many endpoints each zone gives to others, and receives: the zone with the largest gap first."""
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
    """A slice whose ready endpoints have hints; what is given away is counted."""
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
