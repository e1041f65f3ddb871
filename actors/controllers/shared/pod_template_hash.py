"""Hashes in the names of revisions: of a pod template, or of a ControllerRevision's data.

Turns a stored pod template into the text of its Go value, field by field in declaration order, and
that text into `pod-template-hash` (ReplicaSets of a Deployment, revisions of a DaemonSet); turns
the JSON of a StatefulSet's revision into its hash.

Mirrors  kubernetes v1.25 pkg/controller/controller_utils.go (ComputeHash), pkg/util/hash/hash.go
         (the dump), pkg/controller/history/controller_history.go (HashControllerRevision),
         staging/src/k8s.io/api/core/v1/types.go (order and types of the fields).
Differs  quantities beyond 18 digits are dumped as if they fitted 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from sim.api.go.escapes import escaped
from sim.api.types import Obj
from sim.patterns import pattern
from sim.units import BINARY_SI, DECIMAL_EXPONENT, quantity_style, quantity_value

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # apimachinery util/rand: no vowels, no 0, 1, 3
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def pod_template_hash(template: Obj, collision_count: int | None) -> str:
    """The hash of a template as stored (defaulted) by the API server."""
    state = _fnv1a(_FNV_OFFSET, dump_pod_template(template).encode())
    if collision_count is not None:
        state = _fnv1a(state, collision_count.to_bytes(8, "little", signed=True))
    return _encode(state)


def revision_hash(data: bytes, collision_count: int | None) -> str:
    """The hash of a ControllerRevision's data (Quirk: FNV-1 here, FNV-1a for templates)."""
    state = _FNV_OFFSET
    for byte in data + (b"" if collision_count is None else str(collision_count).encode()):
        state = (state * _FNV_PRIME & 0xFFFFFFFF) ^ byte
    return _encode(state)


def dump_pod_template(template: Obj) -> str:
    """The text that is hashed: `{Field:(type)value ...}` of the Go value, maps sorted by key."""
    return f"(v1.PodTemplateSpec){_dump_struct('PodTemplateSpec', template)}"


def revision_data(template: Obj) -> Obj:
    """The data of a revision of this template: a patch that restores it."""
    meta = template.get("metadata") or {}
    if "creationTimestamp" not in meta:
        meta = {"creationTimestamp": None, **meta}
    return {"spec": {"template": {**template, "metadata": meta, "$patch": "replace"}}}


def revision_json(data: Obj) -> bytes:
    """A revision's data as Go's encoder writes it: sorted keys, no spaces, HTML characters escaped."""
    return escaped(msgspec.json.encode(data, order="sorted"))


