"""The ClusterRoles for people and components, and their ClusterRoleBindings.

Mirrors  kubernetes v1.25 plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go (clusterRoles,
         clusterRoleBindings, NodeRules), feature gates at their defaults.
"""

from __future__ import annotations

from sim.api.auth.bootstrap_policy.writer import READ, READ_UPDATE, READ_WRITE, WRITE, PolicyWriter
from sim.api.types import Obj

_HEALTH = ("/livez", "/readyz", "/healthz")
_VERSION = ("/version", "/version/")
# Resources that upstream's rules name together.
_POD_ACCESS = ("pods/attach", "pods/proxy", "pods/exec", "pods/portforward")
_SCALED_EXTENSIONS = (
    "deployments",
    "deployments/scale",
    "replicasets",
    "replicasets/scale",
    "replicationcontrollers/scale",
)


def cluster_roles(writer: PolicyWriter) -> list[Obj]:
    """Return the ClusterRoles that belong to no controller."""
    return [
        *_public_roles(writer),
        *_namespace_roles(writer),
        _to_admin(writer),
        _to_edit(writer),
        _to_view(writer),
        *_node_roles(writer),
        *_component_roles(writer),
        *_certificate_roles(writer),
        *_last_roles(writer),
    ]


def cluster_role_bindings(writer: PolicyWriter) -> list[Obj]:
    """Return the ClusterRoleBindings that belong to no controller."""
    names = writer.names
    bind, group, user = writer.cluster_role_binding, writer.group, writer.user
    authenticated = group(names.group_authenticated)
    return [
        bind("cluster-admin", group(names.group_masters)),
        bind("system:monitoring", group(names.group_monitoring)),
        bind("system:discovery", authenticated),
        bind("system:basic-user", authenticated),
        bind("system:public-info-viewer", authenticated, group(names.group_unauthenticated)),
        bind("system:node-proxier", user(names.user_proxy)),
        bind(names.user_controller_manager, user(names.user_controller_manager)),
        bind(f"system:{names.short}-dns", writer.account(f"{names.short}-dns")),
        bind(names.user_scheduler, user(names.user_scheduler)),
        bind("system:volume-scheduler", user(names.user_scheduler)),
        # Without subjects, since the node authorizer replaces the role.
        bind("system:node"),
        bind("system:service-account-issuer-discovery", group(names.group_service_accounts)),
    ]


def node_rules(writer: PolicyWriter) -> list[Obj]:
    """Return the rules of the role system:node, which the node authorizer applies too."""
    rule = writer.rule
    return [
        rule("create", "authentication", "tokenreviews"),
        rule("create", "authorization", "subjectaccessreviews", "localsubjectaccessreviews"),
        rule(READ, "core", "services"),
        rule("create get list watch", "core", "nodes"),
        rule("update patch", "core", "nodes/status"),
        rule("update patch", "core", "nodes"),
        rule("create update patch", "core", "events"),
        rule(READ, "core", "pods"),
        rule("create delete", "core", "pods"),
        rule("update patch", "core", "pods/status"),
        rule("create", "core", "pods/eviction"),
        rule(READ, "core", "secrets", "configmaps"),
        rule("get", "core", "persistentvolumeclaims", "persistentvolumes"),
        rule("get", "core", "endpoints"),
        rule("create get list watch", "certificates", "certificatesigningrequests"),
        rule("get create update patch delete", "coordination", "leases"),
        rule("get", "storage", "volumeattachments"),
        rule("create", "core", "serviceaccounts/token"),
        rule("get update patch", "core", "persistentvolumeclaims/status"),
        rule(READ, "storage", "csidrivers"),
        rule("get create update patch delete", "storage", "csinodes"),
        rule(READ, "node", "runtimeclasses"),
    ]


def _public_roles(writer: PolicyWriter) -> list[Obj]:
    role, rule, paths = writer.cluster_role, writer.rule, writer.paths
    subtrees = (f"{path}{end}" for path in _HEALTH for end in ("", "/*"))
    apis = ("/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*")
    own = ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
    return [
        role("cluster-admin", rule("*", "*", "*"), paths("*", "*")),
        role("system:discovery", paths("get", *_HEALTH, *_VERSION, *apis)),
        role("system:monitoring", paths("get", "/metrics", *subtrees)),
        role("system:basic-user", rule("create", "authorization", *own)),
        role("system:public-info-viewer", paths("get", *_HEALTH, *_VERSION)),
    ]


