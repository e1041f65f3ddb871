"""Delta debugging: which elements of a list a failure needs.

Mirrors  Zeller, Hildebrandt: Simplifying and isolating failure-inducing input (2002), without its
         tests of single parts, which seldom fail: nothing of a scenario fails by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sim.app.hunt.shrinking.documents import Doc, Pass

Element = TypeVar("Element")


def fewer(elements: Sequence[Element], rebuild: Callable[[Sequence[Element]], Doc]) -> Pass:
    """Leave out all elements, then halves, quarters and so on, down to single ones.

    rebuild: returns the document with some of the elements, in their order
    """
    left = list(elements)
    size = len(left)
    while left and size:
        size = min(size, len(left))
        rests = [[*left[:start], *left[start + size :]] for start in range(0, len(left), size)]
        hit = yield [rebuild(rest) for rest in rests]
        if hit is not None:
            left = rests[hit]
        else:
            size = (size + 1) // 2 if size > 1 else 0
