"""Indexes of informers: the keys of the objects that have a value."""

from __future__ import annotations

from typing import Any

from sim.client.cache.indexes import Index


class Counted(str):
    """A text that counts its comparisons."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()


def test_change_of_many_values_compares_each_a_few_times() -> None:
    def values(obj: Any) -> list[str]:
        return [Counted(text) for text in obj["values"]]

    many = 500
    old = {"values": [f"u{n}" for n in range(many)]}
    new = {"values": [f"u{n}" for n in range(many, 0, -1)]}
    index = Index(values)
    index.add("a", old)
    Counted.compared = 0
    index.update("a", old, new)
    assert Counted.compared < 10 * many
    assert "u0" not in index.keys
    assert index.keys[f"u{many}"] == {"a": None}
