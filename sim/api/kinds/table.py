"""The facts table of served kinds: which resources, verbs, short names, subresources, group priorities.

Turns nothing: rows are read by `scheme` and `discovery`.  Adding a kind is adding a row here (and its strategy).

Mirrors  kubernetes v1.25 pkg/controlplane/storage_rest (each group's registration), pkg/registry/*/storage
         (ShortNames, Categories), cmd/kube-apiserver/app/aggregator.go (apiVersionPriorities).
Differs  a subset of the kinds; verbs and fields of those here are complete.
"""

from __future__ import annotations

from typing import NamedTuple

# One letter a verb, as the facts have it; spelled out in upstream's (alphabetical) order of discovery.
VERBS = {
    "c": "create",
    "d": "delete",
    "D": "deletecollection",
    "g": "get",
    "l": "list",
    "p": "patch",
    "u": "update",
    "w": "watch",
}
ALL = "cdDglpuw"


class Sub(NamedTuple):
    """A subresource.  kind "" is the kind of its resource; group and version are given where discovery does."""

    name: str
    verbs: str
    kind: str = ""
    group: str = ""
    version: str = ""


class Row(NamedTuple):
    """A resource.  `group` is the short name without domain; `stored_in` another group that stores it.

    json_only: there are no numbers of its fields, so no protobuf
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subs: tuple[Sub, ...] = ()
    verbs: str = ALL
    stored_in: str | None = None
    stored_version: str = ""
    json_only: bool = False


# Subresources that need a server on the node: their paths answer 405, and no document lists them.
UNSERVED = ("attach", "exec", "portforward", "proxy")

_STATUS = Sub("status", "gpu")
_SCALE = Sub("scale", "gpu", "Scale", "autoscaling", "v1")
_POD_SUBS = (
    Sub("attach", "cg", "PodAttachOptions"),
    Sub("binding", "c", "Binding"),
    Sub("ephemeralcontainers", "gpu"),
    Sub("eviction", "c", "Eviction", "policy", "v1"),
    Sub("exec", "cg", "PodExecOptions"),
    Sub("log", "g"),
    Sub("portforward", "cg", "PodPortForwardOptions"),
    Sub("proxy", "cdgpu", "PodProxyOptions"),
    _STATUS,
)

ROWS = (
    Row("", "v1", "bindings", "Binding", verbs="c"),
    Row("", "v1", "configmaps", "ConfigMap", short=("cm",)),
    Row("", "v1", "endpoints", "Endpoints", short=("ep",)),
    Row("", "v1", "events", "Event", short=("ev",)),
    Row("", "v1", "limitranges", "LimitRange", short=("limits",)),
    Row(
        "",
        "v1",
        "namespaces",
        "Namespace",
        namespaced=False,
        short=("ns",),
        verbs="cdglpuw",
        subs=(Sub("finalize", "u"), _STATUS),
    ),
    Row(
        "",
        "v1",
        "nodes",
        "Node",
        namespaced=False,
        short=("no",),
        subs=(Sub("proxy", "cdgpu", "NodeProxyOptions"), _STATUS),
    ),
    Row("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",), subs=(_STATUS,)),
    Row("", "v1", "pods", "Pod", short=("po",), categories=("all",), subs=_POD_SUBS),
    Row("", "v1", "podtemplates", "PodTemplate"),
    Row(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        short=("rc",),
        categories=("all",),
        subs=(_SCALE, _STATUS),
    ),
    Row("", "v1", "resourcequotas", "ResourceQuota", short=("quota",), subs=(_STATUS,)),
    Row("", "v1", "secrets", "Secret"),
    Row(
        "",
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        short=("sa",),
        subs=(Sub("token", "c", "TokenRequest", "authentication", "v1"),),
    ),
    Row(
        "",
        "v1",
        "services",
        "Service",
        short=("svc",),
        categories=("all",),
        subs=(Sub("proxy", "cdgpu", "ServiceProxyOptions"), _STATUS),
    ),
    Row("apps", "v1", "controllerrevisions", "ControllerRevision"),
    Row("apps", "v1", "daemonsets", "DaemonSet", short=("ds",), categories=("all",), subs=(_STATUS,)),
    Row(
        "apps",
        "v1",
        "deployments",
        "Deployment",
        short=("deploy",),
        categories=("all",),
        subs=(_SCALE, _STATUS),
    ),
    Row(
        "apps", "v1", "replicasets", "ReplicaSet", short=("rs",), categories=("all",), subs=(_SCALE, _STATUS)
    ),
    Row(
        "apps",
        "v1",
        "statefulsets",
        "StatefulSet",
        short=("sts",),
        categories=("all",),
        subs=(_SCALE, _STATUS),
    ),
    Row("authorization", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs="c"),
    Row(
        "authorization",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        namespaced=False,
        verbs="c",
    ),
    Row(
        "authorization",
        "v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        namespaced=False,
        verbs="c",
    ),
    Row("authorization", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False, verbs="c"),
    *(
        Row(
            "autoscaling",
            version,
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            short=("hpa",),
            categories=("all",),
            subs=(_STATUS,),
            stored_version="" if version == "v1" else "v1",
        )
        for version in ("v2", "v1", "v2beta2")
    ),
    Row("batch", "v1", "cronjobs", "CronJob", short=("cj",), categories=("all",), subs=(_STATUS,)),
    Row("batch", "v1", "jobs", "Job", categories=("all",), subs=(_STATUS,)),
    Row("events", "v1", "events", "Event", short=("ev",), stored_in="", stored_version="v1"),
    Row(
        "apiextensions",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short=("crd", "crds"),
        categories=("api-extensions",),
        subs=(_STATUS,),
        stored_version="v1beta1",
        json_only=True,
    ),
    Row("networking", "v1", "ingressclasses", "IngressClass", namespaced=False),
    Row("networking", "v1", "ingresses", "Ingress", short=("ing",), subs=(_STATUS,)),
    Row("networking", "v1", "networkpolicies", "NetworkPolicy", short=("netpol",), subs=(_STATUS,)),
    Row(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short=("pdb",),
        subs=(_STATUS,),
        stored_version="v1beta1",
    ),
    Row("node", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    Row("scheduling", "v1", "priorityclasses", "PriorityClass", namespaced=False, short=("pc",)),
    Row("coordination", "v1", "leases", "Lease"),
    Row("discovery", "v1", "endpointslices", "EndpointSlice", stored_version="v1beta1"),
    *(
        Row(
            "flowcontrol.apiserver",
            version,
            plural,
            kind,
            namespaced=False,
            subs=(_STATUS,),
            stored_version="v1beta2",
        )
        for version in ("v1beta2", "v1beta1")
        for plural, kind in (
            ("flowschemas", "FlowSchema"),
            ("prioritylevelconfigurations", "PriorityLevelConfiguration"),
        )
    ),
)


class Lifecycle(NamedTuple):
    """Minor releases of a version that is on its way out, and the version that takes its place."""

    deprecated: int
    removed: int
    replacement: str


# Of the versions above; k8s.io/api */zz_generated.prerelease-lifecycle.go.  What is deprecated later than the release
# served (flowcontrol v1beta2 in 1.26) is not yet.
DEPRECATED = {
    ("autoscaling", "v2beta2"): Lifecycle(23, 26, "v2"),
    ("flowcontrol.apiserver", "v1beta1"): Lifecycle(23, 26, "v1beta2"),
}

# groupPriorityMinimum of each group, versionPriority of each version in it.
GROUP_PRIORITIES = {
    "": 18000,
    "apps": 17800,
    "events": 17750,
    "authentication": 17700,
    "authorization": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates": 17300,
    "networking": 17200,
    "policy": 17100,
    "rbac.authorization": 17000,
    "storage": 16800,
    "apiextensions": 16700,
    "admissionregistration": 16700,
    "scheduling": 16600,
    "coordination": 16500,
    "node": 16300,
    "discovery": 16200,
    "flowcontrol.apiserver": 16100,
}
VERSION_PRIORITIES = {
    ("autoscaling", "v2"): 30,
    ("autoscaling", "v2beta2"): 9,
    ("storage", "v1beta1"): 9,
    ("flowcontrol.apiserver", "v1beta1"): 12,
}
DEFAULT_VERSION_PRIORITY = 15
