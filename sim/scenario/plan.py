"""What a scenario comes to once it is checked: plain values that a run carries out.

Durations are microseconds, node selections are names, every action says where in the file it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sim.scenario.schema import Expectation, Runtime


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node to run."""

    name: str
    zone: str
    region: str
    capacity: Mapping[str, str]
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    runtime: Runtime
    flags: Mapping[str, Any]
    place: str = ""


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    replicas: int = 1
    flags: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """boot_us: nodes, controller managers and schedulers start at random instants within it (0: all at once)."""

    naming: str = "orch"
    nodes: tuple[NodePlan, ...] = ()
    api_server: ComponentPlan = ComponentPlan()
    controller_manager: ComponentPlan = ComponentPlan()
    scheduler: ComponentPlan = ComponentPlan()
    latency_us: tuple[int, int] | None = None
    boot_us: int = 0


# --- actions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailNodes:
    nodes: tuple[str, ...]
    how: str


@dataclass(frozen=True, slots=True)
class HealNodes:
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RebootNodes:
    nodes: tuple[str, ...]
    downtime_us: int


@dataclass(frozen=True, slots=True)
class Disturb:
    """A network rule between two groups of hosts, under the step's name."""

    rule: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    cut: bool
    one_way: bool
    latency_us: tuple[int, int] | None = None
    loss: float = 0.0
    duplication: float = 0.0


@dataclass(frozen=True, slots=True)
class EndStep:
    """The fault of an earlier step ends."""

    step: str


@dataclass(frozen=True, slots=True)
class ActorFault:
    """what: crash start stall resume slow.  `actors` may name a role ("controller-manager-leader")."""

    what: str
    actors: tuple[str, ...]
    amount_us: int | None = None


@dataclass(frozen=True, slots=True)
class SkewClock:
    actors: tuple[str, ...]
    offset_us: int
    drift_ppm: int


@dataclass(frozen=True, slots=True)
class StorageFault:
    """how: pause unavailable slow; healed by `EndStep`."""

    how: str
    by_us: int


@dataclass(frozen=True, slots=True)
class LagCache:
    api_server: str
    by_us: int


@dataclass(frozen=True, slots=True)
class DropWatches:
    resource: str
    client: str


@dataclass(frozen=True, slots=True)
class CompactHistory:
    pass


@dataclass(frozen=True, slots=True)
class ApplyObjects:
    objects: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class DeleteObjects:
    resource: str
    namespace: str
    name: str
    selector: str
    grace_s: int | None


@dataclass(frozen=True, slots=True)
class ScaleObject:
    resource: str
    namespace: str
    name: str
    replicas: int


@dataclass(frozen=True, slots=True)
class CordonNodes:
    nodes: tuple[str, ...]
    on: bool


@dataclass(frozen=True, slots=True)
class DrainNodes:
    nodes: tuple[str, ...]
    timeout_us: int


Action = (
    FailNodes
    | HealNodes
    | RebootNodes
    | Disturb
    | EndStep
    | ActorFault
    | SkewClock
    | StorageFault
    | LagCache
    | DropWatches
    | CompactHistory
    | ApplyObjects
    | DeleteObjects
    | ScaleObject
    | CordonNodes
    | DrainNodes
)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """An action at a time; `for_us` ends its fault by itself.  `name` is the step's, `kind` its action's key."""

    at_us: int
    name: str
    kind: str
    action: Action
    for_us: int | None
    place: str


@dataclass(frozen=True, slots=True)
class PlannedExpectation:
    expectation: Expectation
    place: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole scenario, ready to run."""

    name: str
    description: str
    seed: int
    duration_us: int
    cluster: ClusterPlan
    objects: tuple[Mapping[str, Any], ...]
    steps: tuple[PlannedStep, ...]
    expectations: tuple[PlannedExpectation, ...]
    file: str = ""
