"""Options of the node agent.

Turns `--name value` pairs into `NodeAgentOptions`, by `parse_node_agent`.

Holds: every option of the specification is either a field here, with the effect it has, or listed
in `refusals.txt` and refused.

Mirrors  spec/node-agent.md; kubernetes v1.25 cmd/kubelet/app/options and
         pkg/kubelet/apis/config/v1beta1/defaults.go.
Differs  fields that upstream takes from its configuration file only (nodeStatusReportFrequency,
         nodeLeaseDurationSeconds, shutdownGracePeriod and its kin) are given like options, under
         the names of the fields in flag spelling. cluster-dns is 10.0.0.10 by default (upstream:
         none, and each pod gets the event MissingClusterDNS) and cluster-domain cluster.local
         (upstream: none, and pods search no domain), since administrators set both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from sim.dataclass import dataclass
from sim.ident import PAUSE_IMAGE, TAINT_EFFECTS
from sim.options.base import (
    at_least,
    boolean,
    document,
    duration,
    integer,
    long_integer,
    mapping,
    more_than,
    not_faster,
    number,
    option,
    parse,
    string,
    strings,
    within,
)
from sim.options.client_config import configured_server, configured_token, host_of
from sim.options.cloud import cloud_provider
from sim.options.features.gates import enabled, feature_gates
from sim.options.groups.logs import LogFlags
from sim.options.node.addresses import node_can_have, node_ips
from sim.options.node.machine import MachineFlags
from sim.options.node.resources import ResourceFlags
from sim.options.node.servers import WEBHOOK, AgentServerOptions
from sim.options.node.taken import TakenFlags
from sim.units import SECOND, quantity_nano, quantity_value

DEFAULT_EVICTION_HARD = (
    "imagefs.available<15%,memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%"
)


EVICTION_SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
SERVER_ROTATION = "RotateKubeletServerCertificate"
# The client configuration that leads to each API server of the agent's cluster.
OWN_CLUSTER: Mapping[str, Any] = {"current-context": "cluster"}
SHUTDOWN_GATES = ("GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority")
CRITICAL_PRIORITY = 2_000_000_000  # scheduling.SystemCriticalPriority


def _thresholds(value: object) -> Mapping[str, str]:
    """ "signal<quantity,..." or a mapping; 0% and 100% remove a threshold."""
    if isinstance(value, Mapping):
        pairs = {str(signal): str(amount) for signal, amount in value.items()}
    elif isinstance(value, str):
        parts = [part.partition("<") for part in value.split(",") if part]
        if not all(sign for _, sign, _ in parts):
            raise ValueError("thresholds such as memory.available<100Mi")
        pairs = {signal.strip(): amount.strip() for signal, _, amount in parts}
    else:
        raise ValueError("thresholds such as memory.available<100Mi")
        # A threshold of an unknown signal stays, to be reported.
    return {
        signal: amount
        for signal, amount in pairs.items()
        if amount not in ("0%", "100%") or signal not in EVICTION_SIGNALS
    }


def _signals(value: Mapping[str, object]) -> str | None:
    unknown = [signal for signal in value if signal not in EVICTION_SIGNALS]
    return f"unsupported eviction signal {unknown[0]}" if unknown else None


def _amounts(value: Mapping[str, str]) -> str | None:
    """Check of thresholds: known signals, positive quantities or percentages."""
    for signal, text in value.items():
        try:
            if text.endswith("%") and not 0 <= number(text[:-1]) <= 100:
                return f"eviction percentage threshold {signal} must be >= 0% and <= 100%: {text}"
            if not text.endswith("%") and quantity_nano(text) <= 0:
                return f"eviction threshold {signal} must be positive: {text}"
        except ValueError:
            return f"{text} of {signal} is no quantity or percentage"
    return _signals(value)


def _reclaims(value: Mapping[str, str]) -> str | None:
    """Check of amounts to reclaim.  Quirk: one of 0 is allowed, one of 0% is not, and more than
    100% is.
    """
    for signal, text in value.items():
        try:
            if text.endswith("%") and number(text[:-1]) <= 0:
                return f"eviction percentage minimum reclaim {signal} must be positive: {text}"
            if not text.endswith("%") and quantity_nano(text) < 0:
                return f"negative eviction minimum reclaim specified for {signal}"
        except ValueError:
            return f"{text} of {signal} is no quantity or percentage"
    return _signals(value)


def _size(value: object) -> int:
    """Bytes of a quantity."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return quantity_value(value)
        except ValueError:
            pass
    raise ValueError("a quantity such as 10Mi")


def _log_files(value: int) -> str | None:
    """container_log_manager.go: NewContainerLogManager."""
    return None if value > 1 else f"invalid MaxFiles {value}, must be > 1"


