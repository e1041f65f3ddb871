"""network: messages between two groups of hosts are late, lost or duplicated."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault
from sim.faults.shared.links import Between, Disturb, OneWay, sends_requests, sides
from sim.faults.shared.parameters import Share, Strict


class Network(Strict):
    """The parameters of `network`."""

    between: Between
    latency: Annotated[
        str | UnsetType, Meta(description="One-way delay, or a range from which each delay is drawn.")
    ] = UNSET
    loss: Annotated[Share, Meta(description="Share of the segments that are lost and sent again.")] = 0.0
    duplication: Annotated[Share, Meta(description="Share of the requests that arrive twice.")] = 0.0
    one_way: OneWay = False


def _check(context: Context, given: Network) -> Disturb:
    one, other = sides(context, given.between)
    latency = context.optional_span(given.latency if isinstance(given.latency, str) else None, "latency")
    if latency is None and not given.loss and not given.duplication:
        raise context.error("", "disturbs nothing", "give latency, loss or duplication")
    if given.duplication and not sends_requests(one, other):
        if given.one_way or not sends_requests(other, one):
            remedy = "swap the groups of 'between'" if sends_requests(other, one) else "leave it out"
            raise context.error(
                "duplication", "has no effect: only requests to API servers are carried out twice", remedy
            )
    return Disturb(one, other, False, given.one_way, latency, given.loss, given.duplication)


FAULT = Fault(
    name="network",
    parameters=Network,
    check=_check,
    ends=Ends.LATER,
    documentation="""
Messages between two groups of hosts, one of which consists of API servers, are late, lost or duplicated. A duplicated
request arrives twice, as through a proxy that sends it again; both are carried out, and the first answer counts.""",
    example="""
- {at: 3m, network: {between: [nodes, apiserver], latency: 50ms..200ms, loss: 0.01, duplication: 0.01, oneWay: false}, for: 1m}""",
    drawn="""
- {network: {between: [nodes, apiserver]}, for: 10s..5m, weight: 2, values: {"network.between[0]": [nodes, controller-manager, scheduler, "{nodes}"], network.latency: [10ms, 10ms..500ms, 2s], network.loss: [0, 0.01, 0.3], network.duplication: [0, 0.05]}}""",
    words={("loss", 0): "", ("duplication", 0): ""},
)
