"""Kept bytes: how many there are, and which are dropped."""

from __future__ import annotations

from sim.api.store import Item
from sim.units import Revision
from sim.wire.http.forms.kept import KeptBytes


def item(name: str) -> Item:
    return Item(f"//pods/a/{name}", {}, Revision(1), Revision(1))


def test_bytes_of_all_objects_are_bounded_and_the_oldest_are_dropped() -> None:
    kept, items = KeptBytes(100), [item(str(number)) for number in range(5)]
    for each in items:
        assert kept.keep(each, "bare", b"x" * 30) == b"x" * 30
    assert [each.raw for each in items] == [{}, {}, *[{"bare": b"x" * 30}] * 3]
    assert kept.size == 90
    kept.keep(items[4], "message", b"y" * 40)
    assert [each.raw for each in items[2:]] == [
        {},
        {"bare": b"x" * 30},
        {"bare": b"x" * 30, "message": b"y" * 40},
    ]
    assert kept.size == 100


def test_more_than_the_bound_is_not_kept() -> None:
    kept, one = KeptBytes(10), item("a")
    assert kept.keep(one, "bare", b"x" * 11) == b"x" * 11
    assert (one.raw, kept.size) == ({}, 0)


def test_bytes_that_are_made_again_count_once() -> None:
    kept, one = KeptBytes(100), item("a")
    one.raw = {}
    kept.keep(one, "bare", b"x" * 60)
    kept.keep(item("b"), "bare", b"x" * 60)
    kept.keep(one, "bare", b"x" * 40)
    assert (one.raw, kept.size) == ({"bare": b"x" * 40}, 100)