def _fnv1a(state: int, data: bytes) -> int:
    for byte in data:
        state = ((state ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return state


def _encode(value: int) -> str:
    return "".join(_ALPHABET[ord(digit) % 27] for digit in str(value))


# --- the dump -------------------------------------------------------------------------------------

_TIME = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"
_GO_TYPES = {"s": "string", "b": "bool", "i": "int32", "l": "int64", "m": "map[string]string"}
_ZERO = {"s": "", "b": "false", "i": "0", "l": "0", "m": "<nil>", "ResourceList": "<nil>"}


def _type_name(kind: str) -> str:
    if kind[0] == "*":
        return "*" + _type_name(kind[1:])
    if kind.startswith("[]"):
        return "[]" + _type_name(kind[2:])
    if kind[0] == "~":
        kind = kind[1:]
    if kind in _GO_TYPES:
        return _GO_TYPES[kind]
    return kind if "." in kind else f"v1.{kind}"


def _dump_struct(name: str, value: Mapping[str, Any]) -> str:
    parts = []
    for field, key, kind in _fields(name):
        # The fields of an embedded struct are in the JSON object of the outer struct.
        inner = value if key == "" else value.get(key)
        parts.append(f"{field}:({_type_name(kind)}){_dump(kind, inner)}")
    return "{" + " ".join(parts) + "}"


def _dump(kind: str, value: Any) -> str:
    if kind[0] == "*":
        return "<nil>" if value is None else _dump(kind[1:], value)
    if kind.startswith("[]"):
        if value is None:
            return "<nil>"
        return "[" + " ".join(_dump(kind[2:], entry) for entry in value) + "]"
    if kind == "resource.Quantity":
        return _dump_quantity("0" if value is None else value)
    if kind == "intstr.IntOrString":
        if isinstance(value, str):
            return f"{{Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string){value}}}"
        return f"{{Type:(intstr.Type)0 IntVal:(int32){value or 0} StrVal:(string)}}"
    if kind == "Time":
        return _TIME
    if kind in _STRUCTS:
        return _dump_struct(kind, value or {})
    if value is None:
        return _ZERO.get(kind, "")
    if isinstance(value, dict):
        entries = (
            f"{key}:{_dump_quantity(v) if kind == 'ResourceList' else v}" for key, v in sorted(value.items())
        )
        return "map[" + " ".join(entries) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


_DECIMAL = pattern(r"(-?\d+)(n|u|m|k|M|G|T|P|E|[eE][+-]?\d+|)")
_SCALES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def _dump_quantity(text: str | int | float) -> str:
    style = quantity_style(text)
    value, scale = quantity_value(text), 0
    # Go's parser keeps a whole decimal number as digits and scale, and multiplies binary ones out.
    whole = _DECIMAL.fullmatch(str(text))
    if style != BINARY_SI and whole is not None:
        suffix = whole[2]
        value = int(whole[1])
        scale = int(suffix[1:]) if style == DECIMAL_EXPONENT else _SCALES[suffix]
    return (
        f"{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} "
        f"d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){text} Format:(resource.Format){style}}}"
    )


# JSON names that are not the Go name with its leading capitals lowered.
_JSON_NAMES = {
    "DeprecatedServiceAccount": "serviceAccount",
    "CephFS": "cephfs",
    "StorageOS": "storageos",
    "EndpointsName": "endpoints",
    "WWIDs": "wwids",
    "ObjectMeta": "metadata",
    "CephMonitors": "monitors",
    "RBDImage": "image",
    "RBDPool": "pool",
    "RadosUser": "user",
    "DataDiskURI": "diskURI",
    "DiscoveryCHAPAuth": "chapAuthDiscovery",
    "SessionCHAPAuth": "chapAuthSession",
}
_CAPITALS = pattern(r"[A-Z]+(?![a-z])|[A-Z]")


@lru_cache(maxsize=512)
def _json_name(field: str) -> str:
    if field in _JSON_NAMES:
        return _JSON_NAMES[field]
    head = _CAPITALS.match(field)
    assert head is not None
    return head[0].lower() + field[head.end() :]


@lru_cache(maxsize=512)
def _fields(name: str) -> tuple[tuple[str, str, str], ...]:
    """(Go name, JSON name or "" if embedded, type) of a struct's fields in declaration order."""
    fields = []
    for entry in _STRUCTS[name].split():
        field, _, kind = entry.partition(":")
        fields.append((field, "" if kind[0] == "!" else _json_name(field), kind.lstrip("!")))
    return tuple(fields)


_SOURCES = (
    "HostPath:*HostPathVolumeSource EmptyDir:*EmptyDirVolumeSource "
    "GCEPersistentDisk:*GCEPersistentDiskVolumeSource AWSElasticBlockStore:*AWSElasticBlockStoreVolumeSource "
    "GitRepo:*GitRepoVolumeSource Secret:*SecretVolumeSource NFS:*NFSVolumeSource ISCSI:*ISCSIVolumeSource "
    "Glusterfs:*GlusterfsVolumeSource PersistentVolumeClaim:*PersistentVolumeClaimVolumeSource "
    "RBD:*RBDVolumeSource FlexVolume:*FlexVolumeSource Cinder:*CinderVolumeSource CephFS:*CephFSVolumeSource "
    "Flocker:*FlockerVolumeSource DownwardAPI:*DownwardAPIVolumeSource FC:*FCVolumeSource "
    "AzureFile:*AzureFileVolumeSource ConfigMap:*ConfigMapVolumeSource "
    "VsphereVolume:*VsphereVirtualDiskVolumeSource Quobyte:*QuobyteVolumeSource "
    "AzureDisk:*AzureDiskVolumeSource PhotonPersistentDisk:*PhotonPersistentDiskVolumeSource "
    "Projected:*ProjectedVolumeSource PortworxVolume:*PortworxVolumeSource ScaleIO:*ScaleIOVolumeSource "
    "StorageOS:*StorageOSVolumeSource CSI:*CSIVolumeSource Ephemeral:*EphemeralVolumeSource"
)
_META = (
    "Name:s GenerateName:s Namespace:s SelfLink:s UID:types.UID ResourceVersion:s Generation:l "
    "CreationTimestamp:Time DeletionTimestamp:*Time DeletionGracePeriodSeconds:*l Labels:m Annotations:m "
    "OwnerReferences:[]OwnerReference Finalizers:[]s ManagedFields:[]ManagedFieldsEntry"
)
_CONTAINER = (
    "Name:s Image:s Command:[]s Args:[]s WorkingDir:s Ports:[]ContainerPort EnvFrom:[]EnvFromSource Env:[]EnvVar "
    "Resources:ResourceRequirements VolumeMounts:[]VolumeMount VolumeDevices:[]VolumeDevice LivenessProbe:*Probe "
    "ReadinessProbe:*Probe StartupProbe:*Probe Lifecycle:*Lifecycle TerminationMessagePath:s "
    "TerminationMessagePolicy:~TerminationMessagePolicy ImagePullPolicy:~PullPolicy "
    "SecurityContext:*SecurityContext Stdin:b StdinOnce:b TTY:b"
)
_POD = (
    "Volumes:[]Volume InitContainers:[]Container Containers:[]Container EphemeralContainers:[]EphemeralContainer "
    "RestartPolicy:~RestartPolicy TerminationGracePeriodSeconds:*l ActiveDeadlineSeconds:*l DNSPolicy:~DNSPolicy "
    "NodeSelector:m ServiceAccountName:s DeprecatedServiceAccount:s AutomountServiceAccountToken:*b NodeName:s "
    "HostNetwork:b HostPID:b HostIPC:b ShareProcessNamespace:*b SecurityContext:*PodSecurityContext "
    "ImagePullSecrets:[]LocalObjectReference Hostname:s Subdomain:s Affinity:*Affinity SchedulerName:s "
    "Tolerations:[]Toleration HostAliases:[]HostAlias PriorityClassName:s Priority:*i DNSConfig:*PodDNSConfig "
    "ReadinessGates:[]PodReadinessGate RuntimeClassName:*s EnableServiceLinks:*b "
    "PreemptionPolicy:*~PreemptionPolicy Overhead:ResourceList "
    "TopologySpreadConstraints:[]TopologySpreadConstraint SetHostnameAsFQDN:*b OS:*PodOS HostUsers:*b"
)
_LOCAL = "LocalObjectReference:!LocalObjectReference"
_FS = "FSType:s"
_STRUCTS = {
    "PodTemplateSpec": "ObjectMeta:ObjectMeta Spec:PodSpec",
    "ObjectMeta": _META,
    "OwnerReference": "APIVersion:s Kind:s Name:s UID:types.UID Controller:*b BlockOwnerDeletion:*b",
    "PodSpec": _POD,
    "Container": _CONTAINER,
    "EphemeralContainer": "EphemeralContainerCommon:!EphemeralContainerCommon TargetContainerName:s",
    "EphemeralContainerCommon": _CONTAINER,
    "ContainerPort": "Name:s HostPort:i ContainerPort:i Protocol:~Protocol HostIP:s",
    "EnvFromSource": "Prefix:s ConfigMapRef:*ConfigMapEnvSource SecretRef:*SecretEnvSource",
    "ConfigMapEnvSource": f"{_LOCAL} Optional:*b",
    "SecretEnvSource": f"{_LOCAL} Optional:*b",
    "LocalObjectReference": "Name:s",
    "EnvVar": "Name:s Value:s ValueFrom:*EnvVarSource",
    "EnvVarSource": "FieldRef:*ObjectFieldSelector ResourceFieldRef:*ResourceFieldSelector "
    "ConfigMapKeyRef:*ConfigMapKeySelector SecretKeyRef:*SecretKeySelector",
    "ObjectFieldSelector": "APIVersion:s FieldPath:s",
    "ResourceFieldSelector": "ContainerName:s Resource:s Divisor:resource.Quantity",
    "ConfigMapKeySelector": f"{_LOCAL} Key:s Optional:*b",
    "SecretKeySelector": f"{_LOCAL} Key:s Optional:*b",
    "ResourceRequirements": "Limits:ResourceList Requests:ResourceList",
    "VolumeMount": "Name:s ReadOnly:b MountPath:s SubPath:s MountPropagation:*~MountPropagationMode SubPathExpr:s",
    "VolumeDevice": "Name:s DevicePath:s",
    "Probe": "ProbeHandler:!ProbeHandler InitialDelaySeconds:i TimeoutSeconds:i PeriodSeconds:i SuccessThreshold:i "
    "FailureThreshold:i TerminationGracePeriodSeconds:*l",
    "ProbeHandler": "Exec:*ExecAction HTTPGet:*HTTPGetAction TCPSocket:*TCPSocketAction GRPC:*GRPCAction",
    "ExecAction": "Command:[]s",
    "HTTPGetAction": "Path:s Port:intstr.IntOrString Host:s Scheme:~URIScheme HTTPHeaders:[]HTTPHeader",
    "HTTPHeader": "Name:s Value:s",
    "TCPSocketAction": "Port:intstr.IntOrString Host:s",
    "GRPCAction": "Port:i Service:*s",
    "Lifecycle": "PostStart:*LifecycleHandler PreStop:*LifecycleHandler",
    "LifecycleHandler": "Exec:*ExecAction HTTPGet:*HTTPGetAction TCPSocket:*TCPSocketAction",
    "SecurityContext": "Capabilities:*Capabilities Privileged:*b SELinuxOptions:*SELinuxOptions "
    "WindowsOptions:*WindowsSecurityContextOptions RunAsUser:*l RunAsGroup:*l RunAsNonRoot:*b "
    "ReadOnlyRootFilesystem:*b AllowPrivilegeEscalation:*b ProcMount:*~ProcMountType SeccompProfile:*SeccompProfile",
    "Capabilities": "Add:[]~Capability Drop:[]~Capability",
    "SELinuxOptions": "User:s Role:s Type:s Level:s",
    "WindowsSecurityContextOptions": "GMSACredentialSpecName:*s GMSACredentialSpec:*s RunAsUserName:*s HostProcess:*b",
    "SeccompProfile": "Type:~SeccompProfileType LocalhostProfile:*s",
    "PodSecurityContext": "SELinuxOptions:*SELinuxOptions WindowsOptions:*WindowsSecurityContextOptions RunAsUser:*l "
    "RunAsGroup:*l RunAsNonRoot:*b SupplementalGroups:[]l FSGroup:*l Sysctls:[]Sysctl "
    "FSGroupChangePolicy:*~PodFSGroupChangePolicy SeccompProfile:*SeccompProfile",
    "Sysctl": "Name:s Value:s",
    "Affinity": "NodeAffinity:*NodeAffinity PodAffinity:*PodAffinity PodAntiAffinity:*PodAntiAffinity",
    "NodeAffinity": "RequiredDuringSchedulingIgnoredDuringExecution:*NodeSelector "
    "PreferredDuringSchedulingIgnoredDuringExecution:[]PreferredSchedulingTerm",
    "NodeSelector": "NodeSelectorTerms:[]NodeSelectorTerm",
    "NodeSelectorTerm": "MatchExpressions:[]NodeSelectorRequirement MatchFields:[]NodeSelectorRequirement",
    "NodeSelectorRequirement": "Key:s Operator:~NodeSelectorOperator Values:[]s",
    "PreferredSchedulingTerm": "Weight:i Preference:NodeSelectorTerm",
    "PodAffinity": "RequiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm "
    "PreferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm",
    "PodAntiAffinity": "RequiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm "
    "PreferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm",
    "PodAffinityTerm": "LabelSelector:*LabelSelector Namespaces:[]s TopologyKey:s NamespaceSelector:*LabelSelector",
    "WeightedPodAffinityTerm": "Weight:i PodAffinityTerm:PodAffinityTerm",
    "LabelSelector": "MatchLabels:m MatchExpressions:[]LabelSelectorRequirement",
    "LabelSelectorRequirement": "Key:s Operator:~LabelSelectorOperator Values:[]s",
    "Toleration": "Key:s Operator:~TolerationOperator Value:s Effect:~TaintEffect TolerationSeconds:*l",
    "HostAlias": "IP:s Hostnames:[]s",
    "PodDNSConfig": "Nameservers:[]s Searches:[]s Options:[]PodDNSConfigOption",
    "PodDNSConfigOption": "Name:s Value:*s",
    "PodReadinessGate": "ConditionType:~PodConditionType",
    "TopologySpreadConstraint": "MaxSkew:i TopologyKey:s WhenUnsatisfiable:~UnsatisfiableConstraintAction "
    "LabelSelector:*LabelSelector MinDomains:*i NodeAffinityPolicy:*~NodeInclusionPolicy "
    "NodeTaintsPolicy:*~NodeInclusionPolicy MatchLabelKeys:[]s",
    "PodOS": "Name:~OSName",
    "Volume": "Name:s VolumeSource:!VolumeSource",
    "VolumeSource": _SOURCES,
    "HostPathVolumeSource": "Path:s Type:*~HostPathType",
    "EmptyDirVolumeSource": "Medium:~StorageMedium SizeLimit:*resource.Quantity",
    "GCEPersistentDiskVolumeSource": f"PDName:s {_FS} Partition:i ReadOnly:b",
    "AWSElasticBlockStoreVolumeSource": f"VolumeID:s {_FS} Partition:i ReadOnly:b",
    "GitRepoVolumeSource": "Repository:s Revision:s Directory:s",
    "SecretVolumeSource": "SecretName:s Items:[]KeyToPath DefaultMode:*i Optional:*b",
    "KeyToPath": "Key:s Path:s Mode:*i",
    "NFSVolumeSource": "Server:s Path:s ReadOnly:b",
    "ISCSIVolumeSource": f"TargetPortal:s IQN:s Lun:i ISCSIInterface:s {_FS} ReadOnly:b Portals:[]s "
    "DiscoveryCHAPAuth:b SessionCHAPAuth:b SecretRef:*LocalObjectReference InitiatorName:*s",
    "GlusterfsVolumeSource": "EndpointsName:s Path:s ReadOnly:b",
    "PersistentVolumeClaimVolumeSource": "ClaimName:s ReadOnly:b",
    "RBDVolumeSource": f"CephMonitors:[]s RBDImage:s {_FS} RBDPool:s RadosUser:s Keyring:s "
    "SecretRef:*LocalObjectReference ReadOnly:b",
    "FlexVolumeSource": f"Driver:s {_FS} SecretRef:*LocalObjectReference ReadOnly:b Options:m",
    "CinderVolumeSource": f"VolumeID:s {_FS} ReadOnly:b SecretRef:*LocalObjectReference",
    "CephFSVolumeSource": "Monitors:[]s Path:s User:s SecretFile:s SecretRef:*LocalObjectReference ReadOnly:b",
    "FlockerVolumeSource": "DatasetName:s DatasetUUID:s",
    "DownwardAPIVolumeSource": "Items:[]DownwardAPIVolumeFile DefaultMode:*i",
    "DownwardAPIVolumeFile": "Path:s FieldRef:*ObjectFieldSelector ResourceFieldRef:*ResourceFieldSelector Mode:*i",
    "FCVolumeSource": f"TargetWWNs:[]s Lun:*i {_FS} ReadOnly:b WWIDs:[]s",
    "AzureFileVolumeSource": "SecretName:s ShareName:s ReadOnly:b",
    "ConfigMapVolumeSource": f"{_LOCAL} Items:[]KeyToPath DefaultMode:*i Optional:*b",
    "VsphereVirtualDiskVolumeSource": f"VolumePath:s {_FS} StoragePolicyName:s StoragePolicyID:s",
    "QuobyteVolumeSource": "Registry:s Volume:s ReadOnly:b User:s Group:s Tenant:s",
    "AzureDiskVolumeSource": "DiskName:s DataDiskURI:s CachingMode:*~AzureDataDiskCachingMode FSType:*s ReadOnly:*b "
    "Kind:*~AzureDataDiskKind",
    "PhotonPersistentDiskVolumeSource": f"PdID:s {_FS}",
    "ProjectedVolumeSource": "Sources:[]VolumeProjection DefaultMode:*i",
    "VolumeProjection": "Secret:*SecretProjection DownwardAPI:*DownwardAPIProjection ConfigMap:*ConfigMapProjection "
    "ServiceAccountToken:*ServiceAccountTokenProjection",
    "SecretProjection": f"{_LOCAL} Items:[]KeyToPath Optional:*b",
    "ConfigMapProjection": f"{_LOCAL} Items:[]KeyToPath Optional:*b",
    "DownwardAPIProjection": "Items:[]DownwardAPIVolumeFile",
    "ServiceAccountTokenProjection": "Audience:s ExpirationSeconds:*l Path:s",
    "PortworxVolumeSource": f"VolumeID:s {_FS} ReadOnly:b",
    "ScaleIOVolumeSource": "Gateway:s System:s SecretRef:*LocalObjectReference SSLEnabled:b ProtectionDomain:s "
    f"StoragePool:s StorageMode:s VolumeName:s {_FS} ReadOnly:b",
    "StorageOSVolumeSource": f"VolumeName:s VolumeNamespace:s {_FS} ReadOnly:b SecretRef:*LocalObjectReference",
    "CSIVolumeSource": "Driver:s ReadOnly:*b FSType:*s VolumeAttributes:m NodePublishSecretRef:*LocalObjectReference",
    "EphemeralVolumeSource": "VolumeClaimTemplate:*PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimTemplate": "ObjectMeta:ObjectMeta Spec:PersistentVolumeClaimSpec",
    "PersistentVolumeClaimSpec": "AccessModes:[]~PersistentVolumeAccessMode Selector:*LabelSelector "
    "Resources:ResourceRequirements VolumeName:s StorageClassName:*s VolumeMode:*~PersistentVolumeMode "
    "DataSource:*TypedLocalObjectReference DataSourceRef:*TypedLocalObjectReference",
    "TypedLocalObjectReference": "APIGroup:*s Kind:s Name:s",
}
