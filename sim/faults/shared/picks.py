"""The parameter `pick` of actions on objects: how many of them are drawn."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, UnsetType

from sim.faults.shared.context import Context
from sim.faults.shared.parameters import Pick
from sim.kernel.streams import Drawn
from sim.patterns import pattern

PickObjects = Annotated[
    Pick | str | UnsetType,
    Meta(
        description="How many of the objects that the selector matches are drawn at random each time: `1`, a share "
        "as `50%`, or a share between two as `0%..50%`; default all."
    ),
]
_SHARE = pattern(r"(\d{1,3})%(?:\.\.(\d{1,3})%)?")
_ALL = 100


def checked_pick(context: Context, given: int | str | UnsetType, selector: str = "given") -> str:
    """The parameter as text; "" if it is not given.  Raises InputError, also if a name is given in
    place of a selector.
    """
    if isinstance(given, UnsetType):
        return ""
    if not selector:
        raise context.error("pick", "one object by its name leaves nothing to draw", "give a selector")
    if isinstance(given, str):
        found = _SHARE.fullmatch(given)
        low, high = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not low <= high <= _ALL or not high:
            raise context.error("pick", f"{given!r} is no number and no share", "write 1, 50% or 0%..50%")
    return str(given)


def drawn(pick: str, step: str) -> Drawn | None:
    """The draw of one occurrence of a step; None if it takes all objects."""
    if not pick:
        return None
    low, _, high = pick.replace("%", "").partition("..")
    return Drawn(int(low), int(high or low), "%" in pick, f"pick/{step}")