def _sysctls(value: Sequence[str]) -> str | None:
    """Namespaced sysctls: allowlist.go, pkg/kubelet/sysctl/namespace.go."""
    own = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.", "net.")
    shared = [name for name in value if not name.replace("/", ".").startswith(own)]
    return f'the sysctl "{shared[0]}" are not known to be namespaced' if shared else None


def _servers(value: object) -> tuple[str, ...]:
    """Addresses. Quirk: invalid ones are dropped (kubelet.go: NewMainKubelet)."""
    result = []
    for text in strings(value):
        try:
            result.append(str(ip_address(text)))
        except ValueError:
            continue
    return tuple(result)


def _grace_periods(value: object) -> Mapping[str, int]:
    """ "signal=duration,..." in microseconds."""
    return {signal: duration(text) for signal, text in mapping(value).items()}


def _by_priority(value: object) -> tuple[tuple[int, int], ...]:
    """ "priority=duration,..." as (priority, microseconds), lowest first."""
    try:
        pairs = [(integer(priority), duration(text)) for priority, text in mapping(value).items()]
    except ValueError:
        raise ValueError("pairs such as 0=20s,2000000000=10s") from None
    return tuple(sorted(pairs))


def _zero_or_seconds(value: int) -> str | None:
    return None if value == 0 or value >= SECOND else "must be either zero or otherwise >= 1 sec"


def _taints(value: object) -> tuple[Mapping[str, str], ...]:
    """ "key=value:effect,..." as API taints."""
    if not isinstance(value, str):
        raise ValueError("taints such as key=value:NoSchedule")
    taints = []
    for part in (entry.strip() for entry in value.split(",") if entry.strip()):
        pair, _, effect = part.rpartition(":")
        key, _, text = pair.partition("=")
        if not key or effect not in TAINT_EFFECTS:
            raise ValueError("taints such as key=value:NoSchedule")
        taints.append(
            {"key": key, "value": text, "effect": effect} if text else {"key": key, "effect": effect}
        )
    return tuple(taints)


def _hostname(value: object) -> str:
    """The name of a node: nodeutil.GetHostname."""
    name = string(value).strip().lower()
    if not name and value:
        raise ValueError("a name: empty hostname is invalid")
    return name


def _range(value: str) -> str | None:
    """A range of addresses, or one of each family."""
    try:
        for text in value.split(",") if value else ():
            ip_network(text, strict=False)
    except ValueError:
        return "wanted a range such as 10.0.0.0/24"
    return None


def _url(value: str) -> str | None:
    """A server that a machine without names reaches."""
    try:
        url = urlsplit(value)
        entry = url.scheme == "http" and bool(ip_address(url.hostname or "")) and url.port != 0
    except ValueError:
        entry = False
    return None if entry or not value else "wanted http://ADDRESS:PORT/PATH, with an IP address"


def _headers(value: object) -> tuple[tuple[str, str], ...]:
    """ "name:value,..." in the order in which they are sent."""
    pairs = [text.partition(":") for text in strings(value)]
    if not all(colon and name.strip() for name, colon, _ in pairs):
        raise ValueError("headers such as name:value")
    return tuple((name.strip(), text.strip()) for name, _, text in pairs)


