"""The cloud in which a cluster's nodes are instances.

Turns the faults of nodes into the answers of the cloud about their instances.

Holds: a machine that lost its power without an action of the cloud runs, as far as the cloud knows;
    one that was shut down from inside is stopped; a name that is no node of the plan has no
    instance.

Mirrors  the answers of v1.25's providers (staging/src/k8s.io/legacy-cloud-providers):
         InstanceExistsByProviderID, InstanceShutdownByProviderID; by the name of the node if it has
         no provider id.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.controllers.shared.cloud_instances import Instance, State
from actors.node.node import Node
from sim.api.types import Obj
from sim.faults.cloud import CALL, OUTAGE
from sim.faults.cloud import CLOUD as TARGET
from sim.faults.shared.ledger import Ledger
from sim.faults.shared.processes import DELETED, STOPPED
from sim.options.cloud import CLOUD, provider_id


class Instances:
    """The instances of one cluster's nodes."""

    def __init__(self, faults: Ledger, nodes: Mapping[str, Node]) -> None:
        self._faults = faults
        self._nodes = nodes

    @property
    def call_us(self) -> int:
        """The additional time of a question."""
        return sum(self._faults.values(TARGET, CALL))

    def instance(self, node: Obj) -> Instance | str:
        """The instance of a node, or the error that the cloud answers."""
        faults, name = self._faults, node["metadata"]["name"]
        if faults.values(TARGET, OUTAGE):
            return "the cloud does not answer"
        held = node["spec"].get("providerID") or provider_id(name)
        if not held.startswith(f"{CLOUD}://"):
            return f"{held} is no instance of {CLOUD}"
        name = held.removeprefix(f"{CLOUD}://")
        one = self._nodes.get(name)
        if one is None:
            return Instance(State.GONE)
        if cause := faults.record(name, "instance", DELETED):
            return Instance(State.GONE, cause)
        if cause := faults.record(name, "instance", STOPPED):
            return Instance(State.STOPPED, cause)
        if not one.machine.powered and (cause := faults.record(name, "shutdown", True)):
            return Instance(State.STOPPED, cause)
        return Instance(State.RUNNING)
