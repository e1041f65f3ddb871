"""Options of the controller manager.

Turns `--name value` pairs into `ControllerManagerOptions`, by `parse_controller_manager`.

Holds: every option of the specification is either a field here, with the effect it has, or listed
in `refusals.txt` and refused.

Mirrors  spec/controller-manager.md and kubernetes v1.25 cmd/kube-controller-manager/app/options.
Differs  use-service-account-credentials is true by default, as kubeadm sets it: upstream's
         default is false, with which RBAC leaves the controllers without rights.
         Rates are Python floats (64 bit) where upstream keeps 32-bit ones; pods are evicted by
         taints only, so pod-eviction-timeout is read and, as upstream with its taint manager on,
         changes nothing. A loop has 10,000 workers at most; a period that would make a loop busy is
         refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from sim.dataclass import dataclass
from sim.options.base import (
    at_least,
    boolean,
    certificates,
    document,
    duration,
    file_name,
    integer,
    more_than,
    not_faster,
    number,
    option,
    parse,
    string,
    strings,
    with_default,
    within,
)
from sim.options.cloud import CLOUD, EXTERNAL, CloudSettings, cloud_provider, known_cloud, read_settings
from sim.options.controllers.leader_migration import LeaderMigrationFlags
from sim.options.controllers.networks import NodeNetworkFlags
from sim.options.controllers.volumes import VolumeFlags
from sim.options.features.gates import (
    IDENTITY,
    STORAGE_VERSIONS,
    enabled,
    feature_gates,
)
from sim.options.groups.client import ClientFlags
from sim.options.groups.election import ElectionFlags
from sim.options.groups.metrics import MetricsFlags
from sim.options.groups.serving import ServerFlags
from sim.units import MS

# Every name that upstream's --controllers takes (NewControllerInitializers of v1.25); the one of
# storage-version-gc only while its gates are on.
_CONTROLLERS = """
    attachdetach bootstrapsigner cloud-node-lifecycle clusterrole-aggregation cronjob csrapproving
    csrcleaner csrsigning daemonset deployment disruption endpoint endpointslice endpointslicemirroring
    ephemeral-volume garbagecollector horizontalpodautoscaling job namespace nodeipam nodelifecycle
    persistentvolume-binder persistentvolume-expander podgc pv-protection pvc-protection replicaset
    replicationcontroller resourcequota root-ca-cert-publisher route service serviceaccount
    serviceaccount-token statefulset storage-version-gc tokencleaner ttl ttl-after-finished
