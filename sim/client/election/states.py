"""The states of a candidate, and the values that exist while it is in them: a round of renewals, a
try, a pause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import Enum
from typing import Any

from sim.api.schema.typed_objects import LeaseSpec
from sim.api.store import Item
from sim.api.types import Obj
from sim.client.election.record import Observed
from sim.dataclass import dataclass
from sim.kernel import Timer
from sim.transitions import Transitions

Then = Callable[[Any], None]
OnTried = Callable[[bool], None]


class ElectionState(Enum):
    """The states of a candidate.

    HOLDING: this candidate leads, and waits for its next round or for the reply of a renewal
    RETRYING: it leads, and waits after a failed try of the present round
    STEPPING_DOWN: it no longer leads, and ends its work
    """

    NEW = "new"
    ACQUIRING = "acquiring"
    WAITING = "waiting"
    HOLDING = "holding"
    RENEWING = "renewing"
    RETRYING = "retrying"
    STEPPING_DOWN = "stepping_down"
    RELEASING = "releasing"
    ENDED = "ended"


NEW, ACQUIRING, WAITING, HOLDING, RENEWING, RETRYING, STEPPING_DOWN, RELEASING, ENDED = ElectionState
TRANSITIONS = Transitions(
    NEW,
    {
        NEW: {ACQUIRING: "the process starts", ENDED: "the candidate is stopped before"},
        ACQUIRING: {HOLDING: "its write is accepted", WAITING: "the try has failed"},
        WAITING: {ACQUIRING: "the jittered retry period is over", ENDED: "the candidate is stopped"},
        HOLDING: {
            RENEWING: "its work begins, the retry period is over, or the reply of a renewal is awaited",
            RETRYING: "the read of a renewal has failed after its reply was planned",
            STEPPING_DOWN: "the candidate is stopped",
        },
        RENEWING: {
            HOLDING: "the renewal is accepted",
            RETRYING: "the try has failed",
            STEPPING_DOWN: "the renew deadline is over",
        },
        RETRYING: {
            RENEWING: "the next tick of the retry period",
            STEPPING_DOWN: "the renew deadline is over, or the candidate is stopped",
        },
        STEPPING_DOWN: {
            RELEASING: "the lease is to be released, and is held",
            ENDED: "there is nothing to release",
        },
        RELEASING: {ENDED: "the release is answered"},
        ENDED: {},
    },
)


@dataclass(slots=True)
class LeaseState:
    """The lease as last read, and the record that a write sends.

    item: the stored revision at the last read
    lease: its object; None if the last read failed
    written, written_us: the record of the write under way, and the time that it holds
    """

    item: Item | None = None
    lease: Obj | None = None
    written: LeaseSpec = field(default_factory=LeaseSpec)
    written_us: int = 0


@dataclass(frozen=True, slots=True)
class PlannedRenewal:
    """A renewal that is acknowledged and not awaited, until its reply is due.

    observed: the record that its read makes this candidate observe
    replaced: the state that a read without an answer leaves
    """

    observed: Observed
    replaced: LeaseState


@dataclass(slots=True)
class Round:
    """One round of renewals.

    ends_us: when it fails
    ticking_us: the start of its retry ticker: the end of its first try; -1 before
    guarded: True once a timeout is set for its end
    """

    ends_us: int
    ticking_us: int = -1
    guarded: bool = False


@dataclass(slots=True)
class Attempt:
    """One try to read the record and to write it.

    tried: called with its success at its end
    begun_us, wall_us: when it began, by the two clocks of the process
    ends_us: when it is given up
    round: the round that it belongs to; None before this candidate leads, and for a release
    reads: True while its request is a read
    abandoned: True if replies to its requests are ignored
    """

    tried: OnTried
    begun_us: int
    wall_us: int
    ends_us: int
    round: Round | None = None
    reads: bool = False
    abandoned: bool = False


@dataclass(slots=True)
class Pause:
    """A wait for the next try.  then: what follows it"""

    then: Then
    timer: Timer | None = None
