"""A node and the programs on it as a scenario describes them, as frozen values.

Turns scenario settings into `NodeSpec` (the machine) and `RuntimeProfile` (how its runtime and the
containers on it behave).  Nothing here changes during a run; faults change the `Machine`.

Differs  upstream runs real programs; here a container's behaviour is a value, chosen by the first
         `Rule` that covers its pod, or by a well-known command or image.  Latencies are constants of the
         profile: their spread comes from the phases of the agent's tickers and from the network.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from actors.node.runtime.commands import AT_ONCE_US, commanded
from actors.node.runtime.missing_images import MISSING_IMAGES, pull_error
from actors.node.runtime.programs import image_entry, is_known, on_term, words_of
from sim.api.kinds.common.volumes.binding import claim_name
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.options.machines import PLAIN, DeviceSpec, TopologySpec
from sim.units import MS, SECOND


@dataclass(frozen=True, slots=True)
class ContainerBehaviour:
    """How one container's program behaves.  Times count from its start.

    exit_after_us: when it ends by itself (None: runs until stopped), with `exit_code`
    healthy_after_us: its probes fail until then
    unhealthy_after_us: its probes fail from then on (None: never)
    answers_probes: True if these times alone decide about its probes, not their handlers
    stop_us: time from SIGTERM to its exit, with `stop_exit_code`; None ignores SIGTERM and waits for
        SIGKILL
    memory_bytes: its working set while it runs, reached in a straight line over memory_ramp_us,
        which begins with memory_from
    cpu_milli: the CPU that it uses
    load_milli: the CPU that all pods of its kind use together (`sim.app.metrics`)
    log_bytes, volume_bytes: on the node's file system, as logs and in its first mounted emptyDir
        volume
    log_rate: bytes a second that its log grows by besides, in files that are rotated
    layer_bytes: what it writes into its own layer, on the images' file system
    inodes, processes: how many of them it holds
    start_error: the runtime's message when the start fails (RunContainerError), "" for success
    log: the text that it logs
    """

    exit_after_us: int | None = None
    exit_code: int = 0
    healthy_after_us: int = 0
    unhealthy_after_us: int | None = None
    answers_probes: bool = False
    stop_us: int | None = 200 * MS
    stop_exit_code: int = 0
    memory_bytes: int = 0
    memory_ramp_us: int = 0
    memory_from: int = 0
    cpu_milli: int = 0
    load_milli: int = 0
    log_bytes: int = 0
    log_rate: int = 0
    volume_bytes: int = 0
    layer_bytes: int = 0
    inodes: int = 0
    processes: int = 1
    start_error: str = ""
    log: str = ""

    @property
    def uses_much(self) -> bool:
        """True if the container can make the node short of a resource."""
        return bool(
            self.memory_bytes or self.log_bytes or self.log_rate or self.volume_bytes or self.layer_bytes or self.inodes
            or self.processes > 1
        )  # fmt: skip


FOREVER = ContainerBehaviour()
LATE = "late_us"  # a change that is no field
USAGE = ("cpu_milli", "load_milli", "memory_bytes")  # the fields that a metrics server shows
# An init container that does not end would hold up its pod without limit.
RUN_TO_END = ContainerBehaviour(exit_after_us=AT_ONCE_US)
# A Job's program that nothing is known about does its work and ends, as in kwok's stage
# pod-complete: else every chart with a hook Job would wait for it without end.
JOB_US = 5 * SECOND


@dataclass(frozen=True, slots=True)
class Rule:
    """The behaviour of containers of pods in `namespace` with `labels`, and with this container
    name; "" covers all.
    """

    behaviour: ContainerBehaviour
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    pod_prefix: str = ""
    container: str = ""

    def covers(self, pod: Obj, container: str) -> bool:
        """True if the rule covers this container of the pod."""
        meta = pod["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        if self.container and container != self.container:
            return False
        if self.pod_prefix and not meta["name"].startswith(self.pod_prefix):
            return False
        labels = meta.get("labels") or {}
        return all(labels.get(key) == value for key, value in self.labels.items())


@dataclass(frozen=True, slots=True)
class Override:
    """A fault of containers: `changes` to the behaviour of those that it covers, or LATE, by which
    their commands take longer, and their answers to probes (not to TCP, which the kernel answers).

    Init containers are covered only through their name or their image.

    claim: the key of a claim that the container mounts for writing
    uids: of the pods; None: all
    pull_error: the image is absent and a pull of it fails with this error
    record, since_us: the trace record of the fault, and when it began
    """

    changes: Mapping[str, Any]
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    pod_prefix: str = ""
    image: str = ""
    container: str = ""
    claim: str = ""
    uids: Collection[str] | None = None
    pull_error: str = ""
    record: int = 0
    since_us: int = 0

    @property
    def usage(self) -> bool:
        """True if the fault changes what containers use of a resource."""
        return any(name in USAGE for name in self.changes)

    def covers(self, pod: Obj, container: str, init: bool) -> bool:
        """True if the fault covers this container of the pod."""
        if self.uids is not None and pod["metadata"]["uid"] not in self.uids:
            return False
        if self.claim:
            return _writes_to(self.claim, pod, container, init)
        if init and not self.image and self.container != container:
            return False
        rule = Rule(FOREVER, self.namespace, self.labels, self.pod_prefix, self.container)
        if not rule.covers(pod, container):
            return False
        specs = pod["spec"].get("initContainers" if init else "containers") or ()
        return not self.image or any(c["name"] == container and c["image"] == self.image for c in specs)


def _writes_to(claim: str, pod: Obj, container: str, init: bool) -> bool:
    """True if a container of the pod mounts the volume of a claim, and not to read only."""
    namespace, _, name = claim.partition("/")
    if pod["metadata"].get("namespace", "default") != namespace:
        return False
    volumes = [
        volume["name"]
        for volume in pod["spec"].get("volumes") or ()
        if claim_name(pod, volume) == name and not (volume.get("persistentVolumeClaim") or {}).get("readOnly")
    ]
    return bool(volumes) and any(
        mount["name"] in volumes and not mount.get("readOnly")
        for each in pod["spec"].get("initContainers" if init else "containers") or ()
        if each["name"] == container
        for mount in each.get("volumeMounts") or ()
    )


@dataclass(frozen=True, slots=True)
class RuntimeProfile:
    """Latencies and contents of a node's runtime.

    The defaults make a warm node: pods run about 1 s after they are bound, of which half a second
        is the wait for the next relist.  sandbox_us and start_us have the size that containerd
        shows on an idle machine.

    warm: every image is present from the start; else only those in `images` (name -> bytes)
    pull_us: time to pull an absent image
    refresh_us: time to check a present one (policy Always)
    image_disk_bytes: size of the images' own file system; 0: they use the node's
    broken_images: image -> the error with which its pull fails
    missing_images: globs of the names of images that no registry holds
    private_images: globs of those that need credentials
    app_armor_profiles, seccomp_profiles: names of those that the machine has; None: every one
    shutdown_us: from the end of the agent's delay of a shutdown until the power is off
    """

    sandbox_us: int = 300 * MS
    start_us: int = 100 * MS
    warm: bool = True
    images: Mapping[str, int] = field(default_factory=dict)
    pull_us: int = 5 * SECOND
    refresh_us: int = 500 * MS
    image_bytes: int = 100_000_000
    image_disk_bytes: int = 0
    shutdown_us: int = 2 * SECOND
    broken_images: Mapping[str, str] = field(default_factory=dict)
    missing_images: tuple[str, ...] = MISSING_IMAGES
    private_images: tuple[str, ...] = ()
    app_armor_profiles: tuple[str, ...] | None = None
    seccomp_profiles: tuple[str, ...] | None = None
    rules: tuple[Rule, ...] = ()
    overrides: tuple[Override, ...] = ()

    def behaviour(self, pod: Obj, container: str, init: bool, *, runs: bool = False) -> ContainerBehaviour:
        """The behaviour of a container while the active faults last.

        runs: True if its programs are simulated, so that only rules and faults say more about it
        """
        found = FOREVER if runs else self._ruled(pod, container, init)
        for override in self.overrides:
            if override.changes and override.covers(pod, container, init):
                found = replace(found, **{k: v for k, v in override.changes.items() if k != LATE})
        return found

    def late_us(self, pod: Obj, container: str) -> int:
        """How much longer a container takes for commands, and to answer probes."""
        fault = self.imposed(pod, container, False, LATE)
        return 0 if fault is None else int(fault.changes[LATE])

    def pull_error(self, image: str) -> str | None:
        """The error with which a pull of the image fails; None if it does not."""
        return self.broken_images.get(image) or pull_error(image, self.missing_images)

    def imposed(self, pod: Obj, container: str, init: bool, *names: str) -> Override | None:
        """The active fault that sets one of these fields of the container's behaviour."""
        for override in reversed(self.overrides):
            if any(name in override.changes for name in names) and override.covers(pod, container, init):
                return override
        return None

    def is_ruled(self, pod: Obj, container: str) -> bool:
        """True if a rule says how the container behaves."""
        return any(rule.covers(pod, container) for rule in self.rules)

    def _ruled(self, pod: Obj, container: str, init: bool) -> ContainerBehaviour:
        for rule in self.rules:
            if rule.covers(pod, container):
                return rule.behaviour
        kinds = ("initContainers",) if init else ("containers", "ephemeralContainers")
        for spec in (c for kind in kinds for c in pod["spec"].get(kind) or ()):
            if spec["name"] == container:
                found = _program(pod["spec"], spec, init)
                owners = pod["metadata"].get("ownerReferences")
                of_job = owners is not None and found.exit_after_us is None and owners[0].get("kind") == "Job"
                return (
                    replace(found, exit_after_us=JOB_US)
                    if of_job and commanded(spec) is None and not is_known(spec)
                    else found
                )
        return RUN_TO_END if init else FOREVER

    def overridden(self, overrides: Sequence[Override]) -> RuntimeProfile:
        """The profile while these faults are active."""
        broken = {o.image: o.pull_error for o in overrides if o.pull_error}
        return replace(self, overrides=tuple(overrides), broken_images={**self.broken_images, **broken})


