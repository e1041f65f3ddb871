"""What a scenario comes to once it is checked: plain values that a run carries out.

Durations are microseconds, node selections are names, every action says where in the file it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sim.scenario.read.common import Matter
from sim.scenario.read.schema import Expectation, Runtime


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
    place: str = ""  # of the flags, and of each
    places: Mapping[str, str] = field(default_factory=dict)
    static_pods: tuple[dict[str, Any], ...] = ()
    lease_jitter: bool = True


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    replicas: int = 1
    flags: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""  # of the flags, and of each
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """boot_us: nodes, controller managers and schedulers start at random instants within it (0: all at once).

    metrics: there is a metrics server, which tells autoscaling what pods use
    established: objects that run already when the run begins
    """

    naming: str = "orch"
    nodes: tuple[NodePlan, ...] = ()
    api_server: ComponentPlan = ComponentPlan()
    controller_manager: ComponentPlan = ComponentPlan()
    scheduler: ComponentPlan = ComponentPlan()
    latency_us: tuple[int, int] | None = None
    boot_us: int = 0
    metrics: bool = False
    established: tuple[Mapping[str, Any], ...] = ()


# --- actions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FailNodes:
    nodes: tuple[str, ...]
    how: str
    by_us: int = 0


@dataclass(frozen=True, slots=True)
class HealNodes:
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Disturb:
    """A network rule between two groups of hosts."""

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
    """what: crash terminate start stall slow.  `actors` may name a role ("controller-manager-leader")."""

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
    """how: pause lost-quorum slow."""

    how: str
    by_us: int


@dataclass(frozen=True, slots=True)
class CloudFault:
    """how: outage slow."""

    how: str
    by_us: int


@dataclass(frozen=True, slots=True)
class LagCache:
    actors: tuple[str, ...]
    by_us: int


@dataclass(frozen=True, slots=True)
class FreezeCache:
    """The watch caches of these API servers stay as they are."""

    actors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overload:
    """These API servers take `by_us` longer for a request; of reads and of writes `inflight` at once."""

    actors: tuple[str, ...]
    by_us: int
    inflight: int | None


@dataclass(frozen=True, slots=True)
class LoseLease:
    component: str
    holder: str


@dataclass(frozen=True, slots=True)
class PressNodes:
    """available: bytes, inodes or process ids that stay available, reached in a straight line over `ramp_us`."""

    nodes: tuple[str, ...]
    resource: str
    available: int
    ramp_us: int


@dataclass(frozen=True, slots=True)
class Behave:
    """How containers of pods that match behave; None: as their node says.

    stop_us -1: never by itself; unready: probes fail.
    """

    nodes: tuple[str, ...]
    namespace: str
    labels: Mapping[str, str]
    prefix: str
    image: str
    container: str
    exit_after_us: int | None = None
    exit_code: int | None = None
    unready: bool | None = None
    ready_after_us: int | None = None
    start_error: str | None = None
    pull_error: str | None = None
    stop_us: int | None = None
    memory: int | None = None
    log_rate: int | None = None
    cpu_milli: int | None = None
    load_milli: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeManifest:
    """how: write spoil remove."""

    nodes: tuple[str, ...]
    how: str
    file: str
    manifest: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DropWatches:
    resource: str
    client: str


@dataclass(frozen=True, slots=True)
class CompactHistory:
    keep_us: int


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
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class PatchObjects:
    resource: str
    namespace: str
    name: str
    selector: str
    merge: Mapping[str, Any]
    subresource: str | None = None


@dataclass(frozen=True, slots=True)
class EvictPods:
    namespace: str
    name: str
    selector: str


@dataclass(frozen=True, slots=True)
class Generate:
    """A load: `mean_gap_us` between requests on average, at random.  One of create, scale and list_of is given."""

    mean_gap_us: int
    create: Mapping[str, Any] | None = None
    lifetime_us: int | None = None
    scale: tuple[str, str, str, int, int] | None = None
    list_of: str = ""


@dataclass(frozen=True, slots=True)
class ScaleObject:
    resource: str
    namespace: str
    name: str
    replicas: int


def group_kind(group: str, kind: str) -> str:
    """Kind and group in one: "Deployment.apps", "Service"."""
    return f"{kind}.{group}" if group else kind


@dataclass(frozen=True, slots=True)
class TellMetric:
    """A series of a metric from now on; `load`: shared by the pods that are ready, else of each.

    kind: of what it is measured, "Deployment.apps" ("Pod": of the pods that match `selector`; "": of nothing here)
    """

    name: str
    value_milli: int
    namespace: str
    labels: Mapping[str, str]
    kind: str = ""
    about: str = ""
    selector: Mapping[str, str] | None = None
    load: bool = False


@dataclass(frozen=True, slots=True)
class CordonNodes:
    nodes: tuple[str, ...]
    on: bool


@dataclass(frozen=True, slots=True)
class TaintNodes:
    """taints: {key, value, effect}; an effect of "" is any, where they are taken away (not `on`)."""

    nodes: tuple[str, ...]
    taints: tuple[Mapping[str, str], ...]
    on: bool


@dataclass(frozen=True, slots=True)
class DrainNodes:
    nodes: tuple[str, ...]
    timeout_us: int


Action = (
    FailNodes
    | HealNodes
    | PressNodes
    | Behave
    | ChangeManifest
    | Disturb
    | EndStep
    | ActorFault
    | SkewClock
    | LoseLease
    | StorageFault
    | CloudFault
    | Overload
    | LagCache
    | FreezeCache
    | DropWatches
    | CompactHistory
    | ApplyObjects
    | DeleteObjects
    | PatchObjects
    | EvictPods
    | ScaleObject
    | TellMetric
    | CordonNodes
    | TaintNodes
    | DrainNodes
    | Generate
)

# --- steps --------------------------------------------------------------------------------------------------

Span = tuple[int, int]
"""A duration, or the ends of a range to draw one from."""


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """What a step does: `kind` is the action's key, `for_us` ends its fault by itself.

    pick: of the action's nodes or actors so many are drawn each time
    weight: its share of the draws of a random step
    """

    kind: str
    action: Action
    for_us: Span | None = None
    pick: int | None = None
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Start:
    """When a step happens (first): at a time, when a condition holds, or after a step; then `delay_us`.

    after: name of a step or kind of action: the condition is looked at from then on
    """

    at_us: Span | None = None
    condition: str | Matter | None = None
    after: str = ""
    delay_us: Span = (0, 0)


@dataclass(frozen=True, slots=True)
class Repeat:
    """How a step happens again: `every_us` (or at random, `mean_gap_us` apart on average) or, when neither is given,
    each time its condition comes to hold; at most `times`, not after `until_us`."""

    every_us: Span | None = None
    mean_gap_us: int | None = None
    times: int | None = None
    until_us: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step; more than one choice: a random step."""

    name: str
    start: Start
    choices: tuple[PlannedAction, ...]
    repeat: Repeat | None
    place: str

    @property
    def kind(self) -> str:
        return "random" if len(self.choices) > 1 else self.choices[0].kind


@dataclass(frozen=True, slots=True)
class PlannedExpectation:
    expectation: Expectation
    place: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole scenario, ready to run.

    settings: the `--set` texts that it was read with, in their order; what they did stands in the rest
    """

    name: str
    description: str
    seed: int
    duration_us: int
    cluster: ClusterPlan
    objects: tuple[Mapping[str, Any], ...]
    steps: tuple[PlannedStep, ...]
    expectations: tuple[PlannedExpectation, ...]
    file: str = ""
    settings: tuple[str, ...] = ()
