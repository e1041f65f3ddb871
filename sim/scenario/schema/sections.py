"""The schema of a scenario file, as typed values.

msgspec decodes the file: an unknown field or a wrong type is an error with its path, which
`compile` turns into file, line and column. Field names are camelCase in the file
(`controllerManager`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sim.faults.shared.parameters import Amount, Count, Strict
from sim.scenario.schema.common import Flags, Label, Matter, Name, Replicas, ReplicasOrNone
from sim.scenario.schema.hunting import Hunt
from sim.scenario.schema.steps import Step
from sim.units import JSON_WHOLE_MAX

# --- cluster --------------------------------------------------------------------------------------


class Runtime(Strict):
    """How containers behave on these nodes; durations as text."""

    image_pull: str = "0s"
    start: str = "100ms"
    exit_after: str | None = None
    exit_code: Annotated[int, Meta(ge=0, le=255)] = 0
    missing_images: list[str] | None = None
    """Globs of the names of images that cannot be pulled; [] lets every image exist.

    The default holds names that are made to fail, such as the tag `404` and the registry
    `invalid.example` (`actors.node.runtime.missing_images`).
    """
    private_images: list[str] = []
    """Globs of the names of images that need credentials: a pull secret, or a credential provider."""
    app_armor_profiles: list[str] | None = None
    """Names of the AppArmor profiles that are loaded; without the list every profile is."""
    seccomp_profiles: list[str] | None = None
    """Files of seccomp profiles on the machine, as pods name them; without the list it has all."""


class Topology(Strict):
    """How the processors and the memory of a machine are divided."""

    sockets: Annotated[int, Meta(ge=1, le=64)] = 1
    numa_nodes: Annotated[int, Meta(ge=1, le=64)] = 1
    threads_per_core: Annotated[int, Meta(ge=1, le=8)] = 1
    memory: list[Amount] = []
    """The memory of each NUMA node; without it all have the same."""


class Devices(Strict):
    """The devices of one plug-in of a machine, which pods request as an extended resource."""

    resource: str
    count: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """Their ids are `dev-0`, `dev-1` and so on."""
    ids: list[str] = []
    """Their ids, in place of `count`."""
    numa: list[Annotated[int, Meta(ge=0, le=63)]] = []
    """The NUMA node of each; without it they are near to none."""
    env: str = ""
    """The variable by which a container learns the ids of its devices."""
    register_after: str = "1s"
    """Time from the start of an agent to the registration of the plug-in."""


class NodeGroup(Strict):
    """`count` equal nodes, distributed over the zones in turn.

    Their names are `<prefix>-<zone>-<n>`, or `<prefix>-<n>` without zones.
    """

    count: Annotated[int, Meta(ge=1, le=20_000)]
    prefix: Name = "node"
    names: list[Name] = []
    """A name for each of the nodes, in place of prefix, zone and number."""
    zones: list[Name] = []
    region: str = ""
    capacity: dict[str, Amount] = msgspec.field(default_factory=lambda: {"cpu": 8, "memory": "32Gi"})
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    runtime: Runtime = msgspec.field(default_factory=Runtime)
    flags: Flags = {}
    static_pods: list[dict[str, Any]] = []
    """Manifests that the agent of each node runs by itself; the API shows their mirror pods."""
    topology: Topology = msgspec.field(default_factory=Topology)
    devices: list[Devices] = []
    swap: Amount = 0
    """The size of the machine's swap."""
    sysctls: dict[str, str] = {}
    """Of the machine's kernel, before its agent starts; others have the values that agents want."""
    lease_jitter: bool = True
    """False: leases are renewed at whole multiples of their interval."""


class MachineProfile(Strict):
    """The machine of a Node object that comes through the API."""

    capacity: dict[str, Amount] = {}
    """Where the object's `status.capacity` does not say it."""
    runtime: Runtime = msgspec.field(default_factory=Runtime)
    flags: Flags = {}


