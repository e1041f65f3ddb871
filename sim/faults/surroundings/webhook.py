"""webhook: an admission webhook is down, slow, or denies everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.context import Context, delay_of
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import Aspect, AspectName, Ledger
from sim.faults.shared.parameters import Strict

# The target; the programs behind webhooks read its values from the ledger at each call.
TARGET_PREFIX = "webhook/"
DOWN: Final = "webhook-down"
SLOW: Final = "webhook-slow"
DENY: Final = "webhook-deny"
Mode = Literal["down", "slow", "deny"]
ASPECT_OF: Mapping[Mode, AspectName] = {"down": DOWN, "slow": SLOW, "deny": DENY}


class Webhook(Strict):
    """The parameters of `webhook`."""

    name: Annotated[str, Meta(description="The name of the webhook in its configuration.")]
    how: Annotated[Mode, Meta(description="How the webhook fails.")]
    by: Annotated[str | UnsetType, Meta(description="With `slow`: the additional time of each answer.")] = (
        UNSET
    )


@dataclass(frozen=True, slots=True)
class WebhookFault(Imposed):
    """name: of the webhook."""

    name: str
    how: Mode
    by_us: int

    def impose(self, stage: Stage, step: str) -> None:
        """The webhook fails."""
        aspect = ASPECT_OF[self.how]
        value = self.by_us if self.how == "slow" else True
        stage.faults.impose(step, TARGET_PREFIX + self.name, aspect, value)


def _check(context: Context, given: Webhook) -> WebhookFault:
    if not given.name:
        raise context.error("name", "no webhook has an empty name", "give the name of a webhook")
    return WebhookFault(given.name, given.how, delay_of(context, given.how, given.by, "slow"))


def _settle(ledger: Ledger, target: str) -> None:
    """Nothing to do: the programs read the ledger."""


FAULT = Fault(
    name="webhook",
    parameters=Webhook,
    check=_check,
    ends=Ends.LATER,
    documentation="""
An admission webhook refuses connections, answers late (after its `timeoutSeconds`, not at all), or
denies every request. Its `failurePolicy` decides what a failed call means. A webhook also fails
without a fault while its Service has no ready endpoint.""",
    example="""
- {at: 5m, webhook: {name: policy.example.com, how: down}, for: 2m}""",
    aspects=(Aspect(DOWN, _settle), Aspect(SLOW, _settle), Aspect(DENY, _settle)),
)
