"""overload: API servers are slow or refuse requests."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import END_OF, Aspect, Ledger
from sim.faults.shared.parameters import ApiServers, Strict
from sim.units import format_duration

_Inflight = Annotated[int, Meta(ge=0, le=100_000)]


class OverloadParameters(Strict):
    """The parameters of `overload`.  One of by and inflight is given, or both."""

    api_server: ApiServers
    by: Annotated[str | UnsetType, Meta(description="Additional time of each request.")] = UNSET
    inflight: Annotated[
        _Inflight | UnsetType,
        Meta(description="Requests of each sort (reads, writes) at a time; others are refused with 429."),
    ] = UNSET


@dataclass(frozen=True, slots=True)
class Overload(Imposed):
    """Requests take `by_us` longer; `inflight` reads and as many writes at a time."""

    actors: tuple[str, ...]
    by_us: int
    inflight: int | None
    picked: ClassVar[str] = "actors"

    def impose(self, stage: Stage, step: str) -> None:
        """Each API server becomes overloaded."""
        for server in self.actors:
            stage.faults.impose(step, server, "overload", (self.by_us, self.inflight))


def _check(context: Context, given: OverloadParameters) -> Overload:
    if given.by is UNSET and given.inflight is UNSET:
        raise context.error("", "overloads nothing", "give by or inflight")
    by_us = context.positive(given.by, "by") if isinstance(given.by, str) else 0
    inflight = given.inflight if isinstance(given.inflight, int) else None
    return Overload(context.servers(given.api_server), by_us, inflight)


def _settle(ledger: Ledger, name: str) -> None:
    """Delays add up; the lowest limit counts."""
    loads = ledger.values(name, "overload")
    limits = [inflight for _, inflight in loads if inflight is not None]
    by_us, limit = sum(by_us for by_us, _ in loads), min(limits) if limits else None
    reasons = [f"requests take {format_duration(by_us)} longer"] if by_us else []
    reasons += [] if limit is None else [f"{limit} at once"]
    with ledger.noted(name, "overload", bool(loads), ", ".join(reasons)):
        ledger.cluster.api_servers[name].overload(by_us, limit)


FAULT = Fault(
    name="overload",
    parameters=OverloadParameters,
    check=_check,
    ends=Ends.LATER,
    documentation="""
API servers take longer for each request, or serve only so many at a time and refuse the others with 429.""",
    example="""
- {at: 9m, overload: {apiServer: apiserver-0, by: 2s, inflight: 5}, for: 1m}""",
    drawn="""
- {overload: {apiServer: apiserver}, for: 5s..2m, values: {overload.apiServer: servers, overload.by: [100ms, 2s, 20s]}}""",
    aspects=(Aspect("overload", _settle, silences=False),),
    happens={"overload": "is overloaded", f"{END_OF}overload": "is overloaded no more"},
)