class AdoptedNodes(Strict):
    """Node objects that clients create become nodes with a machine, until they are deleted."""

    selector: str = ""
    """Of their labels, as `type=kwok`; empty: all."""
    profile: MachineProfile = msgspec.field(default_factory=MachineProfile)


class StorageEntry(Strict):
    """A storage driver, and the class of its disks.

    The driver provisions, attaches, mounts and expands volumes, each in its time; its CSIDriver and
    StorageClass exist when the run begins.
    """

    driver: Name
    class_: Name | None = msgspec.field(default=None, name="class")
    """Name of the StorageClass; the driver's name up to the first dot without it."""
    default: bool = False
    """True: claims that name no class get this one."""
    binding_mode: Literal["Immediate", "WaitForFirstConsumer"] | None = None
    """Without it WaitForFirstConsumer if not every node reaches every disk, else Immediate."""
    reclaim_policy: Literal["Delete", "Retain"] = "Delete"
    zones: list[Name] = []
    """Zones of nodes in which it has disks; a disk stays in its zone."""
    topology: str = ""
    """`zone` (the default with zones), `hostname` (disks of one node), or a label of nodes.

    Disks and their pods share its value; without it every node reaches every disk.
    """
    provision_time: str = "1s"
    delete_time: str = "1s"
    attach_time: str = "2s"
    detach_time: str = "2s"
    mount_time: str = "500ms"
    unmount_time: str = "200ms"
    expand_time: str = "1s"
    node_expand_time: str | None = None
    """Time in which a node makes a file system as large as its disk; without it 500ms for disks.

    With 0s (the default of file servers) a node has nothing to do.
    """
    fs_group_time: str = "0s"
    """Additional time of a mount for a pod with an fsGroup."""
    selinux_time: str = "0s"
    """Additional time of each mount of a file system, in which its files are relabelled."""
    limit_per_node: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """Number of disks that a node can have attached."""
    access_modes: list[Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]] = (
        msgspec.field(default_factory=lambda: ["ReadWriteOnce", "ReadWriteOncePod"])
    )
    expandable: bool | Literal["offline"] = True
    """`offline`: a disk becomes larger only while it is attached nowhere."""
    clones: bool = True
    """Claims with another claim as data source get a copy of its disk."""
    attach_required: bool = True
    """False: volumes are mounted without being attached, as those of a file server."""
    fs_group_policy: Literal["ReadWriteOnceWithFSType", "File", "None"] = "ReadWriteOnceWithFSType"
    capacity: Amount | None = None
    """What can be provisioned in each zone; no limit without it.

    With it the driver publishes CSIStorageCapacities, by which the scheduler chooses nodes.
    """


class Component(Strict):
    """One component of the control plane."""

    replicas: Replicas = 1
    flags: Flags = {}


class ApiServer(Component):
    """The API servers."""

    capacity: Amount | None = None
    """Processors of each server, as `2` or `500m`, for which requests wait by what they cost.

    Without it requests take no time of the server, however many there are.
    """


class FurtherScheduler(Component, kw_only=True):
    """A scheduler besides the first."""

    name: Name


class Daemon(Strict):
    """A component of the control plane that may run elsewhere, as a real program."""

    replicas: ReplicasOrNone = 1
    """0: none of ours runs, so that another program can do its work over the API."""
    flags: Flags = {}


class Arrivals(Strict):
    """In which order messages arrive, where the network leaves it open.

    Messages of one link, and events of one watch, keep their order.
    """

    order: Annotated[int, Meta(ge=0, le=JSON_WHOLE_MAX)] = 0
    """0: the delays that the seed draws; another number: other delays from the same range.

    With `among` the number of one of its permutations, of which 0 is the list as it is.
    """
    spread: str = "0s"
    """Every message may be later by up to this time."""
    among: list[str] = []
    """Processes, nodes and resources: messages from and to the first of them take the least time.

    Of a resource, the events of its watches.  The range of delays is divided into as many parts.
    """


