"""Every feature gate of v1.25: stage, default, and whether it is locked to its default.

Mirrors  kubernetes v1.25 pkg/features/kube_features.go, apiserver pkg/features/kube_features.go,
         component-base featuregate/feature_gate.go (AllAlpha, AllBeta) and
         logs/api/v1/kube_features.go, controller-manager pkg/features/kube_features.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

ALPHA, BETA, GA, DEPRECATED = "alpha", "beta", "GA", "deprecated"
ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"


class Gate(NamedTuple):
    """One feature gate.  locked: True if it cannot be set to another value than its default"""

    stage: str
    default: bool
    locked: bool = False


_ALPHA = """
    AllAlpha APIServerIdentity APIServerTracing ContainerCheckpoint ContextualLogging CPUManagerPolicyAlphaOptions
    CSIMigrationRBD CSINodeExpandSecret CSIVolumeHealth CustomCPUCFSQuotaPeriod DisableCloudProviders
    DisableKubeletCloudCredentialProviders ExpandedDNSConfig HonorPVReclaimPolicy HPAContainerMetrics HPAScaleToZero
    InTreePluginAWSUnregister InTreePluginAzureDiskUnregister InTreePluginAzureFileUnregister InTreePluginGCEUnregister
    InTreePluginOpenStackUnregister InTreePluginPortworxUnregister InTreePluginRBDUnregister
    InTreePluginvSphereUnregister IPTablesOwnershipCleanup JobPodFailurePolicy KMSv2 KubeletInUserNamespace
    KubeletTracing LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions MatchLabelKeysInPodTopologySpread
    MaxUnavailableStatefulSet MemoryQoS MultiCIDRRangeAllocator NetworkPolicyStatus
    NodeInclusionPolicyInPodTopologySpread NodeOutOfServiceVolumeDetach NodeSwap PodAndContainerStatsFromCRI
    PodDisruptionConditions PodHasNetworkCondition ProcMountType ProxyTerminatingEndpoints QOSReserved ReadWriteOncePod
    RecoverVolumeExpansionFailure RetroactiveDefaultStorageClass SELinuxMountReadWriteOncePod StatefulSetAutoDeletePVC
    StorageVersionAPI UserNamespacesStatelessPodsSupport VolumeCapacityPriority WinDSR
"""
_BETA_ON = """
    AnyVolumeDataSource APIListChunking APIPriorityAndFairness APIResponseCompression AppArmor CPUManager
    CPUManagerPolicyBetaOptions CPUManagerPolicyOptions CronJobTimeZone CSIMigrationAzureFile CSIMigrationvSphere
    CustomResourceValidationExpressions DelegateFSGroupToCSIDriver DevicePlugins DownwardAPIHugePages
    EndpointSliceTerminatingCondition GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority GRPCContainerProbe
    JobMutableNodeSchedulingDirectives JobReadyPods JobTrackingWithFinalizers KubeletCredentialProviders
    KubeletPodResources KubeletPodResourcesGetAllocatable LegacyServiceAccountTokenNoAutoGeneration LoggingBetaOptions
    LogarithmicScaleDown MemoryManager MixedProtocolLBService OpenAPIEnums OpenAPIV3 PodDeletionCost
    ProbeTerminationGracePeriod RemainingItemCount RotateKubeletServerCertificate SeccompDefault
    ServerSideFieldValidation ServiceInternalTrafficPolicy ServiceIPStaticSubrange SizeMemoryBackedVolumes
    StorageVersionHash TopologyAwareHints TopologyManager WindowsHostProcessContainers WinOverlay
"""
_BETA_OFF = (
    "AllBeta CSIMigrationPortworx ExperimentalHostUserNamespaceDefaulting MinDomainsInPodTopologySpread"
)
_GA = """
    AdvancedAuditing DryRun ExecProbeTimeout ExpandCSIVolumes ExpandInUsePersistentVolumes ExpandPersistentVolumes
    ServerSideApply
"""
_LOCKED = """
    ControllerManagerLeaderMigration CSIInlineVolume CSIMigration CSIMigrationAWS CSIMigrationAzureDisk CSIMigrationGCE
    CSIMigrationOpenStack CSIStorageCapacity CSRDuration DaemonSetUpdateSurge DefaultPodTopologySpread
    DisableAcceleratorUsageMetrics EfficientWatchResumption EphemeralContainers IdentifyPodOS IndexedJob
    LocalStorageCapacityIsolation NetworkPolicyEndPort NonPreemptingPriority PodAffinityNamespaceSelector PodOverhead
    PodSecurity PreferNominatedNode RemoveSelfLink ServiceLBNodePortControl ServiceLoadBalancerClass
    StatefulSetMinReadySeconds SuspendJob WatchBookmark
"""


def _rows() -> Iterator[tuple[str, Gate]]:
    for names, gate in (
        (_ALPHA, Gate(ALPHA, False)),
        (_BETA_ON, Gate(BETA, True)),
        (_BETA_OFF, Gate(BETA, False)),
        (_GA, Gate(GA, True)),
        (_LOCKED, Gate(GA, True, locked=True)),
        ("DynamicKubeletConfig", Gate(DEPRECATED, False)),
    ):
        for name in names.split():
            yield name, gate


GATES: Mapping[str, Gate] = MappingProxyType(dict(sorted(_rows())))
