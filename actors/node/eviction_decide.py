"""Which pressure a node is under, and which pod goes first.  Pure.

Turns what is available of each resource, at one instant, and what earlier checks remembered into node conditions and
thresholds to act on (`judge`); and pods with their use into the order in which they go (`rank`).

Holds: a met threshold stays met until its minimum reclaim is passed too; a condition is shown until the transition
period after it was last observed; memory comes before every other resource.

Mirrors  pkg/kubelet/eviction/eviction_manager.go: synchronize; helpers.go: ParseThresholdConfig, thresholdsMet,
         rankMemoryPressure, rankDiskPressureFunc, rankPIDPressure, evictionMessage (v1.25).
Differs  what upstream leaves to chance has an order: thresholds in that of `RANKS`, equal pods by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from actors.node.node_status import threshold_value
from sim.options.node_agent import NodeAgentOptions
from sim.units import BINARY_SI, format_quantity

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
    """value and reclaim: quantities or percentages; grace_us 0: hard."""

    signal: str
    value: str
    grace_us: int = 0
    reclaim: str = ""

    def floor(self, capacity: int, *, reclaimed: bool) -> int:
        """Met while less than this is available; `reclaimed` adds the minimum reclaim."""
        low = threshold_value(self.value, str(capacity))
        return low + threshold_value(self.reclaim, str(capacity)) if reclaimed and self.reclaim else low


@dataclass(frozen=True, slots=True)
class Past:
    """What a check leaves to the next: since when thresholds are met, when conditions were last seen, what is met."""

    since_us: Mapping[Threshold, int] = field(default_factory=dict)
    seen_us: Mapping[str, int] = field(default_factory=dict)
    met: tuple[Threshold, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def quiet(self) -> bool:
        """Nothing is to be watched: the next check matters when something becomes short."""
        return not (self.since_us or self.seen_us)


def thresholds_of(options: NodeAgentOptions) -> tuple[Threshold, ...]:
    """All thresholds, in the order in which they are acted on."""
    found = []
    for signal in RANKS:
        if signal == ALLOCATABLE and "pods" not in options.enforce_node_allocatable:
            continue
        # Quirk: each hard memory threshold also guards what the cgroup of all pods may use, and a soft one without grace is hard.
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
    """Those below whose floor the observations are, strictly."""
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
    """One check: what is met now and long enough (`Past.met`), and the conditions to show."""
    now_met = dict.fromkeys(met(thresholds, observed, reclaimed=False))
    now_met |= dict.fromkeys(met(past.met, observed, reclaimed=True))
    since_us = {t: past.since_us.get(t, now_us) for t in now_met}
    seen_us = {**past.seen_us, **{RANKS[t.signal][0]: now_us for t in now_met}}
    seen_us = {condition: at_us for condition, at_us in seen_us.items() if now_us - at_us < transition_us}
    due = tuple(t for t in now_met if now_us - since_us[t] >= t.grace_us)
    return Past(since_us, seen_us, due, tuple(c for c in CONDITIONS if c in seen_us))


def first(thresholds: Sequence[Threshold]) -> Threshold | None:
    """The one to act on."""
    order = list(RANKS)
    return min(thresholds, key=lambda t: (order.index(t.signal), t.grace_us), default=None)


# --- pods ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may be evicted; `used` and `asked` of the resource that is short, `containers` likewise by name.

    known: False before anything of it runs, so that its use is not known
    """

    name: str
    priority: int
    used: int
    asked: int
    containers: tuple[tuple[str, int, int], ...] = ()
    known: bool = True


def rank(signal: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Over their requests first, then the less important, then the larger use beyond the request.

    Pods whose use is not known go before all others; for process numbers requests do not count.
    """
    if signal == "pid.available":
        return sorted(candidates, key=lambda c: (c.priority, c.known, -c.used, c.name))
    return sorted(
        candidates, key=lambda c: (c.known, c.used <= c.asked, c.priority, c.asked - c.used, c.name)
    )


def eviction_message(resource: str, candidate: Candidate) -> tuple[str, dict[str, str]]:
    """The text of an eviction, and the annotations of its event."""
    text = f"The node was low on resource: {resource}. "
    over = [(name, used, asked) for name, used, asked in candidate.containers if used > asked]
    for name, used, asked in over:
        shown = format_quantity(used, BINARY_SI), format_quantity(asked, BINARY_SI)
        text += f"Container {name} was using {shown[0]}, which exceeds its request of {shown[1]}. "
    annotations = {
        "offending_containers": ",".join(name for name, _, _ in over),
        "offending_containers_usage": ",".join(format_quantity(used, BINARY_SI) for _, used, _ in over),
        "starved_resource": resource,
    }
    return text, annotations


# --- limits of local storage --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocalUse:
    """A pod's use of local storage against its limits, each (name, used, limit); limit 0: none."""

    volumes: tuple[tuple[str, int, int], ...] = ()
    containers: tuple[tuple[str, int, int], ...] = ()
    total_limit: int = 0

    @property
    def total(self) -> int:
        return sum(used for _, used, _ in self.volumes) + sum(used for _, used, _ in self.containers)


def over_local_limit(use: LocalUse) -> str:
    """Why the pod must go, "" if it need not: emptyDir volumes, then the whole pod, then single containers."""
    for name, used, limit in use.volumes:
        if limit and used > limit:
            return (
                f'Usage of EmptyDir volume "{name}" exceeds the limit "{format_quantity(limit, BINARY_SI)}". '
            )
    if use.total_limit and use.total > use.total_limit:
        shown = format_quantity(use.total_limit, BINARY_SI)
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {shown}. "
    for name, used, limit in use.containers:
        if limit and used > limit:
            shown = format_quantity(limit, BINARY_SI)
            return f'Container {name} exceeded its local ephemeral storage limit "{shown}". '
    return ""


Kind = Literal["memory", "disk", "pid"]


def kind_of(signal: str) -> Kind:
    if signal in MEMORY_SIGNALS:
        return "memory"
    return "pid" if signal == "pid.available" else "disk"
