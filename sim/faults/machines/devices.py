"""devices: devices of nodes become unhealthy, or their plug-in ends."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import Aspect, Ledger
from sim.faults.shared.parameters import NodesField, Strict


class Devices(Strict):
    """The parameters of `devices`."""

    nodes: NodesField
    resource: Annotated[str, Meta(description="The extended resource of the devices.")]
    ids: Annotated[list[str] | UnsetType, Meta(description="Their ids; default all.")] = UNSET
    how: Annotated[
        Literal["unhealthy", "disconnected"],
        Meta(description="`disconnected`: the plug-in itself ends, with all of its devices."),
    ] = "unhealthy"


@dataclass(frozen=True, slots=True)
class BreakDevices(Imposed):
    """Devices of a plug-in are not healthy, or it ends.  ids: of each node; how: see `Devices`"""

    nodes: tuple[str, ...]
    resource: str
    ids: tuple[str, ...]
    how: str = "unhealthy"
    picked: ClassVar[str] = "nodes"

    def impose(self, stage: Stage, step: str) -> None:
        """The plug-in of each node reports it."""
        for name in self.nodes:
            if self.how == "disconnected":
                stage.faults.impose(step, f"{name}/{self.resource}", "plug-in", self.how)
            else:
                stage.faults.impose(step, f"{name}/{self.resource}", "devices", self.ids)


def _check(context: Context, given: Devices) -> BreakDevices:
    nodes = context.nodes(given.nodes)
    held: dict[str, None] = {}
    for node in context.known.nodes:
        if node.name in nodes:
            own = [each for one in node.devices if one.resource == given.resource for each in one.ids]
            if not own:
                raise context.error("resource", f"{node.name} has no devices {given.resource}")
            held |= dict.fromkeys(own)
    wanted = [*held] if given.ids is UNSET else given.ids
    for each in wanted:
        if each not in held:
            raise context.error("ids", f"there is no device {each!r}", f"there are: {', '.join(held)}")
    if given.how == "disconnected" and given.ids is not UNSET:
        raise context.error("ids", "a plug-in ends with all of its devices", "omit ids")
    return BreakDevices(nodes, given.resource, tuple(wanted), given.how)


def _settle(ledger: Ledger, target: str) -> None:
    name, _, resource = target.partition("/")
    broken = [each for ids in ledger.values(target, "devices") for each in ids]
    ledger.cluster.nodes[name].break_devices(resource, tuple(dict.fromkeys(broken)))


def _settle_plugin(ledger: Ledger, target: str) -> None:
    name, _, resource = target.partition("/")
    node = ledger.cluster.nodes[name]
    if not ledger.values(target, "plug-in"):
        node.start_plugin(resource)
    elif resource not in node.machine.gone_plugins:
        node.stop_plugin(resource)


FAULT = Fault(
    name="devices",
    parameters=Devices,
    check=_check,
    ends=Ends.LATER,
    documentation="""
The plug-in of a node (`devices` of its group) reports devices as unhealthy: they are no longer allocatable, and no pod
gets them. A container that has one continues. A plug-in that is disconnected leaves nothing to allocate; after 5
minutes its resource has no capacity, until it registers again.""",
    example="""
- {at: 1m, devices: {nodes: {zone: a}, resource: example.com/gpu, ids: [dev-0]}, for: 5m}
- {at: 10m, devices: {nodes: {zone: b}, resource: example.com/gpu, how: disconnected}, for: 10m}""",
    aspects=(Aspect("devices", _settle), Aspect("plug-in", _settle_plugin)),
)
