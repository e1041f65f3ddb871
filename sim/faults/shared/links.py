"""Faults of the network between two groups of hosts, and the check that requests go between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Stage, Undo
from sim.faults.shared.parameters import OneOrMore
from sim.kernel import Rule

SERVERS = "apiserver-"  # the beginning of the names of API servers
Between = Annotated[
    list[OneOrMore],
    Meta(min_length=2, max_length=2, description="The two groups of hosts, `[one, other]`."),
]
OneWay = Annotated[bool, Meta(description="True: only from the first group to the second.")]


@dataclass(frozen=True, slots=True)
class Disturb(Action):
    """A network rule between two groups of hosts, which is no entry of the ledger."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    cut: bool
    one_way: bool
    latency_us: tuple[int, int] | None = None
    loss: float = 0.0
    duplication: float = 0.0

    def begin(self, stage: Stage, step: str) -> Undo:
        """Put the rule into force; the result removes it."""
        low, high = self.latency_us or (None, None)
        name = f"step {step}"  # the cluster has rules of its own
        network = stage.cluster.kernel.network
        network.impose(
            Rule(
                name,
                frozenset(self.sources),
                frozenset(self.targets),
                cut=self.cut,
                low_us=low,
                high_us=high,
                loss=self.loss or None,
                duplication=self.duplication or None,
                both_ways=not self.one_way,
            )
        )
        return lambda: network.lift(name)


def sides(
    context: Context, between: Sequence[OneOrMore], *, of_users: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hosts of both groups.  Raises InputError if no message goes between them.

    of_users: True if requests of users between nodes are messages too
    """
    one, other = (context.actors(group, "between", hosts=True) for group in between)
    if one == other and len(one) == 1:
        raise context.error("between", f"there is no network between {one[0]} and itself")
    for side, across in ((one, other), (other, one)):
        strange = [host for host in across if "storage" in side and not host.startswith(SERVERS)]
        if strange or ("storage" in side and len(side) > 1):
            host = strange[0] if strange else next(host for host in side if host != "storage")
            raise context.error(
                "between",
                f"only API servers reach the storage, {host} does not",
                "give between: [apiserver-0, storage], and the rest in a step of its own",
            )
    if not sends_requests(one, other) and not sends_requests(other, one):
        nodes = {node.name for node in context.known.nodes} if of_users and context.known.proxied else set()
        if "storage" not in (*one, *other) and not nodes.issuperset((*one, *other)):
            raise context.error(
                "between",
                f"no request goes between {one[0]} and {other[0]}: every process sends requests to API servers only",
                "name API servers on one side, as in between: [zone a, apiserver]",
            )
    return one, other


def sends_requests(sources: Sequence[str], targets: Sequence[str]) -> bool:
    """True if requests go from the first hosts to the second."""
    clients = [host for host in sources if host != "storage" and not host.startswith(SERVERS)]
    return bool(clients) and any(host.startswith(SERVERS) for host in targets)
