"""The ClusterRoles of the controllers, each bound to the service account of its controller.

Turns a naming set into a table: the name of the service account, and the rules of its role
system:controller:NAME.

Mirrors  kubernetes v1.25 plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go,
         feature gates at their defaults but for those that are given.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.api.auth.bootstrap_policy.writer import LIST_WATCH, READ, PolicyWriter
from sim.api.types import Obj
from sim.options.features.gates import CLAIM_RETENTION, IDENTITY, POD_DISRUPTION, STORAGE_VERSIONS

PREFIX = "system:controller:"


# Controllers that note in a pod's status why they delete it, behind the gate
# PodDisruptionConditions, and what they get before that.
_DISRUPTING: dict[str, tuple[str, ...]] = {"node-controller": ("pods",), "pod-garbage-collector": ()}


# Gates with rules of their own.
OF_RULES = (POD_DISRUPTION, CLAIM_RETENTION, IDENTITY, STORAGE_VERSIONS)
STORAGE_COLLECTOR = "storage-version-garbage-collector"


def controller_roles(writer: PolicyWriter, gates: Collection[str] = ()) -> list[Obj]:
    """Return the ClusterRoles of the controllers.

    gates: of `OF_RULES` that are on
    """

    def more(account: str) -> list[Obj]:
        if account == "statefulset-controller" and CLAIM_RETENTION in gates:
            return [writer.rule("update", "core", "persistentvolumeclaims")]
        if POD_DISRUPTION not in gates or account not in _DISRUPTING:
            return []
        reads = [writer.rule("get", "core", resource) for resource in _DISRUPTING[account]]
        return [*reads, writer.rule("patch", "core", "pods/status")]

    return [
        writer.cluster_role(f"{PREFIX}{account}", *rules, *more(account))
        for account, rules in (controller_rules(writer) | _of_gates(writer, gates)).items()
    ]


def controller_role_bindings(writer: PolicyWriter, gates: Collection[str] = ()) -> list[Obj]:
    """Return the ClusterRoleBindings of the controllers; `gates` as for their roles."""
    return [
        writer.cluster_role_binding(f"{PREFIX}{account}", writer.account(account))
        for account in controller_rules(writer) | _of_gates(writer, gates)
    ]


def _of_gates(writer: PolicyWriter, gates: Collection[str]) -> dict[str, list[Obj]]:
    """The rules of controllers that exist only with gates."""
    if IDENTITY not in gates or STORAGE_VERSIONS not in gates:
        return {}
    group = "internal.apiserver"
    return {
        STORAGE_COLLECTOR: [
            writer.rule(READ, "coordination", "leases"),
            writer.rule(f"{READ} patch update delete", group, "storageversions"),
            writer.rule("get patch update", group, "storageversions/status"),
        ]
    }


def controller_rules(writer: PolicyWriter) -> dict[str, list[Obj]]:
    """Return the rules of each controller by its service account, in upstream's order."""
    rules = {
        **_workloads_first(writer),
        **_networking(writer),
        **_volumes(writer),
        **_deleters_and_scalers(writer),
        **_nodes_and_volumes(writer),
        **_replicas_and_accounts(writer),
        **_late(writer),
    }
    return {account: [*own, *_events(writer, account)] for account, own in rules.items()}


# Roles without the right to record events, and those with further rules after it.
_WITHOUT_EVENTS = (
    "attachdetach-controller",
    "clusterrole-aggregation-controller",
    "namespace-controller",
    "pod-garbage-collector",
)


def _events(writer: PolicyWriter, account: str) -> list[Obj]:
    return [] if account in _WITHOUT_EVENTS else [writer.events()]


