"""certificate: processes get new certificates."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Fault, Stage
from sim.faults.shared.parameters import OfProcesses


class Certificate(OfProcesses):
    """The parameters of `certificate`."""

    valid_for: Annotated[str, Meta(description="How long they are valid; `0s`: their time is over.")] = (
        "8760h"
    )


@dataclass(frozen=True, slots=True)
class Certify(Action):
    """These processes have new certificates in their files."""

    actors: tuple[str, ...]
    valid_us: int
    picked: ClassVar[str] = "actors"

    def begin(self, stage: Stage, step: str) -> None:
        """Put the certificates there."""
        for actor in self.actors:
            stage.cluster.certify(stage.cluster.actor_named(actor), self.valid_us)


def _check(context: Context, given: Certificate) -> Certify:
    actors = context.actors(given.actor, "actor")
    for actor in actors:
        if actor not in context.known.certified:
            raise context.error(
                "actor",
                f"the certificate of {actor} does not end",
                "give its lifetime in cluster.certificates, or a node the option rotate-certificates",
            )
    return Certify(actors, context.duration(given.valid_for, "validFor"))


FAULT = Fault(
    name="certificate",
    parameters=Certificate,
    check=_check,
    documentation="""
New certificates come into the files of processes, as `kubeadm certs renew` does: the client certificates of node
agents, controller managers and schedulers, which these use from their next start on, and the serving certificates of API
servers, which count at once for new connections. After the end of a client certificate each request gets 401: nodes look dead,
and leaders lose their leases. Certificates end if `cluster.certificates` says when.""",
    example="""
- {at: 6m, certificate: {actor: [controller-manager, scheduler], validFor: 30m}}
- {at: 7m, certificate: {actor: controller-manager-0, validFor: 0s}}""",
)
