"""What a plan brings to a running cluster, and when: the steps of its timeline, and its objects.

Holds: a run, a lab, a served cluster and a replay take the same objects at the same instants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from actors.apiserver.builtin.client_authorities import CLIENT_CA
from sim.app.cluster import Cluster
from sim.app.possible import zones_of
from sim.kernel import unheard
from sim.scenario.plan.plan import Plan
from sim.scenario.plan.written_out import written_out
from sim.units import SECOND, Virtual
from sim.version import __version__

BEGIN = "begin"
END_CERTIFICATE = "-----END CERTIFICATE-----"
# Objects are applied this long after the last machine booted, when the nodes can be Ready.
SETTLE_US = 5 * SECOND


def applied_us(plan: Plan) -> Virtual:
    """When the objects of a plan are applied: its nodes have booted, so that pods can spread."""
    boot_us = plan.cluster.boot_us
    return Virtual(boot_us + SETTLE_US if boot_us else 0)


async def begin_as_served(cluster: Cluster, plan: Plan) -> None:
    """Begin a run as a served cluster begins: operations from outside are applied when the instant
    0 is over, with authorities from the seed in place of a server's.
    """
    await cluster.run_until(0)
    pem = cluster.signing.of("").partition(END_CERTIFICATE)[0] + END_CERTIFICATE + "\n"
    cluster.kernel.gate.post("client-authorities", {CLIENT_CA: pem}, unheard)
    cluster.kernel.gate.post("root-ca", pem, unheard)
    cluster.kernel.gate.post(BEGIN, None, unheard)


def await_beginning(cluster: Cluster, plan: Plan) -> None:
    """Let the plan of a served cluster begin by an operation of the gate, BEGIN, so that a replay
    begins it at the same position.
    """

    def handle(_: None, done: Callable[[None], None]) -> None:
        begin(cluster, plan)
        done(None)

    cluster.kernel.gate.handle(BEGIN, handle)


def begin(cluster: Cluster, plan: Plan, room: int = 0, later: Collection[str] = ()) -> None:
    """Schedule the steps and the objects of a plan on a cluster at the start of its time.

    room: of orders, for steps between these that are added later
    later: steps that are scheduled later
    """
    cluster.do.schedule(plan.steps, zones_of(plan), room, later)
    if plan.cluster.served:
        from sim.app.control.roles import control_roles  # a run of its own does not import it

        cluster.hand_in(control_roles(plan.cluster.naming))
    at_us = applied_us(plan)
    if at_us:
        cluster.kernel.call_at(at_us, lambda _: cluster.hand_in(plan.objects))
    else:
        cluster.apply(*plan.objects)


def header_of(plan: Plan, seed: int) -> dict[str, Any]:
    """The header of the trace of a run, which is not hashed; it holds the scenario, the zones of
    nodes and the places of the steps."""
    header: dict[str, Any] = {
        "scenario": plan.name,
        "seed": seed,
        "version": __version__,
        "naming": plan.cluster.naming,
    }
    if plan.document is not None:
        header["document"] = written_out(plan.document, plan)
    if plan.settings:
        header["settings"] = plan.settings
    zones: dict[str, list[str]] = {}
    for node in plan.cluster.nodes:
        if node.zone:
            zones.setdefault(node.zone, []).append(node.name)
    if zones:
        header["zones"] = zones
    if plan.steps:  # the name of a file without its folder
        header["places"] = {"step": {step.name: step.place.rpartition("/")[2] for step in plan.steps}}
    return header
