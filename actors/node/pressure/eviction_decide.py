"""Which pressure a node is under, and which pod is evicted first.  Pure.

Turns what is available of each resource at one instant, and what earlier checks left, into node
conditions and met thresholds (`judge`); and pods with their use into the order of eviction
(`rank`).

Holds: a met threshold stays met until its minimum reclaim is exceeded too; a condition is shown
until the transition period after it was last observed; memory has priority over other resources.

Mirrors  pkg/kubelet/eviction/eviction_manager.go: synchronize; helpers.go: ParseThresholdConfig,
         thresholdsMet, rankMemoryPressure, rankDiskPressureFunc, rankPIDPressure, evictionMessage
         (v1.25).
Differs  where upstream's order is random there is a fixed one: thresholds in that of `RANKS`, equal
         pods by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from actors.node.thresholds import threshold_value
from sim.dataclass import dataclass
from sim.options.node.agent import NodeAgentOptions
from sim.units import (
    BINARY_SI,
    NANO,
    format_quantity,
    format_quantity_nano,
    quantity_nano,
    quantity_style,
    quantity_text,
)

ALLOCATABLE = "allocatableMemory.available"
MEMORY_SIGNALS = (ALLOCATABLE, "memory.available")
# Signal -> (condition, resource in texts), in the order in which met thresholds are taken.
RANKS: Mapping[str, tuple[str, str]] = {
    ALLOCATABLE: ("MemoryPressure", "memory"),
    "memory.available": ("MemoryPressure", "memory"),
    "imagefs.available": ("DiskPressure", "ephemeral-storage"),
    "imagefs.inodesFree": ("DiskPressure", "inodes"),
    "nodefs.available": ("DiskPressure", "ephemeral-storage"),
    "nodefs.inodesFree": ("DiskPressure", "inodes"),
    "pid.available": ("PIDPressure", "pids"),
}
CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class Observed:
    """One signal at one instant."""

    available: int
    capacity: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """An eviction threshold.

    value, reclaim: quantities or percentages
    grace_us: how long it must be met; 0 for a hard threshold
    """

    signal: str
    value: str
    grace_us: int = 0
    reclaim: str = ""

    def floor(self, capacity: int, *, reclaimed: bool) -> int:
        """The threshold is met while less than this is available.

        reclaimed: True to add the minimum reclaim
        """
        low = threshold_value(self.value, str(capacity))
        return low + threshold_value(self.reclaim, str(capacity)) if reclaimed and self.reclaim else low


@dataclass(frozen=True, slots=True)
class Past:
    """What a check leaves to the next one.

    since_us: since when thresholds are met
    seen_us: when conditions were last observed
    met: thresholds that are met, and were for their grace period
    conditions: those to show
    """

    since_us: Mapping[Threshold, int] = field(default_factory=dict)
    seen_us: Mapping[str, int] = field(default_factory=dict)
    met: tuple[Threshold, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def quiet(self) -> bool:
        """True if the next check matters only when a resource becomes short."""
        return not (self.since_us or self.seen_us)


def thresholds_of(options: NodeAgentOptions) -> tuple[Threshold, ...]:
    """All thresholds, in the order in which they are acted on."""
    found = []
    for signal in RANKS:
        if signal == ALLOCATABLE and not options.enforces_pods:
            continue
        # Quirk: each hard memory threshold also guards the memory cgroup of all pods, and a soft
        # one without a grace period is hard.
        source = "memory.available" if signal == ALLOCATABLE else signal
        reclaim = options.eviction_minimum_reclaim.get(source, "")
        if source in options.eviction_hard:
            found.append(Threshold(signal, options.eviction_hard[source], 0, reclaim))
        grace_us = options.eviction_soft_grace_period.get(source, 0)
        if source in options.eviction_soft and (signal == source or not grace_us):
            found.append(Threshold(signal, options.eviction_soft[source], grace_us, reclaim))
    return tuple(found)


def met(
    thresholds: Iterable[Threshold], observed: Mapping[str, Observed], *, reclaimed: bool
) -> tuple[Threshold, ...]:
    """The thresholds with a floor above the observations."""
    return tuple(
        t
        for t in thresholds
        if t.signal in observed
        and observed[t.signal].available < t.floor(observed[t.signal].capacity, reclaimed=reclaimed)
    )


def judge(
    thresholds: Sequence[Threshold],
    past: Past,
    observed: Mapping[str, Observed],
    now_us: int,
    transition_us: int,
) -> Past:
    """One check: the thresholds that are met for long enough, and the conditions to show."""
    now_met = dict.fromkeys(met(thresholds, observed, reclaimed=False))
    now_met |= dict.fromkeys(met(past.met, observed, reclaimed=True))
    since_us = {t: past.since_us.get(t, now_us) for t in now_met}
    seen_us = {**past.seen_us, **{RANKS[t.signal][0]: now_us for t in now_met}}
    seen_us = {condition: at_us for condition, at_us in seen_us.items() if now_us - at_us < transition_us}
    due = tuple(t for t in now_met if now_us - since_us[t] >= t.grace_us)
    return Past(since_us, seen_us, due, tuple(c for c in CONDITIONS if c in seen_us))


def first(thresholds: Sequence[Threshold]) -> Threshold | None:
    """The threshold to act on."""
    order = list(RANKS)
    return min(thresholds, key=lambda t: (order.index(t.signal), t.grace_us), default=None)


# --- pods -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may be evicted.

    used, requested: of the resource that is short
    containers: (name, used, request as written) of each container
    is_measured: False while nothing of the pod runs, so that its use is unknown
    allowed: the use that is no excess; None: `requested`
    """

    name: str
    priority: int
    used: int
    requested: int
    containers: tuple[tuple[str, int, str], ...] = ()
    is_measured: bool = True
    allowed: int | None = None

    @property
    def excess(self) -> int:
        """The use beyond what is allowed."""
        return self.used - (self.requested if self.allowed is None else self.allowed)