@dataclass(frozen=True, slots=True)
class NodeAgentOptions(LogFlags, AgentServerOptions, MachineFlags, ResourceFlags, TakenFlags):
    """The options of one node agent process.

    certified: True if they say if its certificate is replaced: then it has one that ends
    """

    certified: bool = False

    # Upstream's default is none: the agent is standalone.
    client_config: Mapping[str, Any] = option("{short}config", document, OWN_CLUSTER)
    bootstrap_config: Mapping[str, Any] = option("bootstrap-{short}config", document, {})
    rotate_certificates: bool = option("rotate-certificates", boolean, False)
    rotate_server_certificates: bool = option("rotate-server-certificates", boolean, False)
    config: Mapping[str, object] = option("config", document, {})

    # --- the Node object ---
    register_node: bool = option("register-node", boolean, True)
    register_schedulable: bool = option("register-schedulable", boolean, True)
    register_with_taints: tuple[Mapping[str, str], ...] = option("register-with-taints", _taints, "")
    node_labels: Mapping[str, str] = option("node-labels", mapping, "")
    hostname_override: str = option("hostname-override", _hostname, "")
    provider_id: str = option("provider-id", string, "")
    cloud_provider: str = cloud_provider()
    node_ips: tuple[str, ...] = option("node-ip", node_ips, "", check=node_can_have)
    enable_controller_attach_detach: bool = option("enable-controller-attach-detach", boolean, True)
    keep_terminated_pod_volumes: bool = option("keep-terminated-pod-volumes", boolean, False)
    max_pods: int = option("max-pods", integer, 110, check=at_least(0))
    pod_max_pids: int = option("pod-max-pids", long_integer, -1)
    pods_per_core: int = option("pods-per-core", integer, 0, check=at_least(0))
    experimental_allocatable_ignore_eviction: bool = option(
        "experimental-allocatable-ignore-eviction", boolean, False
    )
    node_status_max_images: int = option("node-status-max-images", integer, 50, check=at_least(-1))

    pod_cidr: str = option("pod-cidr", string, "", check=_range)

    # --- sources of pods ---
    pod_manifest_path: str = option("pod-manifest-path", string, "/etc/manifests")
    manifest_url: str = option("manifest-url", string, "", check=_url)
    manifest_url_header: tuple[tuple[str, str], ...] = option("manifest-url-header", _headers, "")
    http_check_frequency_us: int = option("http-check-frequency", duration, "20s", check=more_than(0))
    runonce: bool = option("runonce", boolean, False)

    # --- heartbeats ---
    node_status_update_frequency_us: int = option(
        "node-status-update-frequency", duration, "10s", check=more_than(0)
    )
    node_status_report_frequency_us: int = option(
        "node-status-report-frequency", duration, "5m0s", check=more_than(0)
    )
    node_lease_duration_s: int = option("node-lease-duration-seconds", integer, 40, check=more_than(0))

    # --- pods ---
    sync_frequency_us: int = option("sync-frequency", duration, "1m0s", check=not_faster(SECOND))
    file_check_frequency_us: int = option("file-check-frequency", duration, "20s", check=more_than(0))
    allowed_unsafe_sysctls: tuple[str, ...] = option("allowed-unsafe-sysctls", strings, "", check=_sysctls)
    # Upstream's defaults are none, with a warning for each pod; cluster installers set them.
    cluster_dns: tuple[str, ...] = option("cluster-dns", _servers, "10.0.0.10")
    pod_infra_image: str = option("pod-infra-container-image", string, PAUSE_IMAGE)
    cluster_domain: str = option("cluster-domain", string, "cluster.local")
    resolv_conf: str = option("resolv-conf", string, "/etc/resolv.conf")
    serialize_image_pulls: bool = option("serialize-image-pulls", boolean, True)
    registry_qps: int = option("registry-qps", integer, 5, check=at_least(0))
    registry_burst: int = option("registry-burst", integer, 10, check=at_least(0))
    eviction_hard: Mapping[str, str] = option(
        "eviction-hard", _thresholds, DEFAULT_EVICTION_HARD, check=_amounts
    )
    eviction_soft: Mapping[str, str] = option("eviction-soft", _thresholds, "", check=_amounts)
    eviction_soft_grace_period: Mapping[str, int] = option(
        "eviction-soft-grace-period", _grace_periods, "", check=_signals
    )
    eviction_minimum_reclaim: Mapping[str, str] = option(
        "eviction-minimum-reclaim", mapping, "", check=_reclaims
    )
    eviction_max_pod_grace_period_s: int = option("eviction-max-pod-grace-period", integer, 0)
    kernel_memcg_notification: bool = option("kernel-memcg-notification", boolean, False)
    eviction_pressure_transition_period_us: int = option(
        "eviction-pressure-transition-period", duration, "5m0s"
    )
    volume_stats_agg_period_us: int = option("volume-stats-agg-period", duration, "1m0s")
    image_gc_high_percent: int = option("image-gc-high-threshold", integer, 85, check=within(0, 100))
    image_gc_low_percent: int = option("image-gc-low-threshold", integer, 80, check=within(0, 100))
    minimum_image_ttl_us: int = option("minimum-image-ttl-duration", duration, "2m0s", check=at_least(0))
    container_log_max_bytes: int = option("container-log-max-size", _size, "10Mi")
    container_log_max_files: int = option("container-log-max-files", integer, 5, check=_log_files)
    runtime_request_timeout_us: int = option("runtime-request-timeout", duration, "2m0s", check=more_than(0))
    maximum_dead_containers: int = option("maximum-dead-containers", integer, -1)
    maximum_dead_containers_per_container: int = option("maximum-dead-containers-per-container", integer, 1)
    minimum_container_ttl_us: int = option(
        "minimum-container-ttl-duration", duration, "0s", check=at_least(0)
    )

    feature_gates: Mapping[str, str] = feature_gates("NodeAgentOptions")

    # --- shutdown of the machine ---
    shutdown_grace_period_us: int = option("shutdown-grace-period", duration, "0s", check=_zero_or_seconds)
    shutdown_grace_period_critical_pods_us: int = option(
        "shutdown-grace-period-critical-pods", duration, "0s", check=_zero_or_seconds
    )
    shutdown_grace_period_by_pod_priority: tuple[tuple[int, int], ...] = option(
        "shutdown-grace-period-by-pod-priority", _by_priority, ""
    )

    # --- rates ---
    api_qps: int = option("{short}-api-qps", integer, 5, check=at_least(0))
    api_burst: int = option("{short}-api-burst", integer, 10, check=at_least(0))
    event_qps: int = option("event-qps", integer, 5, check=at_least(0))
    event_burst: int = option("event-burst", integer, 10, check=at_least(0))

    def __post_init__(self) -> None:
        self._check_access()
        for signal in self.eviction_soft:
            if signal not in self.eviction_soft_grace_period:
                raise ValueError(
                    f"grace period must be specified for the soft eviction threshold {signal}: "
                    "eviction-soft-grace-period does not name it"
                )
        if self.image_gc_low_percent >= self.image_gc_high_percent:
            raise ValueError(
                f"image-gc-low-threshold {self.image_gc_low_percent} must be less than "
                f"image-gc-high-threshold {self.image_gc_high_percent}"
            )
        self.check_resources(self.feature_gates)
        self.check_machine(self.feature_gates)
        self._check_gates()
        if len(self.node_ips) > 1 and self.cloud_provider:
            entry = ",".join(self.node_ips)
            raise ValueError(f'dual-stack --node-ip "{entry}" not supported when using a cloud provider')
        if self.shutdown_grace_period_critical_pods_us > self.shutdown_grace_period_us:
            raise ValueError("shutdown-grace-period-critical-pods must be <= shutdown-grace-period")
        if self.shutdown_grace_period_by_pod_priority and self.shutdown_grace_period_us:
            raise ValueError(
                "cannot specify both shutdown-grace-period-by-pod-priority and shutdown-grace-period"
            )

        self._check_client()
        self.check_logs(self.feature_gates)
        self.check_taken()

    @property
    def listens(self) -> bool:
        """True if the server is there: an agent that runs once has none."""
        return self.enable_server and not self.runonce

    def _check_client(self) -> None:
        if self.standalone and (self.token_webhook or self.authorization_mode == WEBHOOK):
            which = "authentication" if self.token_webhook else "authorization"
            raise ValueError(f"no client provided, cannot use webhook {which}")
        try:
            _ = self.server
            if self.bootstrap_config:
                configured_token(self.bootstrap_config)
        except ValueError as problem:
            raise ValueError(f"config: {problem}") from None

    @property
    def standalone(self) -> bool:
        """True for an agent without API servers."""
        return not self.client_config

    @property
    def keeps_certificates(self) -> bool:
        """True if API servers know the agent by a certificate that is simulated."""
        request = self.bootstrap_config or self.certified or self.rotate_server_certificates
        return bool(request) and not self.standalone

    @property
    def server(self) -> str:
        """The name of the only API server that is used; "" for all, or for none."""
        if self.standalone or self.client_config == OWN_CLUSTER:
            return ""
        return host_of(configured_server(self.client_config))

    def _check_gates(self) -> None:
        """validation.go: refuses what needs a gate that is off."""
        if self.rotate_server_certificates and not enabled(self.feature_gates, SERVER_ROTATION):
            raise ValueError(f"rotate-server-certificates true requires feature gate {SERVER_ROTATION}")
        periods, by_priority = (enabled(self.feature_gates, gate) for gate in SHUTDOWN_GATES)
        if not periods and (self.shutdown_grace_period_us or self.shutdown_grace_period_critical_pods_us):
            raise ValueError(
                "specifying shutdown-grace-period or shutdown-grace-period-critical-pods requires feature gate "
                f"{SHUTDOWN_GATES[0]}"
            )
        if not by_priority and self.shutdown_grace_period_by_pod_priority:
            raise ValueError(
                f"specifying shutdown-grace-period-by-pod-priority requires feature gate {SHUTDOWN_GATES[1]}"
            )

    @property
    def shutdown_groups(self) -> tuple[tuple[int, int], ...]:
        """(lowest priority, grace in microseconds, of whole seconds), lowest first; () if shutdowns
        are not delayed.
        """
        whole_us, critical_us = self.shutdown_grace_period_us, self.shutdown_grace_period_critical_pods_us
        if self.shutdown_grace_period_by_pod_priority:
            groups = self.shutdown_grace_period_by_pod_priority
        else:
            others_us = whole_us - critical_us
            groups = (
                (0, others_us - others_us % SECOND),
                (CRITICAL_PRIORITY, critical_us - critical_us % SECOND),
            )
        return groups if any(grace_us for _, grace_us in groups) else ()


parse_node_agent = partial(parse, NodeAgentOptions)