def _program(pod_spec: Obj, container: Obj, init: bool) -> ContainerBehaviour:
    """The behaviour of the program that a container runs by its command or its image.

    Quirk: in a namespace that a pod's processes share no program of a container is process 1.
    """
    changes = commanded(container)
    words = words_of(container)
    if not words:
        return RUN_TO_END if init else FOREVER
    is_first = not pod_spec.get("shareProcessNamespace") and not pod_spec.get("hostPID")
    at_term = on_term(words, is_first=is_first)
    base = RUN_TO_END if init and changes is None else FOREVER
    if base is FOREVER and changes is None and not container.get("command"):
        log = (image_entry(container.get("image") or "") or {}).get("log")
        at_term = {**at_term, "log": "\n".join(log)} if log else at_term
    return replace(base, **(changes or {}), **at_term) if changes or at_term else base


def manifest_file(pod: Obj) -> str:
    """The default name of the manifest file of a static pod."""
    meta = pod["metadata"]
    namespace = meta.get("namespace") or "default"
    return str(meta["name"]) if namespace == "default" else f"{namespace}.{meta['name']}"


DEFAULT_PROFILE = RuntimeProfile()
DEFAULT_CIDR = "10.200.0.0/24"
DEFAULT_CAPACITY: Mapping[str, str] = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi"}


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One machine.

    capacity: resource -> quantity text; without `pods` the agent's --max-pods counts
    allocatable: resource -> quantity text, of resources for which the agent does not compute it
    taints: as in the API (key, value, effect), set at registration
    static_pods: pod objects as in the manifest directory
    pod_cidr: used while the Node object has none, as by a network plug-in with addresses of its
        own; None: pods get addresses only of the range that the Node object has
    devices: those of its device plug-ins
    sysctls: of its kernel before an agent starts, where they are not those that agents want
    lease_jitter: False renews the lease at whole multiples of its interval, for timing to the
        hundredth
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    zone: str = ""
    region: str = ""
    instance_type: str = ""
    address: str = ""
    pod_cidr: str | None = ""
    capacity: Mapping[str, str] = field(default_factory=lambda: DEFAULT_CAPACITY)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    static_pods: tuple[Obj, ...] = ()
    profile: RuntimeProfile = DEFAULT_PROFILE
    provider_id: str = ""
    lease_jitter: bool = True
    os: str = "linux"
    arch: str = "amd64"
    topology: TopologySpec = PLAIN
    devices: tuple[DeviceSpec, ...] = ()
    swap_bytes: int = 0
    sysctls: Mapping[str, str] = field(default_factory=dict)
