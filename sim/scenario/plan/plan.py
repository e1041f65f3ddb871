"""The plan of a scenario: plain checked values that a run carries out.

Durations are microseconds, node selections are names, and every step has its place in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from sim.dataclass import dataclass
from sim.faults.shared.kinds import Action, Ends
from sim.kernel.draws.arrivals import Arrivals
from sim.kernel.draws.streams import Drawn
from sim.options.machines import PLAIN, DeviceSpec, TopologySpec
from sim.options.node.proxy import ProxyOptions
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

    @property
    def certified(self) -> bool:
        """True if its flags say how the agent gets or keeps its certificate."""
        return any("rotate-certificates" in name or "bootstrap-" in name for name in self.flags)


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    """One component of the control plane.

    place, places: in the file, of all flags and of each
    capacity_nano: processors of each replica, in thousand millionths; 0: its work takes no time
    """

    replicas: int = 1
    flags: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    places: Mapping[str, str] = field(default_factory=dict)
    capacity_nano: int = 0


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
class CertificatePlan:
    """How long the certificates of processes are valid from the start of a run; 0: they outlive it.

    pod_tokens: True if agents request the tokens of pods
    """

    agents_us: int = 0
    controller_managers_us: int = 0
    schedulers_us: int = 0
    api_servers_us: int = 0
    pod_tokens: bool = False

    def of(self, process: str) -> int:
        """That of a process of the control plane, by its name; 0 for any other process."""
        kind = process.rpartition("-")[0]
        return {
            "apiserver": self.api_servers_us,
            "controller-manager": self.controller_managers_us,
            "scheduler": self.schedulers_us,
        }.get(kind, 0)


@dataclass(frozen=True, slots=True)
class PodNetworkPlan:
    """What the programs of pods reach.

    servers: the real ones behind containers, by image
    enforces: True if the network of the nodes enforces NetworkPolicies
    """

    servers: Mapping[str, ForwardPlan] = field(default_factory=dict)
    enforces: bool = False


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The cluster of a scenario.

    arrivals: the order in which messages arrive; None for that of the seed
    schedulers: further ones, by name
    boot_us: nodes, controller managers and schedulers start at random instants within this time;
        0 starts all of them at once
    metrics: True if there is a metrics server, which gives autoscaling the usage of pods
    established: objects that run already when the run begins
    places: the nodes of their pods, by resource, namespace and name of their workload; the
        scheduler chooses those of other pods
    adoption: the machines of Node objects that come through the API; None: such objects have none
    storage: the storage drivers, and the classes of their disks
    pods: what their programs reach
    own_programs: names of controllers of the user, which steps may name
    epoch_us: Unix time at which virtual time begins; None for the default
    served: True if it has what a served cluster has besides
    certificates: how long those of its processes are valid
    kube_proxy: the options of the proxies of nodes; None: there are none
    """

    naming: str = "orch"
    nodes: tuple[NodePlan, ...] = ()
    api_server: ComponentPlan = ComponentPlan()
    controller_manager: ComponentPlan = ComponentPlan()
    scheduler: ComponentPlan = ComponentPlan()
    schedulers: Mapping[str, ComponentPlan] = field(default_factory=dict)
    latency_us: tuple[int, int] | None = None
    arrivals: Arrivals | None = None
    boot_us: int = 0
    metrics: bool = False
    established: tuple[Mapping[str, Any], ...] = ()
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    adoption: AdoptionPlan | None = None
    storage: tuple[StoragePlan, ...] = ()
    pods: PodNetworkPlan = PodNetworkPlan()
    own_programs: tuple[str, ...] = ()
    epoch_us: Wall | None = None
    served: bool = False
    certificates: CertificatePlan = CertificatePlan()
    kube_proxy: ProxyOptions | None = None

    def certified(self, processes: Iterable[str]) -> tuple[str, ...]:
        """Those of these processes, and the nodes, that have a certificate that ends."""
        nodes = [node.name for node in self.nodes if self.certificates.agents_us or node.certified]
        return (*[name for name in processes if self.certificates.of(name)], *nodes)


# --- steps ----------------------------------------------------------------------------------------

Span = tuple[int, int]
"""The ends of a range of durations from which one is drawn; equal ends are one duration."""


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """What a step does.

    kind: the key of the action in the file
    for_us: the time after which its effect ends
    pick: the draw of the action's nodes or actors for each occurrence
    weight: its share of the draws of a random step
    """

    kind: str
    action: Action
    for_us: Span | None = None
    pick: Drawn | None = None
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
class PaletteStep:
    """A step that a hunt may draw.

    kind: the key of the action in the file
    body: the action, and its duration, as in the file
    values: the values of each parameter that is drawn, by its path
    then: a step that follows it, as in the file; None if there is none
    """

    kind: str
    body: Mapping[str, Any]
    weight: int
    values: Mapping[str, tuple[Any, ...]]
    then: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class HuntPlan:
    """What a hunt may vary.

    from_us, for_us, quiet_us: the earliest time of a step, the time in which steps are drawn, and
        the time at the end without a fault
    steps: the lowest and the highest number of steps
    at_once: the largest number of faults that are active at the same time
    vary: the values of each varied part of the scenario, by its path
    invariants, targets: expectations that must hold, and that lead the search, as in the file; None
        for all invariants that the scenario keeps without a drawn step
    """

    palette: tuple[PaletteStep, ...]
    from_us: int
    for_us: int
    quiet_us: int
    steps: tuple[int, int]
    at_once: int
    vary: Mapping[str, tuple[Any, ...]]
    invariants: tuple[Mapping[str, Any], ...] | None
    targets: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole scenario, ready to run.

    settings: the `--set` texts, in their order; the other fields include their effect
    variants: the names of the variants of the file
    document: what the plan was made from, with its settings; None if that was no file
    hunt: what a hunt may vary; None if the scenario does not say it, and a run ignores it
    own_programs: name and "module:function" of programs of a user, which run as processes
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
    variants: tuple[str, ...] = ()
    hunt: HuntPlan | None = None
    document: Mapping[str, Any] | None = None
    own_programs: tuple[tuple[str, str], ...] = ()
