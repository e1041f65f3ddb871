"""Feature gates: `Name=true,Other=false`, as each daemon accepts them.

The text or mapping of `--feature-gates` becomes the gates that are set (`feature_gates`); `enabled`
gives the value of one.

Holds: each daemon accepts every gate of v1.25, since all share one list; the value of a gate is
       the given one, else that of AllAlpha or AllBeta, else its default. An unknown gate and
       another value of a locked one are refused.

Mirrors  kubernetes v1.25 k8s.io/component-base/featuregate/feature_gate.go: Set, SetFromMap,
         Enabled.
Differs  a gate without an effect here is accepted and noted with the reason
         (`sim.options.features.idle`); upstream's warning about gates that are GA or deprecated is
         left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sim.options.base import boolean, mapping, option
from sim.options.features.table import ALL_ALPHA, ALL_BETA, ALPHA, BETA, GATES, GATES_FILE
from sim.texts import rows

FEATURE_GATES = "feature-gates"
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
TIME_ZONE = "CronJobTimeZone"
TOPOLOGY_HINTS = "TopologyAwareHints"
OUT_OF_SERVICE = "NodeOutOfServiceVolumeDetach"
NODE_INCLUSION = "NodeInclusionPolicyInPodTopologySpread"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
VOLUME_CAPACITY_PRIORITY = "VolumeCapacityPriority"
OF_VOLUMES = (READ_WRITE_ONCE_POD, VOLUME_CAPACITY_PRIORITY)  # of the scheduler's volume plugins
OF_SPREAD = (MATCH_LABEL_KEYS, MIN_DOMAINS, NODE_INCLUSION)  # of fields that the scheduler heeds
ANY_DATA_SOURCE = "AnyVolumeDataSource"
EXPAND_SECRET = "CSINodeExpandSecret"
EXPRESSIONS = "CustomResourceValidationExpressions"
IDENTITY = "APIServerIdentity"
STORAGE_VERSIONS = "StorageVersionAPI"
INTERNAL_TRAFFIC = "ServiceInternalTrafficPolicy"
JOB_SCHEDULING = "JobMutableNodeSchedulingDirectives"
JOB_TRACKING = "JobTrackingWithFinalizers"
MIXED_PROTOCOLS = "MixedProtocolLBService"
NODE_CONFIG = "DynamicKubeletConfig"
POLICY_STATUS = "NetworkPolicyStatus"
EXEC_TIMEOUTS = "ExecProbeTimeout"
GRPC_PROBES = "GRPCContainerProbe"
PROBE_GRACE = "ProbeTerminationGracePeriod"
PROC_MOUNT = "ProcMountType"
RECOVER_EXPANSION = "RecoverVolumeExpansionFailure"
RETROACTIVE_CLASS = "RetroactiveDefaultStorageClass"
SELINUX_MOUNT = "SELinuxMountReadWriteOncePod"
TERMINATING_CONDITION = "EndpointSliceTerminatingCondition"
USER_NAMESPACES = "UserNamespacesStatelessPodsSupport"
APP_ARMOR = "AppArmor"
CHUNKING = "APIListChunking"
REMAINING_COUNT = "RemainingItemCount"
DRY_RUN = "DryRun"
OPENAPI_V3 = "OpenAPIV3"
STORAGE_HASH = "StorageVersionHash"
COMPRESSION = "APIResponseCompression"
DELETION_COST = "PodDeletionCost"
EXPANDED_DNS = "ExpandedDNSConfig"
HOST_PROCESS = "WindowsHostProcessContainers"
HUGE_PAGES = "DownwardAPIHugePages"
OPENAPI_ENUMS = "OpenAPIEnums"
NO_TOKEN_SECRETS = "LegacyServiceAccountTokenNoAutoGeneration"
HONOR_RECLAIM = "HonorPVReclaimPolicy"
SERVER_SIDE_APPLY = "ServerSideApply"
STATIC_BAND = "ServiceIPStaticSubrange"
# The option allow-privileged=false, which acts on validation like a gate, and is none.
NO_PRIVILEGED = "allow-privileged=false"
# Each sets all gates of a stage that are not set themselves.
SPECIAL = {ALL_ALPHA: ALPHA, ALL_BETA: BETA}


def feature_gates(daemon: str) -> Any:
    """The option of a daemon.  daemon: the name of the class of its options"""
    effect = f"gates with an effect in this daemon: {', '.join(sorted(gates_of(daemon)))}"
    return option(FEATURE_GATES, mapping, "", check=_check, effect=effect)


def gates_of(daemon: str) -> tuple[str, ...]:
    """The gates with an effect in a daemon; those of a "registry" act on requests."""
    return tuple(name for names in rows(GATES_FILE)[daemon].values() for name in names.split())


def _check(given: Mapping[str, str]) -> str | None:
    return next((text for gate, value in given.items() if (text := _problem(gate, value))), None)


def _problem(name: str, text: str) -> str:
    try:
        value = boolean(text)
    except ValueError:
        return f'invalid value of {name}={text}, err: strconv.ParseBool: parsing "{text}": invalid syntax'
    gate = GATES.get(name)
    if gate is None:
        return f"unrecognized feature gate: {name}"
    if gate.locked and value is not gate.default:
        locked = str(gate.default).lower()
        return f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {locked}"
    return ""


def idle_gates(given: Mapping[str, str], built: tuple[str, ...]) -> list[str]:
    """The gates that are set to another value than their default without an effect."""
    return [
        name
        for name, text in given.items()
        if name not in built and name not in SPECIAL and boolean(text) is not GATES[name].default
    ]


def of_api_server(given: Mapping[str, str]) -> tuple[str, ...]:
    """The gates of an API server's registry: those with another value than their default."""
    return tuple(gate for gate in gates_of("registry") if enabled(given, gate) is not GATES[gate].default)


def is_on(changed: Collection[str], name: str) -> bool:
    """True if a gate is on.  changed: the gates with another value than their default"""
    return GATES[name].default is not (name in changed)


def enabled(given: Mapping[str, str], name: str) -> bool:
    """True if a gate is on, by the given (and validated) values or by default."""
    if name in given:
        return boolean(given[name])
    gate = GATES[name]
    for special, stage in SPECIAL.items():
        if special in given and gate.stage == stage:
            return boolean(given[special])
    return gate.default
