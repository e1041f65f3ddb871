"""The timeline of a scenario as typed values: what a step may do, and when.

A step is one action (`Actions`) and what says when it happens (`Step`): at a time, when a condition holds, after
another step; once or again and again; or it is one of several drawn at random (`Drawn`).  Durations are text; where
`SPAN` is said, "10s..60s" draws one each time.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sim.scenario.read.common import Amount, Count, Label, Matter, OneOrMore, Strict

Pick = Annotated[int, Meta(ge=1, le=20_000)]
Share = Annotated[float, Meta(ge=0, lt=1)]
# A hundredth of its pace: what such a clock has begun to wait for comes long after it is put right, but comes.
DRIFT_MIN_PPM = -990_000
Two = Annotated[list[OneOrMore], Meta(min_length=2, max_length=2)]


class Nodes(Strict):
    """Which nodes: all that match every part given; `count` takes the first so many by name, `pick` some at random."""

    zone: OneOrMore | UnsetType = UNSET
    name: OneOrMore | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    count: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    pick: Pick | UnsetType = UNSET


class Target(Strict):
    """One object, or those of a kind that match a label selector."""

    resource: str
    namespace: str = "default"
    name: str | UnsetType = UNSET
    selector: str | UnsetType = UNSET


# --- faults of nodes and what runs on them ------------------------------------------------------------------


class Fail(Strict):
    nodes: Nodes
    how: Literal[
        "power-loss",
        "shutdown",
        "hang",
        "network-cut",
        "agent-crash",
        "runtime-failure",
        "runtime-hang",
        "slow-disk",
        "pod-network-failure",
        "instance-stopped",
        "instance-deleted",
    ]
    by: str | UnsetType = UNSET
    """How much longer everything takes on a slow disk."""


class Reboot(Strict):
    nodes: Nodes
    downtime: str = "60s"


class Pressure(Strict):
    """Only so much of a resource stays available on the nodes."""

    nodes: Nodes
    resource: Literal["memory", "nodefs", "imagefs", "nodefs-inodes", "imagefs-inodes", "pid"]
    available: Amount
    ramp: str = "0s"
    """From what is available now to `available` in a straight line over this time."""


class Workload(Strict):
    """How the programs of pods behave from now on; those that run already change too."""

    namespace: str = ""
    selector: str = ""
    name: str = ""
    """Prefix of the pods' names."""
    image: str = ""
    container: str = ""
    nodes: Nodes | UnsetType = UNSET
    """Only on these nodes; default everywhere."""
    exit_after: str | UnsetType = UNSET
    exit_code: Annotated[int, Meta(ge=0, le=255)] | UnsetType = UNSET
    ready: bool | UnsetType = UNSET
    """False: every probe fails."""
    ready_after: str | UnsetType = UNSET
    """Probes fail until so long after the start of a container."""
    start_error: str | UnsetType = UNSET
    pull_error: str | UnsetType = UNSET
    stop: str | UnsetType = UNSET
    """Time from SIGTERM to its end; "never" waits for SIGKILL."""
    memory: Amount | UnsetType = UNSET
    log_rate: Amount | UnsetType = UNSET
    """Bytes a second that each container logs."""
    cpu: Amount | UnsetType = UNSET
    """What each container uses, as a metrics server sees it."""
    load: Amount | UnsetType = UNSET
    """Cpu that the pods of a target use together: each that is ready has its share."""


class Manifest(Strict):
    """A file of a static pod on each node: written (new, or anew), spoiled (there is no pod in it any more) or removed.

    Files are called as their pods, NAMESPACE.NAME outside of `default`; `file` writes another.
    """

    nodes: Nodes
    write: dict[str, Any] | UnsetType = UNSET
    file: str = ""
    spoil: str | UnsetType = UNSET
    remove: str | UnsetType = UNSET


class Metric(Strict):
    """What is measured from now on, as autoscaling sees it; one of value and load."""

    name: str
    value: Amount | UnsetType = UNSET
    load: Amount | UnsetType = UNSET
    """Of pods: so much for all that are ready together, each of which has its share."""
    of: str | UnsetType = UNSET
    """pods, or an object as services/web; left out: something outside the cluster."""
    namespace: str = "default"
    selector: str = ""
    """Of pods: which."""
    labels: dict[str, str] = {}
    """Of the series, by which an autoscaler may choose among those of a name."""


# --- faults of the network and of processes -----------------------------------------------------------------


class Partition(Strict):
    between: Two
    one_way: bool = False


class Network(Strict):
    between: Two
    latency: str | UnsetType = UNSET
    loss: Share = 0.0
    duplication: Share = 0.0
    one_way: bool = False


class Crash(Strict):
    """gracefully: by SIGTERM, on which a leading scheduler gives its lease up, and an API server ends bit by bit; else by SIGKILL.

    Who has not ended yet when it is to start again starts when it has.
    """

    actor: OneOrMore
    pick: Pick | UnsetType = UNSET
    restart_after: str | UnsetType = UNSET
    gracefully: bool = False


class Stall(Strict):
    actor: OneOrMore
    pick: Pick | UnsetType = UNSET


class Slow(Strict):
    actor: OneOrMore
    by: str
    pick: Pick | UnsetType = UNSET


class Clock(Strict):
    actor: OneOrMore
    pick: Pick | UnsetType = UNSET
    offset: str = "0s"
    drift_ppm: Annotated[int, Meta(ge=DRIFT_MIN_PPM, le=1_000_000)] = 0


class LoseLease(Strict):
    """Somebody else takes the lease of the leading replica."""

    component: Literal["controller-manager", "scheduler"]
    holder: str = "intruder"


