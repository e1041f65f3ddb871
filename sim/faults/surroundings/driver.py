"""driver: a storage driver is slow, fails, does not return from calls, or does not run."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.errors import suggestion
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import Aspect, Ledger
from sim.faults.shared.parameters import Nodes, Strict
from sim.options.storage_drivers import FAILED, DriverFault, Operation, driver_process

TARGET_PREFIX = "driver/"
DRIVER: Final = "driver"  # the aspect; its values are of class DriverFault
Factor = Annotated[float, Meta(gt=1, le=1_000_000)]
_AT_NO_NODE = ("provision", "delete", "expand")


class Driver(Strict):
    """The parameters of `driver`."""

    name: Annotated[str, Meta(description="The driver, as in `cluster.storage`.")]
    how: Annotated[Literal["slow", "failing", "hanging", "away"], Meta(description="How the driver fails.")]
    operation: Annotated[
        Operation | list[Operation] | UnsetType,
        Meta(description="The operations that fail, one or a list; all without it."),
    ] = UNSET
    nodes: Annotated[
        Nodes | UnsetType, Meta(description="The nodes at which it fails; everywhere without it.")
    ] = UNSET
    by: Annotated[
        str | UnsetType, Meta(description="With `slow`: the additional time of each operation.")
    ] = UNSET
    factor: Annotated[
        Factor | UnsetType, Meta(description="With `slow`: what the time is multiplied by.")
    ] = UNSET
    message: Annotated[
        str | UnsetType, Meta(description="With `failing`: the error that the driver returns.")
    ] = UNSET


@dataclass(frozen=True, slots=True)
class DriverFails(Imposed):
    """The fault of one driver, at these nodes; () for everywhere."""

    name: str
    how: Literal["slow", "failing", "hanging", "away"]
    operations: tuple[Operation, ...] = ()
    nodes: tuple[str, ...] = ()
    by_us: int = 0
    factor: float = 1
    text: str = ""
    picked: ClassVar[str] = "nodes"

    def impose(self, stage: Stage, step: str) -> None:
        """The driver fails."""
        fault = DriverFault(
            self.how, self.operations, self.nodes, self.by_us, self.factor, self.text or FAILED
        )
        stage.faults.impose(step, TARGET_PREFIX + self.name, DRIVER, fault)
        if self.how == "away" and not self.nodes:
            stage.faults.impose(step, driver_process(self.name), "down", "the driver is away")

    def detail(self) -> dict[str, Any]:
        """The fields that have an effect."""
        found = {"name": self.name, "how": self.how}
        given = {"operations": self.operations, "nodes": self.nodes, "by_us": self.by_us, "text": self.text}
        more = {"factor": self.factor} if self.factor != 1 else {}
        return found | {name: value for name, value in given.items() if value} | more


def _check(context: Context, given: Driver) -> DriverFails:
    if given.name not in context.known.drivers:
        remedy = suggestion(given.name, context.known.drivers, "name it in cluster.storage")
        raise context.unknown("name", f"there is no storage driver {given.name!r}", remedy)
    chosen = () if given.operation is UNSET else given.operation
    operations: tuple[Operation, ...] = tuple([chosen] if isinstance(chosen, str) else chosen)
    if given.how == "away" and operations:
        raise context.error("operation", "a driver that is away does nothing at all", "leave it out")
    nodes = () if given.nodes is UNSET else context.nodes(given.nodes)
    for operation in operations:
        if nodes and operation in _AT_NO_NODE:
            raise context.error("operation", f"{operation} happens at no node", "leave out the nodes")
    slow, by, factor = given.how == "slow", given.by, given.factor
    if slow and by is UNSET and factor is UNSET:
        raise context.error("", "a slow driver needs 'by' or 'factor'")
    for key, value, of in (
        ("by", by, "slow"),
        ("factor", factor, "slow"),
        ("message", given.message, "failing"),
    ):
        if value is not UNSET and given.how != of:
            raise context.error(key, f"{key!r} has no effect on {given.how!r}", f"it belongs to {of!r}")
    return DriverFails(
        given.name,
        given.how,
        operations,
        nodes,
        context.positive(by, "by") if isinstance(by, str) else 0,
        1 if factor is UNSET else factor,
        given.message if isinstance(given.message, str) else "",
    )


def _settle(ledger: Ledger, target: str) -> None:
    """The drivers of the cluster get all faults in force, each with its trace record."""
    faults = [
        replace(fault, cause=ledger.record(target, DRIVER, fault)) for fault in ledger.values(target, DRIVER)
    ]
    ledger.cluster.storage_drivers.set_faults(target.removeprefix(TARGET_PREFIX), faults)


FAULT = Fault(
    name="driver",
    parameters=Driver,
    check=_check,
    ends=Ends.LATER,
    documentation="""
A storage driver of `cluster.storage` fails. `slow`: operations take longer. `failing`: they return an error after their
time. `hanging`: they do not return, and the caller's time limit ends them. `away`: the driver does not run; with `nodes`
its part on these nodes does not.""",
    example="""
- {at: 3m, driver: {name: disk.csi.example.com, how: failing, operation: attach, message: "rpc error: quota"}, for: 2m}
- {at: 9m, name: gone, driver: {name: disk.csi.example.com, how: away}}""",
    drawn="""
- {driver: {name: x}, for: 10s..5m, values: {driver.name: drivers, driver.how: [away, failing]}}""",
    aspects=(Aspect(DRIVER, _settle),),
)
