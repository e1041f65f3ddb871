"""clock: the clocks of processes are wrong or drift."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import Aspect, Ledger
from sim.faults.shared.parameters import OfProcesses

# A hundredth of the normal pace: a wait that began on such a clock ends long after the clock is
# right again.
DRIFT_MIN_PPM = -990_000


class Clock(OfProcesses):
    """The parameters of `clock`."""

    offset: Annotated[str, Meta(description="How far the clock is ahead; negative: behind.")] = "0s"
    drift_ppm: Annotated[
        int,
        Meta(
            ge=DRIFT_MIN_PPM,
            le=1_000_000,
            description="How much too fast the clock is, in parts per million.",
        ),
    ] = 0


@dataclass(frozen=True, slots=True)
class SkewClock(Imposed):
    """The clocks of these processes are wrong."""

    actors: tuple[str, ...]
    offset_us: int
    drift_ppm: int
    picked: ClassVar[str] = "actors"

    def impose(self, stage: Stage, step: str) -> None:
        """Each clock becomes wrong."""
        for actor in self.actors:
            name = stage.cluster.actor_named(actor)
            stage.faults.impose(step, name, "clock", (self.offset_us, self.drift_ppm))


def _check(context: Context, given: Clock) -> SkewClock:
    text = given.offset
    offset_us = context.duration(text[1:] if text[:1] in ("+", "-") else text, "offset")
    if not offset_us and not given.drift_ppm:
        raise context.error("", "the clock stays right", "give offset or driftPpm")
    actors = context.actors(given.actor, "actor")
    return SkewClock(actors, -offset_us if text.startswith("-") else offset_us, given.drift_ppm)


def _settle(ledger: Ledger, name: str) -> None:
    """Offsets and drifts add up; the slowest clock still advances."""
    skews = ledger.values(name, "clock")
    offset_us = sum(offset_us for offset_us, _ in skews)
    drift_ppm = max(DRIFT_MIN_PPM, sum(drift_ppm for _, drift_ppm in skews))
    node = ledger.cluster.nodes.get(name)
    if node is not None:
        node.set_clock(offset_us=offset_us, drift_ppm=drift_ppm)
    else:
        clock = ledger.cluster.supervisor[name].clock
        clock.set(ledger.kernel.now_us, offset_us=offset_us, drift_ppm=drift_ppm)


FAULT = Fault(
    name="clock",
    parameters=Clock,
    check=_check,
    ends=Ends.LATER,
    documentation="""
The clocks of the processes are ahead or behind, or run too fast or too slowly.""",
    example="""
- {at: 4m, clock: {actor: node-a-0, offset: -10m, driftPpm: 500}, for: 5m}""",
    drawn="""
- {clock: {actor: apiserver}, for: 1m..10m, values: {clock.actor: ["{processes}", "{nodes}"], clock.offset: [-10m, -30s, 30s, 10m]}}
- {clock: {actor: apiserver}, for: 1m..10m, values: {clock.actor: ["{processes}", "{nodes}"], clock.driftPpm: [-200000, -500, 500, 200000]}}""",
    aspects=(Aspect("clock", _settle, silences=False, lasting=True),),
    words={("drift_ppm", 0): "", ("offset_us", 0): ""},
)
