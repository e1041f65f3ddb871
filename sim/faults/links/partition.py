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
    one, other = sides(context, given.between)
    return Disturb(one, other, cut=True, one_way=given.one_way)


FAULT = Fault(
    name="partition",
    parameters=Partition,
    check=_check,
    ends=Ends.LATER,
    documentation="""
No message passes between two groups of hosts. One of the groups consists of API servers, because no other process answers
requests. An API server without its storage answers from its caches; everything else waits, and gets 504 after a minute.""",
    example="""
- {at: 3m, partition: {between: [zone a, apiserver], oneWay: true}, for: 1m}
- {at: 3m, partition: {between: [apiserver-0, storage]}, for: 1m}""",
    words={("cut", True): "", ("cut", 0): ""},
)
