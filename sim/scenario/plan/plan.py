"""What a scenario comes to once it is checked: plain values that a run carries out.

Durations are microseconds, node selections are names, every action says where in the file it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sim.faults.shared.kinds import Action, Ends
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
    ends: Ends = Ends.AT_ONCE


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
