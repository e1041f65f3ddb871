"""storage: the storage is paused, slow, or has lost its quorum."""

from __future__ import annotations

from typing import Annotated, Literal, assert_never

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.context import Context, delay_of
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import END_OF, Aspect, Ledger
from sim.faults.shared.parameters import Strict
from sim.units import format_duration

STORAGE = "storage"
Mode = Literal["pause", "lost-quorum", "slow"]


class Storage(Strict):
    """The parameters of `storage`."""

    how: Annotated[Mode, Meta(description="How the storage fails.")]
    by: Annotated[
        str | UnsetType, Meta(description="With `slow`: the additional time of each operation.")
    ] = UNSET


@dataclass(frozen=True, slots=True)
class StorageFault(Imposed):
    """The storage fails."""

    how: Mode
    by_us: int

    def impose(self, stage: Stage, step: str) -> None:
        """The storage fails."""
        match self.how:
            case "pause":
                stage.faults.impose(step, STORAGE, "pause")
            case "lost-quorum":
                stage.faults.impose(step, STORAGE, "quorum")
            case "slow":
                stage.faults.impose(step, STORAGE, "disk", self.by_us)
            case _:
                assert_never(self.how)


def _check(context: Context, given: Storage) -> StorageFault:
    return StorageFault(given.how, delay_of(context, given.how, given.by, "slow"))


def _settle_quorum(ledger: Ledger, name: str) -> None:
    lost = bool(ledger.values(name, "quorum"))
    with ledger.noted(name, "lost-quorum", lost):
        ledger.cluster.storage.set_quorum(not lost)


def _settle_disk(ledger: Ledger, name: str) -> None:
    delays = ledger.values(name, "disk")
    reason = f"by {format_duration(sum(delays))}" if delays else ""
    with ledger.noted(name, "slow-disk", bool(delays), reason):
        ledger.cluster.storage.extra_us = sum(delays)


FAULT = Fault(
    name="storage",
    parameters=Storage,
    check=_check,
    ends=Ends.LATER,
    documentation="""
The storage is paused, or each of its operations takes longer, or it has lost its quorum: writes wait 7 s and fail, reads of
the storage wait, watches of it end after 34 s, and API servers answer from their caches until then.""",
    example="""
- {at: 6m, storage: {how: slow, by: 300ms}, for: 1m}
- {at: 8m, storage: {how: lost-quorum}, for: 20s}""",
    aspects=(
        Aspect("quorum", _settle_quorum, silences=True),
        Aspect("disk", _settle_disk, silences=False),
    ),
    happens={
        "lost-quorum": "has no quorum",
        f"{END_OF}lost-quorum": "has a quorum again",
        "slow-disk": "its disk becomes slow",
        f"{END_OF}slow-disk": "its disk is slow no more",
    },
)
