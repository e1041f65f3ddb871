"""pressure: nodes run short of memory, disk space, inodes or process numbers."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import Aspect, Ledger
from sim.faults.shared.parameters import Amount, NodesField, Strict
from sim.options.base import raw_option
from sim.units import quantity_value


class Pressure(Strict):
    """The parameters of `pressure`."""

    nodes: NodesField
    resource: Annotated[
        Literal["memory", "nodefs", "imagefs", "nodefs-inodes", "imagefs-inodes", "pid"],
        Meta(description="The resource."),
    ]
    available: Annotated[Amount, Meta(description="The amount that stays available.")]
    ramp: Annotated[
        str, Meta(description="The time in which the available amount falls to it, in a straight line.")
    ] = "0s"


@dataclass(frozen=True, slots=True)
class PressNodes(Imposed):
    """Only `available` of the resource stays, in a straight line over `ramp_us`."""

    nodes: tuple[str, ...]
    resource: str
    available: int
    ramp_us: int
    picked: ClassVar[str] = "nodes"

    def impose(self, stage: Stage, step: str) -> None:
        """The shortage begins on each node."""
        for name in self.nodes:
            node = stage.cluster.nodes[name]
            use = node.pressure(self.resource, self.available, self.ramp_us)
            stage.faults.impose(step, f"{name}/{node.shared_resource(self.resource)}", "pressure", use)


def _check(context: Context, given: Pressure) -> PressNodes:
    available = context.bytes(given.available, "available")
    nodes = context.nodes(given.nodes)
    if given.resource == "memory":
        for node in context.known.nodes:
            whole = node.capacity.get("memory", "")
            if node.name in nodes and whole and available >= quantity_value(whole):
                raise context.error("available", f"{node.name} has {whole}: {given.available} is no shortage")
    if given.resource == "pid":  # the agent's default flags do not watch process numbers
        for node in context.known.nodes:
            flags = [str(raw_option(node.flags, flag) or "") for flag in ("eviction-hard", "eviction-soft")]
            if node.name in nodes and "pid.available" not in "".join(flags):
                remedy = "name pid.available among its flags, in eviction-hard"
                raise context.error("resource", f"nothing watches the process numbers of {node.name}", remedy)
    return PressNodes(nodes, given.resource, available, context.duration(given.ramp, "ramp"))


def _settle(ledger: Ledger, target: str) -> None:
    """Each value is the use that its fault began; the largest counts at each time."""
    name, _, resource = target.partition("/")
    uses = ledger.values(target, "pressure")
    if uses:
        ledger.cluster.nodes[name].press(resource, uses)
    else:
        ledger.cluster.nodes[name].end_pressure(resource)


def _attribute(ledger: Ledger, target: str, record: int) -> None:
    name, _, resource = target.partition("/")
    ledger.cluster.nodes[name].machine.note_fault(resource, record)


FAULT = Fault(
    name="pressure",
    parameters=Pressure,
    check=_check,
    ends=Ends.LATER,
    documentation="""
Something beside the pods uses a resource of the nodes, so that only the given amount stays available. `pid` needs a flag
`eviction-hard` of the nodes that names `pid.available`.""",
    example="""
- {at: 1m, pressure: {nodes: {zone: a}, resource: memory, available: 80Mi, ramp: 30s}, for: 5m}""",
    drawn="""
- {pressure: {nodes: {pick: 1}, available: 50Mi}, for: 30s..5m, values: {pressure.resource: [memory, disk]}}""",
    aspects=(Aspect("pressure", _settle, attribute=_attribute),),
    words={("ramp_us", 0): ""},
    amounts=("available",),
)