def _namespace_roles(writer: PolicyWriter) -> list[Obj]:
    """The roles of users of a namespace; an aggregation collects their rules."""
    role = writer.cluster_role
    return [
        role("admin", aggregates="admin"),
        role("edit", aggregated_to="admin", aggregates="edit"),
        role("view", aggregated_to="edit", aggregates="view"),
    ]


def _to_admin(writer: PolicyWriter) -> Obj:
    rule = writer.rule
    return writer.cluster_role(
        "system:aggregate-to-admin",
        rule("create", "authorization", "localsubjectaccessreviews"),
        rule(READ_WRITE, "rbac", "roles", "rolebindings"),
        aggregated_to="admin",
    )


def _to_edit(writer: PolicyWriter) -> Obj:
    rule = writer.rule
    apps = ("daemonsets", "deployments", "deployments/rollback", "deployments/scale", "replicasets")
    sets = ("replicasets/scale", "statefulsets", "statefulsets/scale")
    core = ("replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services")
    data = ("services/proxy", "persistentvolumeclaims", "configmaps", "secrets", "events")
    extensions = ("daemonsets", "deployments/rollback", "ingresses", "networkpolicies")
    return writer.cluster_role(
        "system:aggregate-to-edit",
        rule(READ, "core", *_POD_ACCESS, "secrets", "services/proxy"),
        rule("impersonate", "core", "serviceaccounts"),
        rule(WRITE, "core", "pods", *_POD_ACCESS),
        rule("create", "core", "pods/eviction"),
        rule(WRITE, "core", *core, *data),
        rule("create", "core", "serviceaccounts/token"),
        rule(WRITE, "apps", *apps, *sets),
        rule(WRITE, "autoscaling", "horizontalpodautoscalers"),
        rule(WRITE, "batch", "jobs", "cronjobs"),
        rule(WRITE, "extensions", *_SCALED_EXTENSIONS, *extensions),
        rule(WRITE, "policy", "poddisruptionbudgets"),
        rule(WRITE, "networking", "networkpolicies", "ingresses"),
        rule(READ_WRITE, "coordination", "leases"),
        aggregated_to="edit",
    )


