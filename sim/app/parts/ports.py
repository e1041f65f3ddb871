"""The cluster (`sim.app.cluster.Cluster`) as its parts see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sim.faults.shared.cluster import Target

if TYPE_CHECKING:
    from actors.apiserver.server import ApiServer
    from actors.controllers.shared.shell import RootCa
    from actors.node.node import Node
    from actors.scheduler.plugins import SchedulerPlugin
    from actors.storage import Storage
    from actors.users import Admin
    from sim.api.scheme.scheme import Scheme
    from sim.api.store import Change
    from sim.api.types import Endpoint, UserInfo
    from sim.api.verbs.call import Identities
    from sim.app.agents.certificates import CertificateFiles
    from sim.app.audit.outputs import AuditOutputs
    from sim.app.cloud import SimulatedCloud
    from sim.app.metrics import StatedMetrics
    from sim.app.options import ClusterOptions
    from sim.app.parts.machine_watch import MachineWatch
    from sim.app.parts.pod_network import PodNetwork
    from sim.app.parts.signing import SigningAuthorities
    from sim.client import Channel
    from sim.faults.shared.ledger import Ledger
    from sim.ident import Names
    from sim.kernel import Context
    from sim.options.storage_drivers import StorageDrivers
    from sim.scenario.plan.plan import ClusterPlan, NodePlan


class BuiltCluster(Target, Protocol):
    """A cluster with what its director, its control plane and its measures use of it."""

    plan: ClusterPlan
    names: Names
    scheme: Scheme
    options: ClusterOptions
    storage: Storage
    storage_drivers: StorageDrivers
    api_servers: dict[str, ApiServer]
    nodes: dict[str, Node]
    faults: Ledger
    machine_watch: MachineWatch
    admin: Admin
    admin_user: UserInfo
    cloud: SimulatedCloud
    stated_metrics: StatedMetrics
    files: CertificateFiles
    root_ca: RootCa
    signing: SigningAuthorities
    identities: Identities
    scheduler_plugins: tuple[SchedulerPlugin, ...]
    audit: AuditOutputs | None

    @property
    def pod_network(self) -> PodNetwork:
        """The network between the programs of pods."""
        ...

    def connect(
        self, ctx: Context, doors: Mapping[str, Endpoint] | None = None, host: str = ""
    ) -> list[Channel]:
        """Channels from an actor, on a host of its name or another one, to every API server."""
        ...

    def add_node(self, plan: NodePlan) -> Node:
        """Add a node: its machine, and its agent, which registers it."""
        ...

    def hand_in(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Apply objects as the admin."""
        ...

    def list(self, resource: str, namespace: str = "") -> list[dict[str, Any]]:
        """The stored objects of a resource."""
        ...

    def existing(self, plural: str) -> Sequence[tuple[str, str]]:
        """Namespace and name of every stored object of a kind."""
        ...

    def observe(
        self, see: Callable[[Change], None], resources: Sequence[str] | None = None
    ) -> Callable[[], None]:
        """Call `see` at every commit; the result ends it."""
        ...
