"""What the check of a step may use: the cluster of the scenario, and conversions.

`sim.scenario` implements these protocols.  Every method raises `InputError` with the place in the
file. `key` names the parameter that an error is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sim.api.schema.resource import Resource
from sim.errors import InputError
from sim.faults.shared.parameters import Amount, Nodes, OneOrMore
from sim.options.cloud import CLOUD
from sim.options.machines import DeviceSpec

Key = str | tuple[str | int, ...]


class NodeFacts(Protocol):
    """One node of the scenario's cluster."""

    @property
    def name(self) -> str:
        """Name of the node."""
        ...

    @property
    def capacity(self) -> Mapping[str, str]:
        """Capacity of the machine, by resource."""
        ...

    @property
    def flags(self) -> Mapping[str, Any]:
        """Flags of the node agent."""
        ...

    @property
    def devices(self) -> Sequence[DeviceSpec]:
        """The devices of its plug-ins."""
        ...


class Known(Protocol):
    """What the steps of a scenario may name.

    objects: plural, namespace and name of each object that is made so far
    files: names of the files of static pods that exist so far
    steps: the kind of each earlier step, by the name of the step
    metrics: True if the cluster has a metrics server
    cloud: True if the controller manager queries a cloud for instances
    drivers: names of the storage drivers
    certified: names of processes, roles and nodes with a certificate that ends
    proxied: True if the nodes have proxies, so that clients may send requests
    """

    objects: list[tuple[str, str, str]]
    files: dict[str, None]
    steps: dict[str, str]
    metrics: bool
    cloud: bool
    drivers: tuple[str, ...]
    certified: tuple[str, ...]
    proxied: bool

    @property
    def nodes(self) -> Sequence[NodeFacts]:
        """All nodes that the cluster starts with."""
        ...

    def of_kind(self, plural: str) -> Sequence[tuple[str, str]]:
        """Namespace and name of the objects of a kind that steps may name."""
        ...

    def add(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Note objects that a step makes."""
        ...


class Context(Protocol):
    """The check of one step.  naming: the set of identifiers of the cluster."""

    naming: str

    @property
    def known(self) -> Known:
        """What the step may name."""
        ...

    def error(self, key: Key, message: str, remedy: str = "") -> InputError:
        """The error to raise at a parameter, or at the step if `key` is empty."""
        ...

    def unknown(self, key: Key, message: str, remedy: str = "") -> InputError:
        """The error of a name that is not known."""
        ...

    def duration(self, text: str, key: str) -> int:
        """Microseconds of a duration."""
        ...

    def positive(self, text: str, key: str) -> int:
        """Microseconds of a duration that is not 0."""
        ...

    def optional_duration(self, text: object, key: str) -> int | None:
        """Microseconds of a duration; None if it is not given."""
        ...

    def optional_span(self, text: str | None, key: str) -> tuple[int, int] | None:
        """Both ends of a range of durations; None if it is not given."""
        ...

    def rate(self, text: str, key: str) -> int:
        """Mean microseconds between events that come at a rate such as 5/s."""
        ...

    def bytes(self, value: Amount, key: str) -> int:
        """A quantity as a whole number."""
        ...

    def milli(self, value: Amount, key: str) -> int:
        """A quantity in thousandths."""
        ...

    def resource(self, name: str, key: Key = "resource") -> Resource:
        """The resource with this plural."""
        ...

    def labels(self, text: str, key: str = "selector") -> Mapping[str, str]:
        """The pairs of an equality selector."""
        ...

    def nodes(self, wanted: Nodes, key: str = "nodes") -> tuple[str, ...]:
        """Names of the nodes of a selection, one at least."""
        ...

    def actors(self, wanted: OneOrMore, key: str, hosts: bool = False) -> tuple[str, ...]:
        """Names of processes.  hosts: True if a role such as `scheduler-leader` is an error."""
        ...

    def servers(self, wanted: OneOrMore) -> tuple[str, ...]:
        """Names of API servers, of the parameter `apiServer`."""
        ...

    def static_pod(self, value: Any, key: str) -> tuple[str, dict[str, Any]]:
        """The default name of the file of a static pod, and the pod with its defaults."""
        ...


def in_a_cloud(context: Context, key: str) -> None:
    """Check that the controller manager queries a cloud for instances."""
    if not context.known.cloud:
        remedy = f"give the controller manager the flag cloud-provider: {CLOUD}"
        raise context.error(key, "no controller queries a cloud for instances", remedy)


def delay_of(context: Context, how: str, by: object, slow: str) -> int:
    """The microseconds of the parameter `by`, which belongs to one value of `how` only, `slow`."""
    if (how == slow) != isinstance(by, str):
        text = "is missing" if how == slow else f"has no effect on {how!r}"
        raise context.error("by", f"'by' {text}", f"it is the additional time with {slow!r}")
    return context.positive(by, "by") if isinstance(by, str) else 0
