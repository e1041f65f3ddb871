"""The scenario file as typed values: what may stand where.

Decoding is msgspec's: unknown fields and wrong types are refused with their path, which `compile` turns into
file, line and column.  Field names are camelCase in the file (`controllerManager`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Replicas = Annotated[int, Meta(ge=1, le=9)]
Name = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Flags = dict[str, Any]
OneOrMore = str | list[str]


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    pass


# --- cluster ------------------------------------------------------------------------------------------------


class Runtime(_Strict):
    """How containers behave on these nodes; durations as text."""

    image_pull: str = "0s"
    start: str = "100ms"
    exit_after: str | None = None
    exit_code: int = 0


class NodeGroup(_Strict):
    """`count` equal nodes, dealt to the zones in turn.  Names: `<prefix>-<zone>-<n>`, or `<prefix>-<n>` without zones."""

    count: Annotated[int, Meta(ge=1, le=20_000)]
    prefix: Name = "node"
    zones: list[Name] = []
    region: str = ""
    capacity: dict[str, str | int] = msgspec.field(
        default_factory=lambda: {"cpu": 8, "memory": "32Gi", "pods": 110}
    )
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    runtime: Runtime = msgspec.field(default_factory=Runtime)
    flags: Flags = {}


class Component(_Strict):
    replicas: Replicas = 1
    flags: Flags = {}


class Cluster(_Strict):
    naming: Literal["orch", "kubernetes"] = "orch"
    nodes: list[NodeGroup] = []
    api_server: Component = msgspec.field(default_factory=Component)
    controller_manager: Component = msgspec.field(default_factory=Component)
    scheduler: Component = msgspec.field(default_factory=Component)
    latency: str | None = None
    """One-way delay between hosts, "500us" or "200us..2ms"."""
    boot: str = "10s"
    """Machines come up at random instants within this time, so that their loops have random phases."""


# --- timeline -----------------------------------------------------------------------------------------------


class Nodes(_Strict):
    """Which nodes: all that match every part given; `count` takes the first so many by name."""

    zone: OneOrMore | UnsetType = UNSET
    name: OneOrMore | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    count: Annotated[int, Meta(ge=1)] | UnsetType = UNSET


class Target(_Strict):
    """One object, or those of a kind that match a label selector."""

    resource: str
    namespace: str = "default"
    name: str | UnsetType = UNSET
    selector: str | UnsetType = UNSET


class Fail(_Strict):
    nodes: Nodes
    how: Literal["power-loss", "hang", "network-cut", "agent-crash", "runtime-failure"]


class Partition(_Strict):
    between: Annotated[list[OneOrMore], Meta(min_length=2, max_length=2)]
    one_way: bool = False


class Heal(_Strict):
    nodes: Nodes | UnsetType = UNSET
    step: str | UnsetType = UNSET
    """Name of the earlier step whose fault ends."""


class Reboot(_Strict):
    nodes: Nodes
    downtime: str = "60s"


class Crash(_Strict):
    actor: OneOrMore
    restart_after: str | None = None


class Stall(_Strict):
    actor: OneOrMore


class Slow(_Strict):
    actor: OneOrMore
    by: str


class Clock(_Strict):
    actor: OneOrMore
    offset: str = "0s"
    drift_ppm: Annotated[int, Meta(ge=-999_999, le=1_000_000)] = 0


class Storage(_Strict):
    how: Literal["pause", "unavailable", "slow"]
    by: str = "0s"


class Lag(_Strict):
    api_server: str
    by: str


class DropWatches(_Strict):
    resource: str = ""
    client: str = ""


class Compact(_Strict):
    pass


class Network(_Strict):
    between: Annotated[list[OneOrMore], Meta(min_length=2, max_length=2)]
    latency: str | None = None
    loss: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    duplication: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    one_way: bool = False


class Apply(_Strict):
    files: list[str] = []
    objects: list[dict[str, Any]] = []


class Scale(_Strict):
    resource: str
    name: str
    replicas: Count
    namespace: str = "default"


class Delete(Target):
    grace_period_seconds: Annotated[int, Meta(ge=0)] | UnsetType = UNSET


class Cordon(_Strict):
    nodes: Nodes


class Drain(_Strict):
    nodes: Nodes
    timeout: str = "10m"


class Step(_Strict):
    """One step of the timeline: when, and exactly one thing that happens."""

    at: str
    name: str = ""
    for_: str | UnsetType = msgspec.field(name="for", default=UNSET)
    fail: Fail | UnsetType = UNSET
    heal: Heal | UnsetType = UNSET
    reboot: Reboot | UnsetType = UNSET
    partition: Partition | UnsetType = UNSET
    network: Network | UnsetType = UNSET
    crash: Crash | UnsetType = UNSET
    start: Stall | UnsetType = UNSET
    stall: Stall | UnsetType = UNSET
    slow: Slow | UnsetType = UNSET
    clock: Clock | UnsetType = UNSET
    storage: Storage | UnsetType = UNSET
    lag: Lag | UnsetType = UNSET
    drop_watches: DropWatches | UnsetType = UNSET
    compact: Compact | UnsetType = UNSET
    apply: Apply | UnsetType = UNSET
    scale: Scale | UnsetType = UNSET
    delete: Delete | UnsetType = UNSET
    cordon: Cordon | UnsetType = UNSET
    uncordon: Cordon | UnsetType = UNSET
    drain: Drain | UnsetType = UNSET


# --- expectations -------------------------------------------------------------------------------------------


class Matter(_Strict):
    """Something that happens to objects: one of these names a resource."""

    created: str | UnsetType = UNSET
    deleted: str | UnsetType = UNSET
    removed: str | UnsetType = UNSET
    changed: str | UnsetType = UNSET
    event: str | UnsetType = UNSET
    """Reason of an Event object recorded."""
    where: dict[str, Any] = {}


class Expectation(_Strict):
    """One expectation; exactly one of when, never, always, eventually, count and order is given."""

    name: Annotated[str, Meta(min_length=1)]
    when: str | Matter | UnsetType = UNSET
    within: Annotated[list[str], Meta(min_length=2, max_length=2)] | UnsetType = UNSET
    never: str | Matter | UnsetType = UNSET
    always: str | UnsetType = UNSET
    eventually: str | Matter | UnsetType = UNSET
    count: str | Matter | UnsetType = UNSET
    order: list[str | Matter] | UnsetType = UNSET
    after: str = ""
    """Name of the step (or kind of action) measured from; default the start of the run."""
    until: str = ""
    by: str = ""
    over: dict[str, Any] | UnsetType = UNSET
    """Bounds on the distribution over many seeds (sim.check.over): {p99: "<= 44.2s", mean: [36s, 39s], seeds: 1000}."""
    equals: Count | UnsetType = UNSET
    at_least: Count | UnsetType = UNSET
    at_most: Count | UnsetType = UNSET


class Metadata(_Strict):
    name: Name
    description: str = ""


class Spec(_Strict):
    seed: Annotated[int, Meta(ge=0, le=(1 << 53) - 1)] = 0
    duration: str = "10m"
    cluster: Cluster = msgspec.field(default_factory=Cluster)
    objects: list[str | dict[str, Any]] = []
    timeline: list[Step] = []
    expect: list[Expectation] = []


class Scenario(_Strict):
    api_version: Literal["orrery.dev/v1"]
    kind: Literal["Scenario"]
    metadata: Metadata
    spec: Spec
