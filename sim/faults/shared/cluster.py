"""The parts of a cluster that faults change, as protocols that `sim.app.cluster.Cluster` satisfies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sim.kernel import Kernel, Supervisor
from sim.options.storage_drivers import DriverFault


class MachineTarget(Protocol):
    """The machine of a node.  It survives its processes."""

    @property
    def powered(self) -> bool:
        """True if the power is on."""
        ...

    def erase(self) -> None:
        """Replace the machine by a new one with an empty disk."""
        ...

    def note_fault(self, what: str, record: int) -> None:
        """Note the trace record by which something is wrong; 0 if it is right again."""
        ...


class NodeTarget(Protocol):
    """A node: its machine and what can be done to it."""

    @property
    def machine(self) -> MachineTarget:
        """The machine of the node."""
        ...

    def power_loss(self) -> None:
        """Switch the power off."""
        ...

    def power_on(self) -> None:
        """Boot the machine and start the agent."""
        ...

    def shutdown(self) -> None:
        """Begin a graceful shutdown."""
        ...

    def cancel_shutdown(self) -> None:
        """Cancel a graceful shutdown that has not ended."""
        ...

    def fail_runtime(self, message: str) -> None:
        """Make the container runtime report this error; "" ends it."""
        ...

    def slow_runtime(self, by_us: int) -> None:
        """Make each operation of the container runtime take this much longer."""
        ...

    def hang_runtime(self) -> None:
        """Stop the answers of the container runtime."""
        ...

    def fail_pod_network(self, message: str) -> None:
        """Make the network plug-in report this error; "" ends it."""
        ...

    def shared_resource(self, resource: str) -> str:
        """The resource that is used under this name: two names may mean one file system."""
        ...

    def pressure(self, resource: str, available: int, ramp_us: int = 0) -> Any:
        """The use of a resource that leaves `available` of it, given its present use."""
        ...

    def press(self, resource: str, uses: Sequence[Any]) -> None:
        """Use a resource beside the pods, by the values of `pressure`."""
        ...

    def end_pressure(self, resource: str) -> None:
        """Use nothing of a resource beside the pods."""
        ...

    def behave(self, overrides: Sequence[Any]) -> None:
        """Make containers behave by these values of `Target.container_override`."""
        ...

    def set_clock(self, *, offset_us: int, drift_ppm: int) -> None:
        """Set offset and drift of the machine's clock."""
        ...

    def write_manifest(self, file: str, manifest: dict[str, Any] | None) -> None:
        """Write the file of a static pod; None writes a file without a pod."""
        ...

    def remove_manifest(self, file: str) -> None:
        """Remove the file of a static pod."""
        ...


class ApiServerTarget(Protocol):
    """An API server."""

    def overload(self, by_us: int, inflight: int | None) -> None:
        """Make requests take longer, and refuse those above a number at a time (None: no limit)."""
        ...

    @property
    def trail(self) -> CacheTarget:
        """The watch caches of the server."""
        ...


class CacheTarget(Protocol):
    """The watch caches of an API server."""

    def lag(self, by_us: int) -> None:
        """Make them follow the storage later."""
        ...

    def freeze(self, frozen: bool) -> None:
        """Stop or restart them."""
        ...


class StorageTarget(Protocol):
    """The storage.  extra_us: additional time of each operation."""

    extra_us: int

    def set_quorum(self, there: bool) -> None:
        """True: the storage has a quorum."""
        ...


class AdminTarget(Protocol):
    """The person who operates the cluster by API requests."""

    def do(self, command: Any) -> None:
        """Begin a command of `actors.users`."""
        ...

    def seize_lease(self, namespace: str, name: str, holder: str) -> None:
        """Write another holder into the lease of a leader."""
        ...

    def generate(self, name: str, spec: Any) -> Any:
        """Begin a load; the result, when called, ends it."""
        ...


class MetricsTarget(Protocol):
    """The metrics that a scenario states."""

    def set(self, step: str, series: Any, cause: int) -> None:
        """State a series of a metric until `remove`."""
        ...

    def remove(self, step: str, cause: int) -> None:
        """Remove the series that a step stated."""
        ...


class DriversTarget(Protocol):
    """The storage drivers."""

    def set_faults(self, name: str, faults: Sequence[DriverFault]) -> None:
        """Let exactly these faults of a driver be in force."""
        ...

    def on_room(self, claim: str, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when the file system of a claim has become larger; the result ends that."""
        ...


class Target(Protocol):
    """A running cluster."""

    kernel: Kernel
    supervisor: Supervisor

    def election_lease(self, component: str) -> tuple[str, str]:
        """Namespace and name of the Lease by which the replicas of a component elect their leader."""
        ...

    @property
    def nodes(self) -> Mapping[str, NodeTarget]:
        """The nodes by name."""
        ...

    @property
    def api_servers(self) -> Mapping[str, ApiServerTarget]:
        """The API servers by name."""
        ...

    @property
    def storage(self) -> StorageTarget:
        """The storage."""
        ...

    @property
    def admin(self) -> AdminTarget:
        """The person who operates the cluster."""
        ...

    @property
    def stated_metrics(self) -> MetricsTarget:
        """The metrics that the scenario states."""
        ...

    @property
    def storage_drivers(self) -> DriversTarget:
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

    def container_override(
        self,
        changes: Mapping[str, Any],
        namespace: str = "",
        labels: Mapping[str, str] = ...,
        pod_prefix: str = "",
        image: str = "",
        container: str = "",
        claim: str = "",
        pull_error: str = "",
        record: int = 0,
        since_us: int = 0,
    ) -> Any:
        """A change of the behaviour of containers, for `NodeTarget.behave`."""
        ...
