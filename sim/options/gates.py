"""Feature gates: `Name=true,Other=false`, as each daemon accepts them.

The text or mapping of `--feature-gates` becomes the gates that differ from their default
(`feature_gates`).

Holds: a gate may be set if this program acts on it, or to its default; unknown gates, locked gates,
and values that are not implemented are refused.

Mirrors  kubernetes v1.25 pkg/features/kube_features.go, k8s.io/component-base/featuregate:
         defaults, stages, refusals.
Differs  gates of finished features that are not locked are unknown, except for those named here;
         AllAlpha=true and AllBeta would enable what is not implemented and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.options.base import boolean, mapping, option

# Stage and default as v1.25 has them: the specification's list is a little older.
_BETA_ON = """
    AnyVolumeDataSource APIListChunking APIPriorityAndFairness APIResponseCompression AppArmor CPUManager
    CPUManagerPolicyBetaOptions CPUManagerPolicyOptions CronJobTimeZone CustomResourceValidationExpressions
    DelegateFSGroupToCSIDriver DevicePlugins DownwardAPIHugePages EndpointSliceTerminatingCondition ExecProbeTimeout
    GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority GRPCContainerProbe JobMutableNodeSchedulingDirectives
    JobReadyPods JobTrackingWithFinalizers LegacyServiceAccountTokenNoAutoGeneration LogarithmicScaleDown MemoryManager
    MixedProtocolLBService OpenAPIEnums OpenAPIV3 PodDeletionCost ProbeTerminationGracePeriod RemainingItemCount
    RotateKubeletServerCertificate SeccompDefault ServerSideFieldValidation ServiceInternalTrafficPolicy
    ServiceIPStaticSubrange SizeMemoryBackedVolumes StorageVersionHash TopologyAwareHints TopologyManager WinOverlay
    WindowsHostProcessContainers
"""
_LOCKED_ON = """
    CSIInlineVolume CSIMigration DaemonSetUpdateSurge DisableAcceleratorUsageMetrics EphemeralContainers IdentifyPodOS
    LocalStorageCapacityIsolation NetworkPolicyEndPort PodSecurity StatefulSetMinReadySeconds
"""
_OFF = """
    AllAlpha APIServerIdentity APIServerTracing ContainerCheckpoint ContextualLogging CPUManagerPolicyAlphaOptions
    CSIVolumeHealth CustomCPUCFSQuotaPeriod DisableCloudProviders ExpandedDNSConfig
    ExperimentalHostUserNamespaceDefaulting HonorPVReclaimPolicy HPAContainerMetrics HPAScaleToZero JobPodFailurePolicy
    KubeletTracing LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions MatchLabelKeysInPodTopologySpread
    MaxUnavailableStatefulSet MemoryQoS MinDomainsInPodTopologySpread MultiCIDRRangeAllocator NetworkPolicyStatus
    NodeInclusionPolicyInPodTopologySpread NodeOutOfServiceVolumeDetach NodeSwap PodAndContainerStatsFromCRI
    PodDisruptionConditions PodHasNetworkCondition ProcMountType ProxyTerminatingEndpoints QOSReserved ReadWriteOncePod
    RecoverVolumeExpansionFailure RetroactiveDefaultStorageClass SELinuxMountReadWriteOncePod StatefulSetAutoDeletePVC
    StorageVersionAPI UserNamespacesStatelessPodsSupport VolumeCapacityPriority WinDSR
"""
CLAIM_RETENTION = "StatefulSetAutoDeletePVC"
FAILURE_POLICY = "JobPodFailurePolicy"
MAX_UNAVAILABLE = "MaxUnavailableStatefulSet"
POD_DISRUPTION = "PodDisruptionConditions"
OF_FIELDS = (
    FAILURE_POLICY,
    MAX_UNAVAILABLE,
    CLAIM_RETENTION,
)  # each the gate of a field, and of a loop that heeds it
CONTAINER_METRICS = "HPAContainerMetrics"
SCALE_TO_ZERO = "HPAScaleToZero"
MATCH_LABEL_KEYS = "MatchLabelKeysInPodTopologySpread"
MIN_DOMAINS = "MinDomainsInPodTopologySpread"
OUT_OF_SERVICE = "NodeOutOfServiceVolumeDetach"
NODE_INCLUSION = "NodeInclusionPolicyInPodTopologySpread"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
VOLUME_CAPACITY_PRIORITY = "VolumeCapacityPriority"
OF_VOLUMES = (READ_WRITE_ONCE_POD, VOLUME_CAPACITY_PRIORITY)  # of the scheduler's volume plugins
OF_SPREAD = (MATCH_LABEL_KEYS, MIN_DOMAINS, NODE_INCLUSION)  # of fields that the scheduler heeds
# Off by default, and in a server's registry while they are on.
OF_API_SERVER = (*OF_FIELDS, *OF_SPREAD, POD_DISRUPTION, CONTAINER_METRICS, SCALE_TO_ZERO)
LOCKED = tuple(_LOCKED_ON.split())
DEFAULTS: Mapping[str, bool] = (
    dict.fromkeys(_BETA_ON.split(), True) | dict.fromkeys(LOCKED, True) | dict.fromkeys(_OFF.split(), False)
)
ALL_BETA = "AllBeta"


def feature_gates(*built: str) -> Any:
    """The option of a daemon that implements both values of these gates."""

    def check(given: Mapping[str, str]) -> str | None:
        return next((text for gate, value in given.items() if (text := _problem(gate, value, built))), None)

    return option("feature-gates", mapping, "", f"either side of: {', '.join(built)}", check=check)


def _problem(gate: str, text: str, built: tuple[str, ...]) -> str:
    try:
        value = boolean(text)
    except ValueError:
        return f'invalid value of {gate}={text}, err: strconv.ParseBool: parsing "{text}": invalid syntax'
    if gate not in DEFAULTS and gate != ALL_BETA:
        return f"unrecognized feature gate: {gate}"
    if gate in LOCKED and not value:
        return f"cannot set feature gate {gate} to false, feature is locked to true"
    if gate == ALL_BETA or (value is not DEFAULTS[gate] and gate not in built):
        return f"{gate}={text} has no effect here yet"
    return ""


def of_api_server(given: Mapping[str, str]) -> tuple[str, ...]:
    """The enabled gates of an API server's registry."""
    return tuple(gate for gate in OF_API_SERVER if enabled(given, gate))


def enabled(given: Mapping[str, str], gate: str) -> bool:
    """True if a gate is on, by the given (and validated) values or by default."""
    return boolean(given[gate]) if gate in given else DEFAULTS[gate]
