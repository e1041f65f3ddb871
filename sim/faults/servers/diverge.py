"""diverge: the watch caches of API servers are frozen."""

from __future__ import annotations

from typing import ClassVar

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import END_OF, Aspect, Ledger
from sim.faults.shared.parameters import ApiServers, Strict


class Diverge(Strict):
    """The parameters of `diverge`."""

    api_server: ApiServers


@dataclass(frozen=True, slots=True)
class FreezeCache(Imposed):
    """The watch caches of these API servers are frozen."""

    actors: tuple[str, ...]
    picked: ClassVar[str] = "actors"

    def impose(self, stage: Stage, step: str) -> None:
        """The caches of each API server freeze."""
        for server in self.actors:
            stage.faults.impose(step, server, "frozen")


def _check(context: Context, given: Diverge) -> FreezeCache:
    return FreezeCache(context.servers(given.api_server))


def _settle(ledger: Ledger, name: str) -> None:
    frozen = bool(ledger.values(name, "frozen"))
    with ledger.noted(name, "frozen", frozen):
        ledger.cluster.api_servers[name].trail.freeze(frozen)


FAULT = Fault(
    name="diverge",
    parameters=Diverge,
    check=_check,
    ends=Ends.LATER,
    documentation="""
The watch caches of API servers stop following the storage, so that replicas show different states.""",
    example="""
- {at: 10m, diverge: {apiServer: apiserver-1}, for: 1m}""",
    drawn="""
- {diverge: {apiServer: apiserver}, for: 5s..5m, values: {diverge.apiServer: servers}}""",
    aspects=(Aspect("frozen", _settle, silences=True),),
    happens={
        "frozen": "its watch caches are frozen",
        f"{END_OF}frozen": "its watch caches follow the storage again",
    },
)
