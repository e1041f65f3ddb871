"""Feature gates that change nothing in a daemon, each with the reason.

A gate belongs to the daemons that read it upstream.  One that has an effect in another daemon here
changes nothing in this one; all others have a reason of their own.

Mirrors  kubernetes v1.25: the places that read a gate (`utilfeature.DefaultFeatureGate.Enabled`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sim.options.refusals import refusals

_TOPOLOGY = "a simulated machine has no topology of processors and memory"
_CONTROL_GROUPS = "a simulated machine has no control groups"
_PROXY = "it is a gate of the proxy of Services, and packets are not simulated"
_SPANS = "a simulated process exports no spans"
_PLUGINS = "the plugins of this vendor are not simulated"
_CREDENTIALS = "images are pulled without credentials"
_NO_SWITCH = "v1.25 reads it nowhere"

REASONS: Mapping[str, str] = refusals(
    {
        _TOPOLOGY: """
            CPUManager CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions CPUManagerPolicyOptions MemoryManager
            TopologyManager
        """,
        _CONTROL_GROUPS: "CustomCPUCFSQuotaPeriod MemoryQoS QOSReserved",
        _PROXY: "IPTablesOwnershipCleanup ProxyTerminatingEndpoints WinDSR WinOverlay",
        _SPANS: "APIServerTracing KubeletTracing",
        _CREDENTIALS: "DisableKubeletCloudCredentialProviders KubeletCredentialProviders",
        "a simulated process writes no log": "ContextualLogging LoggingAlphaOptions LoggingBetaOptions",
        "a simulated machine has no swap": "NodeSwap",
        "a simulated machine has no kernel that maps users": """
            ExperimentalHostUserNamespaceDefaulting KubeletInUserNamespace
        """,
        "a simulated node has its devices without a plugin": """
            DevicePlugins KubeletPodResources KubeletPodResourcesGetAllocatable
        """,
        "the files of simulated volumes have no owners": "DelegateFSGroupToCSIDriver",
        "simulated drivers do not report the health of volumes": "CSIVolumeHealth",
        "a simulated volume in memory has no size": "SizeMemoryBackedVolumes",
        "the use of disks is known without counting files": "LocalStorageCapacityIsolationFSQuotaMonitoring",
        "the use of pods has one source here": "PodAndContainerStatsFromCRI",
        "the option seccomp-default, which it allows, is refused": "SeccompDefault",
        "the only cloud here is none of the built-in providers": "DisableCloudProviders",
        "a simulated command that does not end in time fails": "ExecProbeTimeout",
        "the state of a simulated container cannot be saved": "ContainerCheckpoint",
        "agents here do not report the condition PodHasNetwork": "PodHasNetworkCondition",
        "a simulated agent has no serving certificate that rotates": "RotateKubeletServerCertificate",
        "objects are stored without encryption": "KMSv2",
        "ranges of addresses are those of the options, without ClusterCIDRs": "MultiCIDRRangeAllocator",
        _NO_SWITCH: "AdvancedAuditing ExpandCSIVolumes ExpandInUsePersistentVolumes ExpandPersistentVolumes",
        _PLUGINS: """
            CSIMigrationAzureFile CSIMigrationPortworx CSIMigrationRBD CSIMigrationvSphere InTreePluginAWSUnregister
            InTreePluginAzureDiskUnregister InTreePluginAzureFileUnregister InTreePluginGCEUnregister
            InTreePluginOpenStackUnregister InTreePluginPortworxUnregister InTreePluginRBDUnregister
            InTreePluginvSphereUnregister
        """,
    }
)


def reason(gate: str, owners: Iterable[str]) -> str:
    """The reason why a gate changes nothing in a daemon.  owners: daemons in which it has an effect"""
    others = [*owners]
    if others:
        return f"it is a gate of the {' and the '.join(others)}"
    return REASONS[gate]