class Certificates(Strict):
    """How long certificates are valid from the start of the run; those without a time outlive it."""

    agents: str = ""
    """Client certificates of node agents; by default `cluster-signing-duration` of the controllers.

    With it agents are known by them, and nodes may have them approved and replaced, as kubeadm
    grants it.
    """
    controller_managers: str = ""
    """Client certificates of controller managers, which nothing replaces by itself."""
    schedulers: str = ""
    """Client certificates of schedulers, which nothing replaces by itself."""
    api_servers: str = ""
    """Serving certificates of API servers, without which no new connection is made to them."""
    pod_tokens: bool = False
    """True: agents request tokens for pods with simulated programs, again after 80 % of their time.

    A program gets 401 when its token is over: those of 3607 s, the default, after a year, unless
    `service-account-extend-token-expiration` is false.
    """


class KubeProxy(Strict):
    """kube-proxy on each node, coarsely: clients reach what the rules say that it wrote last.

    Steps `request` need it.
    """

    min_sync_period: str = "1s"
    """The option `iptables-min-sync-period`: rules are written so often, after a burst of two."""
    sync_time: str = "50ms"
    """What writing the rules takes."""
    endpoint_time: str = "50us"
    """What it takes in addition for each endpoint of each Service: an estimate, none was measured."""


class Program(Strict):
    """The program of an image."""

    forward: str
    """HOST:PORT of a server on this machine, which gets the requests over HTTP to such containers.

    Only while the cluster is served.
    """


class Cluster(Strict):
    """The simulated cluster."""

    naming: Literal["orch", "kubernetes"] = "orch"
    nodes: list[NodeGroup] = []
    api_server: ApiServer = msgspec.field(default_factory=ApiServer)
    controller_manager: Daemon = msgspec.field(default_factory=Daemon)
    scheduler: Daemon = msgspec.field(default_factory=Daemon)
    schedulers: list[FurtherScheduler] = []
    """Further schedulers, for the pods with their name as `schedulerName`, or those of their config.

    They elect no leader unless a flag says so, which needs a role that allows their lease.
    """
    latency: str | None = None
    """One-way delay between hosts, "500us" or "200us..2ms"."""
    arrivals: Arrivals | None = None
    """The order in which messages of several processes arrive, by default as the seed draws it."""
    boot: str = "10s"
    """Machines boot at random instants within this time, so that their loops have random phases."""
    certificates: Certificates = msgspec.field(default_factory=Certificates)
    adopt_nodes: AdoptedNodes | None = None
    """Without it a Node object that a client creates stays without a machine, and NotReady."""
    storage: list[StorageEntry] = []
    """Storage drivers; without one, only volumes that exist as objects can be bound."""
    kube_proxy: KubeProxy | None = None
    """With it, `{}` at least, each node has a proxy, and clients may send requests to Services."""
    metrics: bool = False
    """True: there is a metrics server, from which autoscaling learns what pods use."""
    established: bool = False
    """True: nodes are Ready and the pods of `spec.objects` run when the run begins.

    Jobs, StatefulSets with claims, and pods that wait for something (probes, init containers,
    mounted objects) start as usual.
    """
    places: dict[str, list[Name]] = {}
    """The nodes of the pods of a workload, `deployments/NAMESPACE/NAME: [node-0, node-0, node-1]`.

    One node for each pod, in a StatefulSet by ordinal; further pods go where the scheduler chooses.
    Needs `established: true`.
    """
    programs: dict[str, Program] = {}
    """Programs of images that are real: `my-image:1: {forward: "127.0.0.1:9000"}`."""
    own_programs: list[Name] = []
    """Names of controllers of your own, which faults of processes may name.

    A file names no code: `--program NAME=MODULE:FUNCTION` does, or `add_program` in Python.
    """
    network_policies: Literal["ignored", "enforced"] = "ignored"
    """`enforced`: the network of the nodes has a plugin that enforces NetworkPolicies."""
    epoch: str = ""
    """Time of the wall clock at the start, as 2026-11-28T16:00:00Z; default 2026-01-01T00:00:00Z."""
    served: bool = False
    """True: with what `orrery serve` adds: authorities are published, and nodes are restricted.

    A scenario that was saved from a served cluster has it, so that its run is the same.
    """