# --- faults of the control plane ----------------------------------------------------------------------------


class Storage(Strict):
    how: Literal["pause", "lost-quorum", "slow"]
    by: str | UnsetType = UNSET


class Cloud(Strict):
    """The cloud does not answer questions about instances, or takes longer for each."""

    how: Literal["outage", "slow"]
    by: str | UnsetType = UNSET


class Overload(Strict):
    """A replica takes longer for each request, or serves only so many at once and refuses the others (429)."""

    api_server: OneOrMore
    by: str | UnsetType = UNSET
    inflight: Annotated[int, Meta(ge=0, le=100_000)] | UnsetType = UNSET


class Lag(Strict):
    api_server: OneOrMore
    by: str


class Diverge(Strict):
    """A replica's watch caches stay as they are: it and the others show different states."""

    api_server: OneOrMore


class DropWatches(Strict):
    resource: str = ""
    client: str = ""


class Compact(Strict):
    keep: str = "0s"
    """Keep so much of the latest history."""


# --- what people and programs do ----------------------------------------------------------------------------


class Apply(Strict):
    files: list[str] = []
    objects: list[dict[str, Any]] = []


class Scale(Strict):
    resource: str
    name: str
    replicas: Count
    namespace: str = "default"


class Delete(Target):
    grace_period_seconds: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    propagation_policy: Literal["Background", "Foreground", "Orphan"] | UnsetType = UNSET


class Patch(Target, kw_only=True):
    """`merge`: a JSON merge patch; `subresource`: of what, such as status."""

    merge: dict[str, Any]
    subresource: str = ""


class Evict(Strict):
    namespace: str = "default"
    name: str | UnsetType = UNSET
    selector: str | UnsetType = UNSET


class Cordon(Strict):
    nodes: Nodes


class Taint(Strict):
    nodes: Nodes
    taints: list[dict[str, str]]
    """As in the API: {key, value, effect}.  To take taints away value counts for nothing, and no effect is any."""


class Drain(Strict):
    nodes: Nodes
    timeout: str = "10m"


class LoadScale(Strict):
    """Which object a load scales, and between which numbers."""

    resource: str
    name: str
    between: Annotated[list[Count], Meta(min_length=2, max_length=2)]
    namespace: str = "default"


class Load(Strict):
    """Requests at a rate: objects made (and deleted again), an object scaled, or lists read."""

    rate: str
    create: dict[str, Any] | UnsetType = UNSET
    """A manifest; each object's name gets a number."""
    lifetime: str | UnsetType = UNSET
    """Each object made is deleted after this time."""
    scale: LoadScale | UnsetType = UNSET
    list_: str | UnsetType = msgspec.field(name="list", default=UNSET)
    """A resource, listed from the storage each time."""


class Heal(Strict):
    nodes: Nodes | UnsetType = UNSET
    step: str | UnsetType = UNSET
    """Name of the earlier step whose fault ends."""


# --- steps --------------------------------------------------------------------------------------------------


class Actions(Strict):
    """Everything that a step may do; exactly one is given."""

    fail: Fail | UnsetType = UNSET
    reboot: Reboot | UnsetType = UNSET
    pressure: Pressure | UnsetType = UNSET
    workload: Workload | UnsetType = UNSET
    manifest: Manifest | UnsetType = UNSET
    metric: Metric | UnsetType = UNSET
    heal: Heal | UnsetType = UNSET
    partition: Partition | UnsetType = UNSET
    network: Network | UnsetType = UNSET
    crash: Crash | UnsetType = UNSET
    start: Stall | UnsetType = UNSET
    stall: Stall | UnsetType = UNSET
    slow: Slow | UnsetType = UNSET
    clock: Clock | UnsetType = UNSET
    lose_lease: LoseLease | UnsetType = UNSET
    storage: Storage | UnsetType = UNSET
    cloud: Cloud | UnsetType = UNSET
    overload: Overload | UnsetType = UNSET
    lag: Lag | UnsetType = UNSET
    diverge: Diverge | UnsetType = UNSET
    drop_watches: DropWatches | UnsetType = UNSET
    compact: Compact | UnsetType = UNSET
    apply: Apply | UnsetType = UNSET
    scale: Scale | UnsetType = UNSET
    delete: Delete | UnsetType = UNSET
    patch: Patch | UnsetType = UNSET
    evict: Evict | UnsetType = UNSET
    cordon: Cordon | UnsetType = UNSET
    uncordon: Cordon | UnsetType = UNSET
    taint: Taint | UnsetType = UNSET
    untaint: Taint | UnsetType = UNSET
    drain: Drain | UnsetType = UNSET
    load: Load | UnsetType = UNSET


ACTIONS = Actions.__struct_fields__


class Drawn(Actions):
    """One of the actions that a random step draws from; `weight` is its share of the draws."""

    weight: Annotated[int, Meta(ge=1, le=1_000)] = 1
    for_: str | UnsetType = msgspec.field(name="for", default=UNSET)


class Step(Actions):
    """One step: when, and exactly one action or `random`.  at, delay, for and every are SPANs."""

    name: Label = ""
    at: str | UnsetType = UNSET
    when: str | Matter | UnsetType = UNSET
    after: str | UnsetType = UNSET
    delay: str | UnsetType = UNSET
    every: str | UnsetType = UNSET
    rate: str | UnsetType = UNSET
    times: Annotated[int, Meta(ge=1, le=100_000)] | UnsetType = UNSET
    until: str | UnsetType = UNSET
    for_: str | UnsetType = msgspec.field(name="for", default=UNSET)
    random: Annotated[list[Drawn], Meta(min_length=1)] | UnsetType = UNSET