"""
CONTROLLERS = tuple(_CONTROLLERS.split())
DISABLED_BY_DEFAULT = ("bootstrapsigner", "tokencleaner")


def controller_enabled(name: str, entries: tuple[str, ...]) -> bool:
    """True if `--controllers` enables a controller: by the first entry that names it, then by `*`."""
    for entry in entries:
        if entry == name:
            return True
        if entry == "-" + name:
            return False
    return "*" in entries and name not in DISABLED_BY_DEFAULT


def _known_controllers(entries: tuple[str, ...]) -> str | None:
    for entry in entries:
        if entry != "*" and entry.removeprefix("-") not in CONTROLLERS:
            return f'"{entry.removeprefix("-")}" is not in the list of known controllers'
    return None


WORKERS_MAX = 10_000  # each is a task


def _workers(value: int) -> str | None:
    return None if value <= WORKERS_MAX else f"must be at most {WORKERS_MAX}"


def _syncs(name: str, default: int) -> Any:
    return option(f"concurrent-{name}-syncs", integer, default, check=_workers)


# The signers of csrsigning, as in the names of their fields and queues.
_SIGNERS = ("serving", "agent-client", "client", "legacy-unknown")


def _signing_file(what: str, signer: str, owner: str) -> Any:
    effect = f"file with the {what} {owner}, read when the cluster is served (default: that of the cluster)"
    return option(f"cluster-signing-{signer}{what}-file", file_name, "", effect=effect)


@dataclass(frozen=True, slots=True)
class ControllerManagerOptions(
    ClientFlags, ServerFlags, MetricsFlags, LeaderMigrationFlags, NodeNetworkFlags, VolumeFlags
):
    """The options of one controller manager process."""

    # --- process ---
    controllers: tuple[str, ...] = option("controllers", strings, "*", check=_known_controllers)
    controller_start_interval_us: int = option("controller-start-interval", duration, 0)
    min_resync_period_us: int = option("min-resync-period", duration, "12h0m0s")
    feature_gates: Mapping[str, str] = feature_gates("ControllerManagerOptions")
    use_service_account_credentials: bool = option("use-service-account-credentials", boolean, True)
    api_qps: float = with_default(ClientFlags, "api_qps", 20)
    api_burst: int = with_default(ClientFlags, "api_burst", 30)
    leader_elect_resource_name: str = with_default(
        ElectionFlags, "leader_elect_resource_name", "{short}-controller-manager"
    )
    secure_port: int = with_default(ServerFlags, "secure_port", 10257)

    # --- nodes ---
    node_monitor_period_us: int = option("node-monitor-period", duration, "5s", check=more_than(0))
    node_monitor_grace_period_us: int = option(
        "node-monitor-grace-period", duration, "40s", check=more_than(0)
    )
    node_startup_grace_period_us: int = option(
        "node-startup-grace-period", duration, "1m0s", check=more_than(0)
    )
    cloud_provider: str = cloud_provider()
    cloud_config: Mapping[str, object] = option("cloud-config", document, {})
    external_cloud_volume_plugin: str = option("external-cloud-volume-plugin", string, "", check=known_cloud)
    root_ca_file: str = option("root-ca-file", certificates, "")
    service_account_private_key_file: str = option("service-account-private-key-file", file_name, "")
    cluster_name: str = option("cluster-name", string, "{short}")
    pod_eviction_timeout_us: int = option("pod-eviction-timeout", duration, "5m0s")
    node_eviction_rate: float = option("node-eviction-rate", number, 0.1, check=at_least(0))
    secondary_node_eviction_rate: float = option(
        "secondary-node-eviction-rate", number, 0.01, check=at_least(0)
    )
    large_cluster_size_threshold: int = option("large-cluster-size-threshold", integer, 50)
    unhealthy_zone_threshold: float = option("unhealthy-zone-threshold", number, 0.55)
    terminated_pod_gc_threshold: int = option("terminated-pod-gc-threshold", integer, 12500)

    # --- loops ---
    namespace_sync_period_us: int = option("namespace-sync-period", duration, "5m0s")
    resource_quota_sync_period_us: int = option(
        "resource-quota-sync-period", duration, "5m0s", check=not_faster(MS)
    )
    enable_garbage_collector: bool = option("enable-garbage-collector", boolean, True)
    endpoint_updates_batch_period_us: int = option("endpoint-updates-batch-period", duration, 0)
    endpointslice_updates_batch_period_us: int = option("endpointslice-updates-batch-period", duration, 0)
    max_endpoints_per_slice: int = option("max-endpoints-per-slice", integer, 100, check=within(1, 1000))
    mirroring_endpointslice_updates_batch_period_us: int = option(
        "mirroring-endpointslice-updates-batch-period", duration, 0
    )
    mirroring_max_endpoints_per_subset: int = option(
        "mirroring-max-endpoints-per-subset", integer, 1000, check=within(1, 1000)
    )
    horizontal_pod_autoscaler_sync_period_us: int = option(
        "horizontal-pod-autoscaler-sync-period", duration, "15s", check=more_than(0)
    )
    horizontal_pod_autoscaler_downscale_stabilization_us: int = option(
        "horizontal-pod-autoscaler-downscale-stabilization", duration, "5m0s", check=at_least(0)
    )
    horizontal_pod_autoscaler_tolerance: float = option(
        "horizontal-pod-autoscaler-tolerance", number, 0.1, check=at_least(0)
    )
    horizontal_pod_autoscaler_cpu_initialization_period_us: int = option(
        "horizontal-pod-autoscaler-cpu-initialization-period", duration, "5m0s", check=at_least(0)
    )
    horizontal_pod_autoscaler_initial_readiness_delay_us: int = option(
        "horizontal-pod-autoscaler-initial-readiness-delay", duration, "30s", check=at_least(0)
    )
    concurrent_deployment_syncs: int = _syncs("deployment", 5)
    concurrent_endpoint_syncs: int = _syncs("endpoint", 5)
    concurrent_service_endpoint_syncs: int = option(
        "concurrent-service-endpoint-syncs", integer, 5, check=within(1, 50)
    )
    mirroring_concurrent_service_endpoint_syncs: int = option(
        "mirroring-concurrent-service-endpoint-syncs", integer, 5, check=within(1, 50)
    )
    concurrent_gc_syncs: int = _syncs("gc", 20)
    concurrent_namespace_syncs: int = _syncs("namespace", 10)
    concurrent_rc_syncs: int = _syncs("rc", 5)
    concurrent_replicaset_syncs: int = _syncs("replicaset", 5)
    concurrent_resource_quota_syncs: int = _syncs("resource-quota", 5)
    concurrent_service_syncs: int = _syncs("service", 1)
    concurrent_service_account_token_syncs: int = _syncs("serviceaccount-token", 5)
    # Upstream requires workers for this controller only (statefulsetcontroller.go: Validate).
    concurrent_statefulset_syncs: int = option(
        "concurrent-statefulset-syncs", integer, 5, check=within(1, WORKERS_MAX)
    )
    concurrent_ephemeralvolume_syncs: int = option(
        "concurrent-ephemeralvolume-syncs", integer, 5, check=within(1, WORKERS_MAX)
    )
    concurrent_ttl_after_finished_syncs: int = _syncs("ttl-after-finished", 5)

    # --- certificates ---
    cluster_signing_duration_us: int = option(
        "cluster-signing-duration", duration, "8760h0m0s", check=more_than(0)
    )
    cluster_signing_cert_file: str = _signing_file("cert", "", "of csrsigning")
    cluster_signing_key_file: str = _signing_file("key", "", "of csrsigning")
    cluster_signing_serving_cert_file: str = _signing_file("cert", "{short}let-serving-", "of one signer")
    cluster_signing_serving_key_file: str = _signing_file("key", "{short}let-serving-", "of one signer")
    cluster_signing_agent_client_cert_file: str = _signing_file("cert", "{short}let-client-", "of one signer")
    cluster_signing_agent_client_key_file: str = _signing_file("key", "{short}let-client-", "of one signer")
    cluster_signing_client_cert_file: str = _signing_file(
        "cert", "{short}-apiserver-client-", "of one signer"
    )
    cluster_signing_client_key_file: str = _signing_file("key", "{short}-apiserver-client-", "of one signer")
    cluster_signing_legacy_unknown_cert_file: str = _signing_file("cert", "legacy-unknown-", "of one signer")
    cluster_signing_legacy_unknown_key_file: str = _signing_file("key", "legacy-unknown-", "of one signer")

    def __post_init__(self) -> None:
        self.check_client()
        self.check_server()
        self.check_election()
        self.check_migration()
        self.check_networks(self.cloud)
        if self.external_cloud_volume_plugin and self.cloud_provider != EXTERNAL:
            raise ValueError("external-cloud-volume-plugin has no effect unless cloud-provider is external")
        if self.cloud_config and not self.cloud:
            raise ValueError("cloud-config has no effect without a cloud provider")
        read_settings(self.cloud_config)
        pairs = {"all signers": self._signing_pair(""), **self.signing_files()}
        for name, (certificate, key) in pairs.items():
            if bool(certificate) != bool(key):
                raise ValueError(f"cluster-signing: the certificate and the key of {name} need each other")
        if any(pairs["all signers"]) and any(any(pair) for pair in self.signing_files().values()):
            raise ValueError("cluster-signing-cert-file cannot be given with files of one signer")

    def _signing_pair(self, field: str) -> tuple[str, str]:
        cert: str = getattr(self, f"cluster_signing_{field}cert_file")
        key: str = getattr(self, f"cluster_signing_{field}key_file")
        return cert, key

    @property
    def cloud(self) -> str:
        """The cloud that this daemon uses; "" for none."""
        return self.external_cloud_volume_plugin if self.cloud_provider == EXTERNAL else self.cloud_provider

    @property
    def cloud_settings(self) -> CloudSettings:
        """The configuration of the cloud."""
        return read_settings(self.cloud_config)

    def signing_files(self) -> dict[str, tuple[str, str]]:
        """The files of certificate and key that name one signer each, by its queue."""
        return {f"csrsigning-{each}": self._signing_pair(f"{each.replace('-', '_')}_") for each in _SIGNERS}

    def signs(self, queue: str) -> bool:
        """True if the signer of that queue runs: all do unless the files of some are named."""
        entry = self.signing_files()
        return any(entry[queue]) or not any(any(pair) for pair in entry.values())

    def runs(self, controller: str) -> bool:
        """True if `controllers` enables the controller."""
        return controller_enabled(controller, self.controllers)

    def starts(self, controller: str) -> bool:
        """True if the controller is enabled and has what it needs."""
        return self.runs(controller) and not self.lacks(controller)

    def lacks(self, controller: str) -> tuple[str, str] | None:
        """The option that a controller does nothing without, and its value; None if it lacks none."""
        return next(
            ((option, value) for option, value, entry in self._needs(controller) if not entry),
            None,
        )

    @property
    def _has_storage_versions(self) -> bool:
        return all(enabled(self.feature_gates, gate) for gate in (IDENTITY, STORAGE_VERSIONS))

    def _needs(self, controller: str) -> Iterator[tuple[str, str, object]]:
        if controller == "storage-version-gc":
            yield "feature-gates", f"{IDENTITY}=true,{STORAGE_VERSIONS}=true", self._has_storage_versions
        if controller == "garbagecollector":
            yield "enable-garbage-collector", "true", self.enable_garbage_collector
        if controller in ("cloud-node-lifecycle", "route", "service"):
            yield "cloud-provider", CLOUD, self.cloud_provider == CLOUD
        if controller in ("nodeipam", "route"):
            yield "allocate-node-cidrs", "true", self.allocate_node_cidrs
        if controller == "route":
            yield "configure-cloud-routes", "true", self.configure_cloud_routes


parse_controller_manager = partial(parse, ControllerManagerOptions)