# --- expectations ---------------------------------------------------------------------------------


class Unavailability(Strict):
    """Too few pods of a workload serve, for at most so long.

    of: deployments/NAME, or deployments/NAMESPACE/NAME; or a component of the control plane:
        apiserver (its replicas), controller-manager or scheduler (its leader)
    below: fewer than these are too few; the default is the workload's replicas at each instant, and
        1 of a component
    view: truth (a pod on a machine without power does not serve, nor a leader without a process),
        or as the control plane sees it
    """

    of: str
    at_most: str
    below: Count | UnsetType = UNSET
    view: Literal["truth", "controlPlane"] = "truth"


class Invariant(Strict):
    """Something that a cluster should always do, by its name; `orrery conditions` lists them.

    within: a time that the invariant allows, as 5m
    at_most: a number that the invariant allows
    """

    name: str
    within: str | UnsetType = UNSET
    at_most: Count | UnsetType = UNSET


class Expectation(Strict):
    """One expectation; exactly one of when, never, always, eventually, count, order, unavailability
    and invariant is given.
    """

    name: Annotated[Label, Meta(min_length=1)]
    when: str | Matter | UnsetType = UNSET
    within: Annotated[list[str], Meta(min_length=2, max_length=2)] | UnsetType = UNSET
    never: str | Matter | UnsetType = UNSET
    always: str | UnsetType = UNSET
    eventually: str | Matter | UnsetType = UNSET
    count: str | Matter | UnsetType = UNSET
    order: list[str | Matter] | UnsetType = UNSET
    unavailability: Unavailability | UnsetType = UNSET
    invariant: str | Invariant | UnsetType = UNSET
    after: str = ""
    """Start of the window: a step, a kind of action, "end of NAME", or a time; default 0.

    "last fault": the last begin or end of a fault, or 0 without one; "last disturbance": of any
    step but `mark`.
    """
    until: str = ""
    by: str = ""
    per: str | UnsetType = UNSET
    """Of `count`: a time, as 1m; the most changes of one object within any such time are counted."""
    again: bool = False
    """True: a condition that holds when the window opens has to cease to hold first."""
    fails: bool = False
    """True: it has to fail, as in a variant of a scenario that avoids what the scenario shows."""
    over: dict[str, Any] | UnsetType = UNSET
    """Bounds on the distribution over many seeds (`sim.check.over`).

    {p99: "<= 44.2s", mean: [36s, 39s], seeds: 1000}; `like: {file: deaths.csv}` compares with
    samples that were measured elsewhere.
    """
    equals: Count | UnsetType = UNSET
    at_least: Count | UnsetType = UNSET
    at_most: Count | UnsetType = UNSET


class Variant(Strict):
    """The scenario with other settings, and what does not happen then.

    set: values by their path, as for `--set`: {"cluster.nodes[0].count": 6}
    fails: names of the expectations that have to fail in the variant; all others have to hold
    """

    set: dict[str, Any]
    description: str = ""
    fails: list[Label] = []


class Metadata(Strict):
    """Name and description of the scenario."""

    name: Name
    description: str = ""


class Spec(Strict):
    """The cluster, the timeline, and the expectations."""

    seed: Annotated[int, Meta(ge=0, le=JSON_WHOLE_MAX)] = 0
    duration: str = "10m"
    cluster: Cluster = msgspec.field(default_factory=Cluster)
    objects: list[str | dict[str, Any]] = []
    timeline: list[Step] = []
    expect: list[Expectation] = []
    variants: dict[Name, Variant] = {}
    """What is tried beside the scenario: `orrery run FILE --variant NAME`."""
    hunt: Hunt | UnsetType = UNSET


class Scenario(Strict):
    """A scenario file."""

    api_version: Literal["orrery.dev/v1"]
    kind: Literal["Scenario"]
    metadata: Metadata
    spec: Spec
