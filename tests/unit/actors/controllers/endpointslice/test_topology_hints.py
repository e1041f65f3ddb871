"""Shares of zones, what they allocate, and which endpoints change their zone."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.endpointslice.topology_hints import (
    allocations_of,
    hinted,
    hints_enabled,
    is_overloaded,
    plain,
    shares_of,
    unhinted,
    without_hints,
)
from sim.api.types import Obj
from sim.ident import NAMES

N = NAMES["kubernetes"]
HALVES = {"a": 0.5, "b": 0.5}


def node(zone: str, cpu: str | None = "4", ready: str = "True", *roles: str) -> Obj:
    labels = {N.label_zone: zone} if zone else {}
    labels |= {f"{N.label_node_role_prefix}{role}": "" for role in roles}
    status: Obj = {"conditions": [{"type": "Ready", "status": ready}]}
    if cpu is not None:
        status["allocatable"] = {"cpu": cpu}
    return {"metadata": {"name": "n", "labels": labels}, "status": status}


def endpoint(zone: str | None, ready: bool = True, hint: str = "") -> Obj:
    made: Obj = {"addresses": ["x"], "conditions": {"ready": ready}}
    if zone is not None:
        made["zone"] = zone
    return {**made, "hints": {"forZones": [{"name": hint}]}} if hint else made


def piece(*endpoints: Obj) -> Obj:
    return {"metadata": {"name": "s"}, "endpoints": list(endpoints)}


def of(zones: str, hints: str = "") -> Obj:
    """A slice with a ready endpoint for each letter."""
    return piece(
        *(endpoint(zone, hint=hint) for zone, hint in zip(zones, hints or [""] * len(zones), strict=True))
    )


def hints(pieces: list[Obj]) -> list[str]:
    """The hints of each slice as letters; "." for none."""
    return [
        "".join(each["hints"]["forZones"][0]["name"] if "hints" in each else "." for each in one["endpoints"])
        for one in pieces
    ]


@pytest.mark.parametrize(
    ("value", "enabled"), [("Auto", True), ("auto", True), ("AUTO", False), (None, False)]
)
def test_hints_are_enabled_by_annotation(value: str | None, enabled: bool) -> None:
    annotations = None if value is None else {N.annotation_topology_hints: value}
    assert hints_enabled({"metadata": {"annotations": annotations}}, N) is enabled


@pytest.mark.parametrize(
    ("nodes", "shares"),
    [
        ([node("a"), node("b")], HALVES),
        ([node("b", "1"), node("a", "2"), node("a", "1")], {"a": 0.75, "b": 0.25}),
        ([node("a"), node("b"), node("c", "4", "False")], HALVES),
        ([node("a"), node("b"), node("c", "4", "True", "control-plane")], HALVES),
        ([node("a"), node("b"), node("c", "4", "True", "master")], HALVES),
        ([node("a"), node("b"), node("c", "4", "True", "worker")], {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}),
        ([node("a"), node("b"), node("", "4", "False")], HALVES),
        ([node("a"), node("b"), node("")], {}),
        ([node("a"), node("b"), node("a", None)], {}),
        ([node("a")], {}),
        ([], {}),
    ],
)
def test_shares_are_of_the_cpu_of_ready_nodes(nodes: list[Obj], shares: dict[str, float]) -> None:
    assert shares_of(nodes, N) == shares
    assert list(shares_of(nodes, N)) == sorted(shares)


@pytest.mark.parametrize(
    ("shares", "count", "wanted"),
    [
        ({}, 5, {}),
        (HALVES, 1, {}),
        (HALVES, 2, {"a": (1, 1, 1.0), "b": (1, 1, 1.0)}),
        (HALVES, 3, {}),
        (HALVES, 4, {"a": (2, 2, 2.0), "b": (2, 2, 2.0)}),
        (HALVES, 12, {"a": (5, 7, 6.0), "b": (5, 7, 6.0)}),
        ({"a": 0.9, "b": 0.1}, 5, {"a": (4, 4, 4.5), "b": (1, 1, 1.0)}),
    ],
)
def test_a_zone_gets_its_share_rounded_up_and_the_room_that_is_left(
    shares: dict[str, float], count: int, wanted: Any
) -> None:
    assert allocations_of(shares, count) == wanted


@pytest.mark.parametrize(
    ("counts", "shares", "overloaded"),
    [
        ({}, HALVES, False),
        ({}, {}, False),
        ({"a": 6, "b": 6}, {}, True),
        ({"a": 6, "b": 6}, HALVES, False),
        ({"a": 7, "b": 5}, HALVES, False),
        ({"a": 8, "b": 4}, HALVES, True),
        ({"a": 6}, HALVES, True),
        ({"a": 6, "b": 6, "c": 1}, HALVES, False),
    ],
)
def test_a_zone_with_less_than_its_minimum_is_overloaded(
    counts: dict[str, int], shares: dict[str, float], overloaded: bool
) -> None:
    assert is_overloaded(counts, shares) is overloaded


def test_hints_are_taken_away() -> None:
    bare = [endpoint("a")]
    assert without_hints(bare) is bare
    assert without_hints([*bare, endpoint("b", hint="a")]) == [endpoint("a"), endpoint("b")]
    same = piece(*bare)
    assert plain(same) is same
    assert plain({"endpoints": None}) == {"endpoints": None}
    assert plain(of("ab", "ab")) == of("ab")
    found = unhinted([of("a", "a")], [of("a"), of("b", "b")])
    assert (found.written, found.more, found.counts) == ([of("a")], [of("b")], {})


@pytest.mark.parametrize(
    ("written", "unchanged", "shares", "wanted", "more", "counts"),
    [
        (["ab"], [], HALVES, ["ab"], [], {"a": 1, "b": 1}),
        (["aabb"], [], HALVES, ["aabb"], [], {"a": 2, "b": 2}),
        (["aaab"], [], HALVES, ["baab"], [], {"a": 2, "b": 2}),
        (["aa", "ab"], [], HALVES, ["ba", "ab"], [], {"a": 2, "b": 2}),
        # an unchanged slice with hints stays while no zone has too many
        (["ab"], [("ab", "ab")], HALVES, ["ab"], [], {"a": 2, "b": 2}),
        (["ab"], [("ab", "")], HALVES, ["ab"], ["ab"], {"a": 2, "b": 2}),
        (["b"], [("aaa", "aaa")], HALVES, ["b"], ["baa"], {"a": 2, "b": 2}),
        (["b"], [("aaa", "aab")], HALVES, ["b"], [], {"a": 2, "b": 2}),
        (["bb"], [("aa", "ac")], HALVES, ["bb"], ["aa"], {"a": 2, "b": 2}),
        # there are no hints with too few endpoints, or without shares
        (["a"], [("b", "b")], {}, ["."], ["."], {}),
        (["aab"], [], HALVES, ["..."], [], {}),
        # half of an endpoint moves into a gap of one, and less does not: 0.52, 0.4
        (["aaaaaaab"], [], {"a": 0.81, "b": 0.19}, ["baaaaaab"], [], {"a": 6, "b": 2}),
        (["aaaaaaab"], [], {"a": 0.825, "b": 0.175}, ["aaaaaaab"], [], {"a": 7, "b": 1}),
    ],
)
def test_endpoints_move_from_the_largest_surplus_to_the_largest_gap(
    written: list[str], unchanged: list[Any], shares: Any, wanted: list[str], more: list[str], counts: Any
) -> None:
    found = hinted([of(zones) for zones in written], [of(*each) for each in unchanged], shares)
    assert (hints(found.written), hints(found.more), found.counts) == (wanted, more, counts)


def test_only_ready_endpoints_get_hints_and_all_need_a_zone() -> None:
    found = hinted([piece(endpoint("a"), endpoint("a", ready=False), endpoint("b"))], [], HALVES)
    assert hints(found.written) == ["a.b"]
    unplaced = hinted([piece(endpoint("a"), endpoint(None))], [of("ab", "ab")], HALVES)
    assert (hints(unplaced.written), hints(unplaced.more), unplaced.counts) == ([".."], [".."], {})
    empty = hinted([of("ab"), {"metadata": {}, "endpoints": None}], [], HALVES)
    assert empty.written[1]["endpoints"] is None
