"""fail: nodes fail in one of several ways.

A new way for a node to fail is a line in `WAYS`, a value of `how`, and a line of documentation.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.context import Context, delay_of, in_a_cloud
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage
from sim.faults.shared.ledger import Aspect, AspectName, Ledger
from sim.faults.shared.parameters import NodesField, Strict
from sim.faults.shared.processes import DELETED, LIFE, STOPPED
from sim.kernel import Rule

CUTS = "cut nodes"  # the network rule shared by all nodes that are cut off
SLOW_DISK: Final = "slow-disk"
# How a node fails -> the aspect of the node, and its value.
Mode = Literal[
    "power-loss", "shutdown", "hang", "network-cut", "agent-crash", "runtime-failure", "runtime-hang", "slow-disk",
    "pod-network-failure", "instance-stopped", "instance-deleted",
]  # fmt: skip
WAYS: dict[Mode, tuple[AspectName, Any]] = {
    "power-loss": ("power", True),
    "shutdown": ("shutdown", True),
    "hang": ("pause", True),
    "network-cut": ("cut", True),
    "agent-crash": ("down", "agent crashed"),
    "runtime-failure": ("runtime", "the runtime does not answer"),
    "runtime-hang": ("runtime-delay", None),
    "pod-network-failure": ("pod-network", "the network plugin does not answer"),
    "instance-stopped": ("instance", STOPPED),
    "instance-deleted": ("instance", DELETED),
}


class Fail(Strict):
    """The parameters of `fail`."""

    nodes: NodesField
    how: Annotated[Mode, Meta(description="How the nodes fail.")]
    by: Annotated[
        str | UnsetType,
        Meta(description="With `slow-disk`: the additional time of each operation of the container runtime."),
    ] = UNSET


@dataclass(frozen=True, slots=True)
class FailNodes(Imposed):
    """These nodes fail.  by_us: the delay of a slow disk"""

    nodes: tuple[str, ...]
    how: Mode
    by_us: int = 0
    picked: ClassVar[str] = "nodes"

    def impose(self, stage: Stage, step: str) -> None:
        """Each node fails."""
        for node in self.nodes:
            fail_node(stage.faults, step, node, self.how, self.by_us)


def fail_node(faults: Ledger, step: str, node: str, how: Mode, by_us: int = 0) -> None:
    """One node fails in one of `WAYS`, or its disk becomes slow."""
    if how == SLOW_DISK:
        faults.impose(step, node, "runtime-delay", by_us)
    else:
        faults.impose(step, node, *WAYS[how])


def _check(context: Context, given: Fail) -> FailNodes:
    if given.how.startswith("instance-"):
        in_a_cloud(context, "how")
    return FailNodes(context.nodes(given.nodes), given.how, delay_of(context, given.how, given.by, SLOW_DISK))


def _settle_cut(ledger: Ledger, _: str) -> None:
    """One network rule covers all nodes that are cut off."""
    nodes = ledger.targets("cut")
    if nodes:
        ledger.kernel.network.impose(Rule(CUTS, frozenset(nodes), None, cut=True))
    else:
        ledger.kernel.network.lift(CUTS)


def _settle_runtime(ledger: Ledger, name: str) -> None:
    ledger.cluster.nodes[name].fail_runtime(next(iter(ledger.values(name, "runtime")), ""))


def _settle_runtime_delay(ledger: Ledger, name: str) -> None:
    """Delays of slow disks add up; a runtime that does not answer is slower than any."""
    node, delays = ledger.cluster.nodes[name], ledger.values(name, "runtime-delay")
    if None in delays:
        node.hang_runtime()
    else:
        node.slow_runtime(sum(delays))


def _settle_pod_network(ledger: Ledger, name: str) -> None:
    ledger.cluster.nodes[name].fail_pod_network(next(iter(ledger.values(name, "pod-network")), ""))


def _attribute_cut(ledger: Ledger, name: str, record: int) -> None:
    ledger.kernel.standing.pass_on(CUTS, name, record)


def _trouble(name: AspectName, settle: Any) -> Aspect:
    """An aspect with a value that the machine stores under the same name."""

    def attribute(ledger: Ledger, node: str, record: int) -> None:
        ledger.cluster.nodes[node].machine.note_fault(name, record)

    return Aspect(name, settle, attribute=attribute)


FAULT = Fault(
    name="fail",
    parameters=Fail,
    check=_check,
    ends=Ends.LATER,
    documentation="""
Nodes fail. `power-loss`: everything that runs is gone, the disk stays. `shutdown`: graceful for as long as the flag
`shutdown-grace-period` of the node says. `hang`: the agent is paused. `network-cut`: no message passes. `agent-crash`: the
agent ends, containers continue. `runtime-failure`: the container runtime reports that it is not ready. `runtime-hang`: it does
not answer. `slow-disk` (with `by`): each operation of it takes longer. `pod-network-failure`: the network plug-in is not
ready. In a cloud (`cloud-provider` below) `instance-stopped` and `instance-deleted`: the power is off and the cloud knows
why; after the latter the node comes up as a new machine with an empty disk.""",
    example="""
- {at: 1m, name: disk, fail: {nodes: {name: node-a-0}, how: slow-disk, by: 200s}, for: 5m}""",
    drawn="""
- {fail: {nodes: {pick: 1}, how: power-loss}, for: 5s..10m, weight: 4, values: {fail.how: [power-loss, network-cut, hang, shutdown, agent-crash]}}
- {fail: {nodes: {pick: 1}, how: hang}, for: 5s..5m, values: {fail.how: [runtime-failure, runtime-hang, pod-network-failure]}}
- {fail: {nodes: {pick: 1}, how: slow-disk}, for: 10s..5m, values: {fail.by: [1s, 10s, 1m]}}
- {fail: {nodes: {}, how: power-loss}, for: 5s..10m, values: {fail.nodes.zone: zones, fail.how: [power-loss, network-cut]}}
- {fail: {nodes: {pick: 1}, how: instance-stopped}, for: 1m..10m, values: {fail.how: [instance-stopped, instance-deleted]}}""",
    aspects=(
        Aspect("cut", _settle_cut, attribute=_attribute_cut),
        _trouble("runtime", _settle_runtime),
        _trouble("runtime-delay", _settle_runtime_delay),
        _trouble("pod-network", _settle_pod_network),
        *LIFE,
    ),
)
