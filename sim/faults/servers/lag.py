"""lag: the watch caches of API servers follow the storage late."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import END_OF, Aspect, Ledger
from sim.faults.shared.parameters import ApiServers, Strict
from sim.faults.shared.processes import settle_cache_lag
from sim.units import format_duration


class Lag(Strict):
    """The parameters of `lag`."""

    api_server: ApiServers
    by: Annotated[str, Meta(description="How much later the caches show each change.")]


@dataclass(frozen=True, slots=True)
class LagCache(Imposed):
    """The watch caches of these API servers are `by_us` late."""

    actors: tuple[str, ...]
    by_us: int
    picked: ClassVar[str] = "actors"

    def impose(self, stage: Stage, step: str) -> None:
        """The caches of each API server lag."""
        for server in self.actors:
            stage.faults.impose(step, server, "lag", self.by_us)


def _check(context: Context, given: Lag) -> LagCache:
    return LagCache(context.servers(given.api_server), context.positive(given.by, "by"))


def _settle(ledger: Ledger, name: str) -> None:
    lags = ledger.values(name, "lag")
    with ledger.noted(name, "lag", bool(lags), f"by {format_duration(sum(lags))}" if lags else ""):
        settle_cache_lag(ledger, name)


FAULT = Fault(
    name="lag",
    parameters=Lag,
    check=_check,
    ends=Ends.LATER,
    documentation="""
The watch caches of API servers show each change later than usual.""",
    example="""
- {at: 10m, lag: {apiServer: apiserver-1, by: 5s}, for: 1m}""",
    drawn="""
- {lag: {apiServer: apiserver}, for: 5s..5m, weight: 2, values: {lag.apiServer: servers, lag.by: [50ms, 500ms, 5s, 30s]}}""",
    aspects=(Aspect("lag", _settle, silences=False),),
    happens={"lag": "its watch caches lag", f"{END_OF}lag": "its watch caches no longer lag"},
)