def _workloads_first(writer: PolicyWriter) -> dict[str, list[Obj]]:
    rule = writer.rule
    return {
        "attachdetach-controller": [
            rule(LIST_WATCH, "core", "persistentvolumes", "persistentvolumeclaims"),
            rule(READ, "core", "nodes"),
            rule("patch update", "core", "nodes/status"),
            rule(LIST_WATCH, "core", "pods"),
            writer.events(),
            rule(f"{READ} create delete", "storage", "volumeattachments"),
            rule(READ, "storage", "csidrivers"),
            rule(READ, "storage", "csinodes"),
        ],
        "clusterrole-aggregation-controller": [
            rule(f"escalate {READ} update patch", "rbac", "clusterroles"),
        ],
        "cronjob-controller": [
            rule(f"{READ} update", "batch", "cronjobs"),
            rule(f"{READ} create update delete patch", "batch", "jobs"),
            rule("update", "batch", "cronjobs/status"),
            rule("update", "batch", "cronjobs/finalizers"),
            rule("list delete", "core", "pods"),
        ],
        "daemon-set-controller": [
            rule(READ, "extensions apps", "daemonsets"),
            rule("update", "extensions apps", "daemonsets/status"),
            rule("update", "extensions apps", "daemonsets/finalizers"),
            rule(LIST_WATCH, "core", "nodes"),
            rule(f"{LIST_WATCH} create delete patch", "core", "pods"),
            rule("create", "core", "pods/binding"),
            rule(f"{READ} create delete update patch", "apps", "controllerrevisions"),
        ],
        "deployment-controller": [
            rule(f"{READ} update", "extensions apps", "deployments"),
            rule("update", "extensions apps", "deployments/status"),
            rule("update", "extensions apps", "deployments/finalizers"),
            rule(f"{READ} create update patch delete", "extensions apps", "replicasets"),
            rule(f"{READ} update", "core", "pods"),
        ],
        "disruption-controller": [
            rule(READ, "extensions apps", "deployments"),
            rule(READ, "extensions apps", "replicasets"),
            rule(READ, "core", "replicationcontrollers"),
            rule(READ, "policy", "poddisruptionbudgets"),
            rule(READ, "apps", "statefulsets"),
            rule("update", "policy", "poddisruptionbudgets/status"),
            rule("get", "*", "*/scale"),
        ],
    }


def _networking(writer: PolicyWriter) -> dict[str, list[Obj]]:
    rule = writer.rule
    slices = rule("get list create update delete", "discovery", "endpointslices")
    # Needed to set blockOwnerDeletion in the owner reference of a slice.
    service_finalizers = rule("update", "core", "services/finalizers")
    return {
        "endpoint-controller": [
            rule(READ, "core", "services", "pods"),
            rule("get list create update delete", "core", "endpoints"),
            rule("create", "core", "endpoints/restricted"),
        ],
        "endpointslice-controller": [
            rule(READ, "core", "services", "pods", "nodes"),
            service_finalizers,
            slices,
        ],
        "endpointslicemirroring-controller": [
            rule(READ, "core", "services", "endpoints"),
            service_finalizers,
            rule("update", "core", "endpoints/finalizers"),
            slices,
        ],
    }


def _volumes(writer: PolicyWriter) -> dict[str, list[Obj]]:
    rule = writer.rule
    return {
        "expand-controller": [
            rule(f"{READ} update patch", "core", "persistentvolumes"),
            rule("update patch", "core", "persistentvolumeclaims/status"),
            rule(READ, "core", "persistentvolumeclaims"),
            rule(READ, "storage", "storageclasses"),
            rule("get", "core", "services", "endpoints"),
            rule("get", "core", "secrets"),
        ],
        "ephemeral-volume-controller": [
            rule(READ, "core", "pods"),
            rule("update", "core", "pods/finalizers"),
            rule(f"{READ} create", "core", "persistentvolumeclaims"),
        ],
    }


def _deleters_and_scalers(writer: PolicyWriter) -> dict[str, list[Obj]]:
    rule = writer.rule
    return {
        "generic-garbage-collector": [
            rule(f"{READ} patch update delete", "*", "*"),
        ],
        "horizontal-pod-autoscaler": [
            rule(READ, "autoscaling", "horizontalpodautoscalers"),
            rule("update", "autoscaling", "horizontalpodautoscalers/status"),
            rule("get update", "*", "*/scale"),
            rule("list", "core", "pods"),
            rule("get", "core", "services/proxy", named=["http:heapster:", "https:heapster:"]),
            rule("list", "metrics", "pods"),
            rule("get list", "custom.metrics", "*"),
            rule("get list", "external.metrics", "*"),
        ],
        "job-controller": [
            rule(f"{READ} update patch", "batch", "jobs"),
            rule("update", "batch", "jobs/status"),
            rule("update", "batch", "jobs/finalizers"),
            rule(f"{LIST_WATCH} create delete patch", "core", "pods"),
        ],
        "namespace-controller": [
            rule(f"{READ} delete", "core", "namespaces"),
            rule("update", "core", "namespaces/finalize", "namespaces/status"),
            rule("get list delete deletecollection", "*", "*"),
        ],
    }


