"""cloud: the cloud does not answer, answers slowly, or makes no more load balancers."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.context import Context, delay_of, in_a_cloud
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import Aspect, AspectName, Ledger
from sim.faults.shared.parameters import Strict

CLOUD = "cloud"  # the target; the simulated cloud reads its values from the ledger at each request
OUTAGE: Final = "outage"
CALL: Final = "call"
QUOTA: Final = "quota"
Mode = Literal["outage", "slow", "quota"]
# What the cloud offers, as its interface in actors.controllers names it.
SERVICES = ("instances", "load-balancers", "routes")
Service = Literal["instances", "load-balancers", "routes"]


class Cloud(Strict):
    """The parameters of `cloud`."""

    how: Annotated[Mode, Meta(description="How the cloud fails.")]
    by: Annotated[str | UnsetType, Meta(description="With `slow`: the additional time of each request.")] = (
        UNSET
    )
    of: Annotated[
        list[Service] | UnsetType,
        Meta(description="With `outage` and `slow`: the services of the cloud that fail (default: all)."),
    ] = UNSET
    limit: Annotated[
        Annotated[int, Meta(ge=0)] | UnsetType,
        Meta(description="With `quota`: how many load balancers there may be."),
    ] = UNSET


@dataclass(frozen=True, slots=True)
class CloudFault(Imposed):
    """of: the services that fail, None: all"""

    how: Mode
    by_us: int
    of: tuple[str, ...] | None = None
    limit: int | None = None

    def impose(self, stage: Stage, step: str) -> None:
        """The cloud fails."""
        services = self.of or SERVICES
        values: dict[Mode, tuple[AspectName, Any]] = {
            "outage": (OUTAGE, services),
            "slow": (CALL, (services, self.by_us)),
            "quota": (QUOTA, self.limit),
        }
        stage.faults.impose(step, CLOUD, *values[self.how])


def _check(context: Context, given: Cloud) -> CloudFault:
    in_a_cloud(context, "how")
    by_us = delay_of(context, given.how, given.by, "slow")
    has_quota = given.how == "quota"
    if has_quota != isinstance(given.limit, int):
        text = "is missing" if has_quota else f"has no effect on {given.how!r}"
        raise context.error("limit", f"'limit' {text}", "it is the number of load balancers with 'quota'")
    if has_quota and isinstance(given.of, list):
        raise context.error("of", "'of' has no effect on 'quota'", "a quota is of load balancers")
    of = tuple(each for each in SERVICES if each in given.of) if isinstance(given.of, list) else None
    if of == ():
        raise context.error("of", "'of' names no service", f"the services are: {', '.join(SERVICES)}")
    return CloudFault(given.how, by_us, of, given.limit if isinstance(given.limit, int) else None)


def _settle(ledger: Ledger, target: str) -> None:
    """Nothing to do: the cloud reads the ledger."""


FAULT = Fault(
    name="cloud",
    parameters=Cloud,
    check=_check,
    ends=Ends.LATER,
    documentation="""
The cloud, or some services of it (`of`: instances, load-balancers, routes), does not answer, or takes longer
for each request; or it makes no load balancer beyond a number (`quota`). Needs `cloud-provider` (below).""",
    example="""
- {at: 8m, cloud: {how: slow, by: 2s}, for: 1m}
- {at: 9m, cloud: {how: outage, of: [load-balancers]}, for: 5m}
- {at: 9m, cloud: {how: quota, limit: 2}, for: 5m}""",
    aspects=(Aspect(OUTAGE, _settle), Aspect(CALL, _settle), Aspect(QUOTA, _settle)),
)
