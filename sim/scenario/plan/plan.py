"""The plan of a scenario: plain checked values that a run carries out.

Durations are microseconds, node selections are names, and every step has its place in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from sim.dataclass import dataclass
from sim.faults.shared.kinds import Action, Ends
from sim.options.machines import PLAIN, DeviceSpec, TopologySpec
from sim.options.storage_drivers import StoragePlan
from sim.scenario.schema.common import Matter
from sim.scenario.schema.sections import Expectation, Runtime
from sim.units import Wall


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node to run.

    place, places: in the file, of all flags and of each
    allocatable: of resources for which the agent does not compute it
    lease_jitter: False if leases are renewed at whole multiples of their interval
    """

    name: str
    zone: str
    region: str
    capacity: Mapping[str, str]
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    runtime: Runtime
    flags: Mapping[str, Any]
    place: str = ""
    places: Mapping[str, str] = field(default_factory=dict)
    static_pods: tuple[dict[str, Any], ...] = ()
    lease_jitter: bool = True
    allocatable: Mapping[str, str] = field(default_factory=dict)
    topology: TopologySpec = PLAIN
    devices: tuple[DeviceSpec, ...] = ()
    swap_bytes: int = 0
    sysctls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    """One component of the control plane.  place, places: in the file, of all flags and of each."""

    replicas: int = 1
    flags: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdoptionPlan:
    """The machines of Node objects that come through the API.

    selector: of their labels, "" for all
    capacity: where an object does not say it
    place, places: in the file, of all flags and of each
    """

    selector: str = ""
    capacity: Mapping[str, str] = field(default_factory=dict)
    runtime: Runtime = field(default_factory=Runtime)
    flags: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForwardPlan:
    """A real server behind the containers of an image.  address: host and port; place: in the file"""

    address: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The cluster of a scenario.

    boot_us: nodes, controller managers and schedulers start at random instants within this time;
        0 starts all of them at once
    metrics: True if there is a metrics server, which gives autoscaling the usage of pods
    established: objects that run already when the run begins
    places: the nodes of their pods, by resource, namespace and name of their workload; the
        scheduler chooses those of other pods
    adoption: the machines of Node objects that come through the API; None: such objects have none
    storage: the storage drivers, and the classes of their disks
    programs: the real servers behind containers, by image
    epoch_us: Unix time at which virtual time begins; None for the default
    served: True if it has what a served cluster has besides
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
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    adoption: AdoptionPlan | None = None
    storage: tuple[StoragePlan, ...] = ()
    programs: Mapping[str, ForwardPlan] = field(default_factory=dict)
    epoch_us: Wall | None = None
    served: bool = False


# --- steps ----------------------------------------------------------------------------------------

Span = tuple[int, int]
"""The ends of a range of durations from which one is drawn; equal ends are one duration."""


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """What a step does.

    kind: the key of the action in the file
    for_us: the time after which its effect ends
    pick: the number of the action's nodes or actors that are drawn for each occurrence
    weight: its share of the draws of a random step
    """

    kind: str
    action: Action
    for_us: Span | None = None
    pick: int | None = None
    weight: int = 1
    ends: Ends = Ends.AT_ONCE


@dataclass(frozen=True, slots=True)
class Start:
    """The first occurrence of a step: at a time, when a condition holds, or after a step.

    after: name of a step or kind of action; the condition counts from then on
    delay_us: between the condition or step and the occurrence
    """

    at_us: Span | None = None
    condition: str | Matter | None = None
    after: str = ""
    delay_us: Span = (0, 0)


@dataclass(frozen=True, slots=True)
class Repeat:
    """The repetition of a step; without times between, whenever its condition holds again.

    every_us: between two occurrences
    mean_gap_us: mean time between occurrences at random instants
    times: the largest number of occurrences
    until_us: no occurrence is later
    """

    every_us: Span | None = None
    mean_gap_us: int | None = None
    times: int | None = None
    until_us: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step.  A step with several choices is a random step.

    by: the user that does it, for the records of its occurrences; "" if it is not known
    """

    name: str
    start: Start
    choices: tuple[PlannedAction, ...]
    repeat: Repeat | None
    place: str
    by: str = ""

    @property
    def kind(self) -> str:
        """The key of the action; "random" if it is drawn."""
        return "random" if len(self.choices) > 1 else self.choices[0].kind


@dataclass(frozen=True, slots=True)
class PlannedExpectation:
    """One expectation, and its place in the file."""

    expectation: Expectation
    place: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole scenario, ready to run.

    settings: the `--set` texts, in their order; the other fields include their effect
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