def rank(signal: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Pods over their requests first, then by priority, then by their use beyond the request.

    Pods of unknown use go before all others; for process numbers requests do not count.
    """
    if signal == "pid.available":
        return sorted(candidates, key=lambda c: (c.priority, c.is_measured, -c.used, c.name))
    return sorted(
        candidates, key=lambda c: (c.is_measured, c.used <= c.requested, c.priority, -c.excess, c.name)
    )


def eviction_message(resource: str, candidate: Candidate) -> tuple[str, dict[str, str]]:
    """The message of an eviction and the annotations of its event.

    There are no annotations if the use of the pod is unknown.
    """
    text = f"The node was low on resource: {resource}. "
    if not candidate.is_measured:
        return text, {}
    over = [row for row in candidate.containers if row[1] * NANO > quantity_nano(row[2])]
    for name, used, requested in over:
        shown = format_quantity(used, BINARY_SI)
        text += (
            f"Container {name} was using {shown}, which exceeds its request of {quantity_text(requested)}. "
        )
    annotations = {
        "offending_containers": ",".join(name for name, _, _ in over),
        "offending_containers_usage": ",".join(format_quantity(row[1], BINARY_SI) for row in over),
        "starved_resource": resource,
    }
    return text, annotations


# --- limits of local storage ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocalUse:
    """A pod's use of local storage against its limits: (name, used, limit as written).

    volumes: in the order of the pod's spec
    total_limit: of the whole pod; "" without one
    """

    volumes: tuple[tuple[str, int, str], ...] = ()
    containers: tuple[tuple[str, int, str], ...] = ()
    total: int = 0
    total_limit: str = ""


def over_local_limit(use: LocalUse) -> str:
    """Why the pod must be evicted; "" if it need not be.

    The order of checks: emptyDir volumes, the whole pod, single containers.
    """
    for name, used, limit in use.volumes:
        if quantity_nano(limit) and _exceeds(used, limit):
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{quantity_text(limit)}". '
    if use.total_limit and _exceeds(use.total, use.total_limit):
        shown = quantity_text(use.total_limit)
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {shown}. "
    for name, used, limit in use.containers:
        if quantity_nano(limit) and _exceeds(used, limit):
            return f'Container {name} exceeded its local ephemeral storage limit "{quantity_text(limit)}". '
    return ""


def _exceeds(used: int, limit: str) -> bool:
    return used * NANO > quantity_nano(limit)


def whole_limit(own: Sequence[str], init: Sequence[str], overhead: str) -> str:
    """The limit of a whole pod; "" if no container has one.

    It is the sum of the limits in `own`, or the largest of `init` if that is more, plus the
    overhead.  A sum has the notation of its first part; the limit of one container keeps its own.
    """
    if not (own or init):
        return ""
    whole = own[0] if own else init[0]
    for text in own[1:]:
        whole = _sum(whole, text)
    for text in init:
        whole = text if quantity_nano(text) > quantity_nano(whole) else whole
    return _sum(whole, overhead) if quantity_nano(overhead) and quantity_nano(whole) else whole


def _sum(text: str, other: str) -> str:
    style = quantity_style(text if quantity_nano(text) else other)
    return format_quantity_nano(quantity_nano(text) + quantity_nano(other), style)


Kind = Literal["memory", "disk", "pid"]


def kind_of(signal: str) -> Kind:
    """What a signal is about."""
    if signal in MEMORY_SIGNALS:
        return "memory"
    return "pid" if signal == "pid.available" else "disk"
