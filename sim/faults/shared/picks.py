"""The parameters `pick` and `among` of a step: how many of its targets are drawn, and from which."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, UnsetType

from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Stage
from sim.faults.shared.parameters import Among, Pick
from sim.kernel.draws.streams import Drawn
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


def checked_pick(
    context: Context, given: int | str | UnsetType, among: Among, selector: str = "given"
) -> str:
    """The parameters as text, "1 not-yet healthy"; "" if there is no draw.  Raises InputError, also
    if a name is given in place of a selector.
    """
    if isinstance(given, UnsetType):
        if not isinstance(among, UnsetType):
            raise context.error("among", "nothing is drawn", "give 'pick', as in pick: 1")
        return ""
    if not selector:
        raise context.error("pick", "one object by its name leaves nothing to draw", "give a selector")
    if not is_pick(given):
        raise context.error("pick", f"{given!r} is no number and no share", "write 1, 50% or 0%..50%")
    return " ".join((str(given), *ways(among)))


def is_pick(given: int | str) -> bool:
    """True if the text is a share, or a range of shares."""
    if isinstance(given, int):
        return True
    result = _SHARE.fullmatch(given)
    low, high = (int(result[1]), int(result[2] or result[1])) if result else (1, 0)
    return low <= high <= _ALL and bool(high)


def ways(among: Among) -> list[str]:
    """The values of `among`, each once."""
    entry = [] if isinstance(among, UnsetType) else [among] if isinstance(among, str) else among
    return [way for way in ("not-yet", "healthy") if way in entry]


class Spent:
    """What the draws of each step have taken so far, by the name of the step."""

    def __init__(self) -> None:
        self.by_step: dict[str, dict[str, None]] = {}


def draw_of(pick: str, stream: str = "", spent: dict[str, None] | None = None) -> Drawn:
    """The draw of a text of `checked_pick`."""
    number, *among = pick.split()
    low, _, high = number.replace("%", "").partition("..")
    not_yet = "not-yet" in among
    return Drawn(
        int(low),
        int(high or low),
        "%" in number,
        stream,
        not_yet,
        "healthy" in among,
        spent if not_yet else None,
    )


def drawn(pick: str, step: str, stage: Stage) -> Drawn | None:
    """The draw of one occurrence of a step; None if it takes all objects."""
    if not pick:
        return None
    name = step.rpartition("/")[0] or step
    return draw_of(pick, f"pick/{step}", stage.state(Spent).by_step.setdefault(name, {}))
