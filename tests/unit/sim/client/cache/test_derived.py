"""What is worked out once for each state of an object: the same as if it were worked out each time."""

from __future__ import annotations

from random import Random
from typing import cast

from sim.api.store import Item
from sim.api.types import Obj
from sim.client import Informer
from sim.client.cache.derived import Digests


class Shelf:
    """Stands for an informer with one index: items by the value of their objects."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}

    def items_by_index(self, name: str, value: str) -> list[Item]:
        return [item for item in self.items.values() if item.obj["shelf"] == value]


def test_digests_are_those_of_the_objects_there_are_and_made_once_each() -> None:
    draw, shelf, made = Random(1), Shelf(), list[Obj]()

    def make(obj: Obj) -> int:
        made.append(obj)
        return int(obj["number"])

    digests = Digests(cast(Informer, shelf), "shelf", make)
    for number in range(500):
        key = f"k{draw.randrange(8)}"
        if draw.random() < 0.3:
            shelf.items.pop(key, None)
        else:
            shelf.items[key] = Item(key, {"shelf": draw.choice("ab"), "number": number}, number, 0)
        if draw.random() < 0.5:
            for value in "ab":
                wanted = [item.obj["number"] for item in shelf.items_by_index("", value)]
                assert sorted(digests.of(value)) == sorted(wanted)
    assert len(made) == len({id(obj) for obj in made})
