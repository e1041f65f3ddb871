"""The cluster that faults change, as a protocol that `sim.app.cluster.Cluster` satisfies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sim.api.store import Change
from sim.kernel import Kernel, Supervisor
from sim.options.storage_drivers import StorageDrivers

if TYPE_CHECKING:
    from actors.apiserver.server import ApiServer
    from actors.node.node import Node
    from actors.storage import Storage
    from actors.users import Admin
    from actors.users.requests import RequestSpec


class MetricsTarget(Protocol):
    """The metrics that a scenario states."""

    def set(self, step: str, series: Any, cause: int) -> None:
        """State a series of a metric until `remove`."""
        ...

    def remove(self, step: str, cause: int) -> None:
        """Remove the series that a step stated."""
        ...


class Target(Protocol):
    """A running cluster."""

    kernel: Kernel
    supervisor: Supervisor

    def election_lease(self, component: str) -> tuple[str, str]:
        """Namespace and name of the Lease by which the replicas of a component elect their leader."""
        ...

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name."""
        ...

    @property
    def api_servers(self) -> Mapping[str, ApiServer]:
        """The API servers by name."""
        ...

    @property
    def storage(self) -> Storage:
        """The storage."""
        ...

    @property
    def admin(self) -> Admin:
        """The person who operates the cluster."""
        ...

    @property
    def certify(self) -> Callable[[str, int], None]:
        """Puts a certificate that is valid for so long into the files of a process."""
        ...

    @property
    def send_requests(self) -> Callable[[str, RequestSpec], Callable[[], None]]:
        """Lets the clients of a step send requests to a Service; its result ends that."""
        ...

    @property
    def stated_metrics(self) -> MetricsTarget:
        """The metrics that the scenario states."""
        ...

    @property
    def storage_drivers(self) -> StorageDrivers:
        """The storage drivers."""
        ...

    def actor_named(self, name: str) -> str:
        """Name of a process; `scheduler-leader` gives the present leader."""
        ...

    def drop_watches(self, resource: str, client: str) -> None:
        """End watches: of a resource, of clients that match a glob ("" means all)."""
        ...

    def compact(self, keep_us: int = 0) -> None:
        """Remove all history but that of the latest time."""
        ...

    def present(self, resources: Sequence[str]) -> Iterator[Change]:
        """The stored objects, as commits."""
        ...

    def container_override(
        self,
        changes: Mapping[str, Any],
        namespace: str = "",
        labels: Mapping[str, str] = ...,
        pod_prefix: str = "",
        image: str = "",
        container: str = "",
        claim: str = "",
        uids: Collection[str] | None = None,
        pull_error: str = "",
        record: int = 0,
        since_us: int = 0,
    ) -> Any:
        """A change of the behaviour of containers, for `Node.behave`."""
        ...
