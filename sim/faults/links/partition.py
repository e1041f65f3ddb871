"""partition: no message passes between two groups of hosts."""

from __future__ import annotations

from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault
from sim.faults.shared.links import Between, Disturb, OneWay, sides
from sim.faults.shared.parameters import Strict


class Partition(Strict):
    """The parameters of `partition`."""

    between: Between
    one_way: OneWay = False


def _check(context: Context, given: Partition) -> Disturb:
    one, other = sides(context, given.between, of_users=True)
    return Disturb(one, other, cut=True, one_way=given.one_way)


FAULT = Fault(
    name="partition",
    parameters=Partition,
    check=_check,
    ends=Ends.LATER,
    documentation="""
No message passes between two groups of hosts. One of the groups consists of API servers, because no other process answers
requests; with `cluster.kubeProxy` both may be nodes, between which requests of users are lost. An API server without its storage answers from its caches; everything else waits, and gets 504 after a minute.""",
    example="""
- {at: 3m, partition: {between: [zone a, apiserver], oneWay: true}, for: 1m}
- {at: 3m, partition: {between: [apiserver-0, storage]}, for: 1m}""",
    drawn="""
- {partition: {}, for: 5s..5m, weight: 2, values: {partition.between: [[controller-manager, apiserver], [scheduler, apiserver], [nodes, apiserver]], partition.oneWay: [false, true]}}
- {partition: {between: [nodes, apiserver]}, for: 5s..5m, values: {"partition.between[0]": ["zone {zones}", "{nodes}"], "partition.between[1]": servers}}
- {partition: {between: [apiserver, storage]}, for: 2s..1m, values: {"partition.between[0]": servers}}""",
    words={("cut", True): "", ("cut", 0): ""},
)