def _to_view(writer: PolicyWriter) -> Obj:
    rule = writer.rule
    core = ("pods", "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services")
    data = ("services/status", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status")
    limits = ("limitranges", "resourcequotas", "bindings", "events", "pods/status", "resourcequotas/status")
    states = ("namespaces/status", "replicationcontrollers/status", "pods/log")
    deployments = ("deployments", "deployments/status", "deployments/scale")
    replica_sets = ("replicasets", "replicasets/status", "replicasets/scale")
    stateful_sets = ("statefulsets", "statefulsets/status", "statefulsets/scale")
    daemon_sets = ("daemonsets", "daemonsets/status")
    extensions = ("daemonsets/status", "deployments/status", "ingresses/status", "replicasets/status")
    return writer.cluster_role(
        "system:aggregate-to-view",
        rule(READ, "core", *core, *data, "configmaps"),
        rule(READ, "core", *limits, *states),
        rule(READ, "core", "namespaces"),
        rule(READ, "discovery", "endpointslices"),
        rule(READ, "apps", "controllerrevisions", *stateful_sets, *daemon_sets, *deployments, *replica_sets),
        rule(READ, "autoscaling", "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
        rule(READ, "batch", "jobs", "cronjobs", "cronjobs/status", "jobs/status"),
        rule(
            READ,
            "extensions",
            *_SCALED_EXTENSIONS,
            *extensions,
            "daemonsets",
            "ingresses",
            "networkpolicies",
        ),
        rule(READ, "policy", "poddisruptionbudgets", "poddisruptionbudgets/status"),
        rule(READ, "networking", "networkpolicies", "ingresses", "ingresses/status"),
        aggregated_to="view",
    )


def _node_roles(writer: PolicyWriter) -> list[Obj]:
    role, rule = writer.cluster_role, writer.rule
    agent_paths = ("nodes/proxy", "nodes/metrics", "nodes/spec", "nodes/stats", "nodes/log")
    return [
        role(
            "system:heapster",
            rule(READ, "core", "events", "pods", "nodes", "namespaces"),
            rule(READ, "extensions", "deployments"),
        ),
        role("system:node", *node_rules(writer)),
        role(
            "system:node-problem-detector",
            rule("get", "core", "nodes"),
            rule("patch", "core", "nodes/status"),
            writer.events(),
        ),
        role(
            f"system:{writer.names.node_agent}-api-admin",
            rule(READ, "core", "nodes"),
            rule("proxy", "core", "nodes"),
            rule("*", "core", *agent_paths),
        ),
        role(
            "system:node-bootstrapper",
            rule("create get list watch", "certificates", "certificatesigningrequests"),
        ),
    ]


def _component_roles(writer: PolicyWriter) -> list[Obj]:
    role, rule, names = writer.cluster_role, writer.rule, writer.names
    return [
        role(
            "system:auth-delegator",
            rule("create", "authentication", "tokenreviews"),
            rule("create", "authorization", "subjectaccessreviews"),
        ),
        role(f"system:{names.component('aggregator')}", rule(READ, "core", "services", "endpoints")),
        role(
            names.user_controller_manager,
            writer.events(),
            *_leader_election(writer, names.lease_controller_manager),
            rule("create", "core", "secrets", "serviceaccounts"),
            rule("delete", "core", "secrets"),
            rule("get", "core", "namespaces", "secrets", "serviceaccounts", "configmaps"),
            rule("update", "core", "secrets", "serviceaccounts"),
            rule("create", "authentication", "tokenreviews"),
            rule("create", "authorization", "subjectaccessreviews"),
            rule("list watch", "*", "*"),  # the shared informers
            rule("create", "core", "serviceaccounts/token"),
        ),
        role(f"system:{names.short}-dns", rule("list watch", "core", "endpoints", "services")),
        role(
            "system:persistent-volume-provisioner",
            rule("get list watch create delete", "core", "persistentvolumes"),
            rule("get list watch update", "core", "persistentvolumeclaims"),
            rule(READ, "storage", "storageclasses"),
            rule("watch", "core", "events"),
            writer.events(),
        ),
    ]


def _leader_election(writer: PolicyWriter, lock: str) -> list[Obj]:
    rule = writer.rule
    return [
        rule("create", "coordination", "leases"),
        rule("get update", "coordination", "leases", named=[lock]),
        rule("create", "core", "endpoints"),
        rule("get update", "core", "endpoints", named=[lock]),
    ]


def _certificate_roles(writer: PolicyWriter) -> list[Obj]:
    role, rule, names = writer.cluster_role, writer.rule, writer.names
    prefix = f"system:{names.group('certificates')}"

    def approver(signer: str) -> Obj:
        approval = rule("approve", "certificates", "signers", named=[names.signer(signer)])
        return role(f"{prefix}:{signer}-approver", approval)

    client = names.component("apiserver-client")
    requests = "certificatesigningrequests"
    return [
        *(
            role(f"{prefix}:{requests}:{kind}", rule("create", "certificates", f"{requests}/{kind}"))
            for kind in ("nodeclient", "selfnodeclient")
        ),
        role(
            "system:volume-scheduler",
            rule(READ_UPDATE, "core", "persistentvolumes"),
            rule(READ, "storage", "storageclasses"),
            rule(READ_UPDATE, "core", "persistentvolumeclaims"),
        ),
        approver("legacy-unknown"),
        approver(f"{names.node_agent}-serving"),
        approver(client),
        approver(f"{client}-{names.node_agent}"),
    ]


def _last_roles(writer: PolicyWriter) -> list[Obj]:
    role, rule, names = writer.cluster_role, writer.rule, writer.names
    return [
        role(
            "system:service-account-issuer-discovery",
            writer.paths("get", "/.well-known/openid-configuration", "/openid/v1/jwks"),
        ),
        role(
            "system:node-proxier",
            rule("list watch", "core", "services", "endpoints"),
            rule(READ, "core", "nodes"),
            writer.events(),
            rule("list watch", "discovery", "endpointslices"),
        ),
        role(
            names.user_scheduler,
            writer.events(),
            *_leader_election(writer, names.lease_scheduler),
            rule(READ, "core", "nodes"),
            rule("get list watch delete", "core", "pods"),
            rule("create", "core", "pods/binding", "bindings"),
            rule("patch update", "core", "pods/status"),
            rule(READ, "core", "services", "replicationcontrollers"),
            rule(READ, "apps extensions", "replicasets"),
            rule(READ, "apps", "statefulsets"),
            rule(READ, "policy", "poddisruptionbudgets"),
            rule(READ, "core", "persistentvolumeclaims", "persistentvolumes"),
            rule("create", "authentication", "tokenreviews"),
            rule("create", "authorization", "subjectaccessreviews"),
            rule(READ, "storage", "csinodes"),
            rule(READ, "core", "namespaces"),
            rule(READ, "storage", "csidrivers"),
            rule(READ, "storage", "csistoragecapacities"),
        ),
    ]