def _nodes_and_volumes(writer: PolicyWriter) -> dict[str, list[Obj]]:
    rule = writer.rule
    return {
        "node-controller": [
            rule("get list update delete patch", "core", "nodes"),
            rule("patch update", "core", "nodes/status"),
            rule("update", "core", "pods/status"),
            rule("list delete", "core", "pods"),
            rule("get list update create", "networking", "clustercidrs"),
        ],
        "persistent-volume-binder": [
            rule(f"{READ} update create delete", "core", "persistentvolumes"),
            rule("update", "core", "persistentvolumes/status"),
            rule(f"{READ} update", "core", "persistentvolumeclaims"),
            rule("update", "core", "persistentvolumeclaims/status"),
            rule(f"{READ} create delete", "core", "pods"),
            rule(READ, "storage", "storageclasses"),
            rule("get create update delete", "core", "endpoints"),
            rule("get create delete", "core", "services"),
            rule("get", "core", "secrets"),
            rule("get list", "core", "nodes"),
            rule("watch", "core", "events"),
        ],
        "pod-garbage-collector": [
            rule("list watch delete", "core", "pods"),
            rule("get list", "core", "nodes"),
        ],
    }


def _replicas_and_accounts(writer: PolicyWriter) -> dict[str, list[Obj]]:
    rule = writer.rule
    pods = rule(f"{LIST_WATCH} patch create delete", "core", "pods")
    return {
        "replicaset-controller": [
            rule(f"{READ} update", "apps extensions", "replicasets"),
            rule("update", "apps extensions", "replicasets/status"),
            rule("update", "apps extensions", "replicasets/finalizers"),
            pods,
        ],
        "replication-controller": [
            rule(f"{READ} update", "core", "replicationcontrollers"),
            rule("update", "core", "replicationcontrollers/status"),
            rule("update", "core", "replicationcontrollers/finalizers"),
            pods,
        ],
        "resourcequota-controller": [
            rule(LIST_WATCH, "*", "*"),
            rule("update", "core", "resourcequotas/status"),
        ],
        "route-controller": [
            rule(LIST_WATCH, "core", "nodes"),
            rule("patch", "core", "nodes/status"),
        ],
        "service-account-controller": [
            rule("create", "core", "serviceaccounts"),
        ],
        "service-controller": [
            rule(READ, "core", "services"),
            rule("patch update", "core", "services/status"),
            rule(LIST_WATCH, "core", "nodes"),
        ],
        "statefulset-controller": [
            rule(LIST_WATCH, "core", "pods"),
            rule(READ, "apps", "statefulsets"),
            rule("update", "apps", "statefulsets/status"),
            rule("update", "apps", "statefulsets/finalizers"),
            rule("get create delete update patch", "core", "pods"),
            rule(f"{READ} create delete update patch", "apps", "controllerrevisions"),
            rule("get create", "core", "persistentvolumeclaims"),
        ],
    }


def _late(writer: PolicyWriter) -> dict[str, list[Obj]]:
    rule, names = writer.rule, writer.names
    client = names.signer(names.component("apiserver-client"))
    agent_client = f"{client}-{names.node_agent}"
    serving = names.signer(f"{names.node_agent}-serving")
    requests = "certificatesigningrequests"
    signers = [names.signer("legacy-unknown"), client, agent_client, serving]
    return {
        "ttl-controller": [
            rule("update patch list watch", "core", "nodes"),
        ],
        "certificate-controller": [
            rule(f"{READ} delete", "certificates", requests),
            rule("update", "certificates", f"{requests}/status", f"{requests}/approval"),
            rule("approve", "certificates", "signers", named=[agent_client]),
            rule("sign", "certificates", "signers", named=signers),
            rule("create", "authorization", "subjectaccessreviews"),
        ],
        "pvc-protection-controller": [
            rule(f"{READ} update", "core", "persistentvolumeclaims"),
            rule(READ, "core", "pods"),
        ],
        "pv-protection-controller": [
            rule(f"{READ} update", "core", "persistentvolumes"),
        ],
        "ttl-after-finished-controller": [
            rule(f"{READ} delete", "batch", "jobs"),
        ],
        "root-ca-cert-publisher": [
            rule("create update", "core", "configmaps"),
        ],
    }
