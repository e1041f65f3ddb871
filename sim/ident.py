"""Every identifier that carries the product's name, once, in two naming sets.

Turns the name of a naming set (`orch`, the default, or `kubernetes`, as upstream) into `Names`: the
labels, annotations, taints, finalizers, groups, users, namespaces, leases and media types of a
cluster.  No other module spells such an identifier, so that unmodified clients work as soon as a
cluster uses `kubernetes`.

Holds: attributes are set once, at import, and never later.  Prefixes show the kind of a name
(`label_`, `annotation_`, `taint_`, `finalizer_`, `user_`, `group_`, `media_`, `lease_`).

Mirrors  kubernetes v1.25
         k8s.io/api core/v1/{well_known_labels,well_known_taints,annotation_key_constants}.go,
         apps/v1, discovery/v1 and batch/v1 well-known labels, apiserver
         pkg/authentication/user/user.go.
Differs  from upstream only in naming `orch`: `kubernetes.io` and `k8s.io` read `orch.io`, `kube-`
         reads `orch-`, `kubelet` reads `orchlet`; identifiers without the product's name are the
         same in both sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

# Spelled as upstream in every naming set: the domain of groups in schemas made from upstream's
# data, and the version inside continue tokens, which are opaque to clients.
UPSTREAM_GROUP_DOMAIN = "k8s.io"
CONTINUE_TOKEN_VERSION = "meta.k8s.io/v1"
RELEASE = "v1.25.16"  # the last patch of the release that is simulated
# API groups of other tools, of which `orrery import` takes files.
KWOK_GROUPS = ("kwok.x-k8s.io", "config.kwok.x-k8s.io")
CHAOS_MESH_GROUPS = ("chaos-mesh.org", "pingcap.com")
LITMUS_GROUPS = ("litmuschaos.io",)
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
PAUSE_IMAGE = "registry.k8s.io/pause:3.8"
SITE = "kubernetes.io"  # with the documentation of upstream

# Groups that never carry a domain (staging/src/k8s.io/api/*/register.go).
_BARE_GROUPS = ("", "apps", "autoscaling", "batch", "extensions", "policy")
_LONG_GROUPS = MappingProxyType({"rbac": "rbac.authorization", "flowcontrol": "flowcontrol.apiserver"})


@lru_cache(maxsize=1024)
def _group(short: str, domain: str) -> str:
    if short == "core":
        return ""
    if short in _BARE_GROUPS or short.endswith("." + domain):
        return short
    return f"{_LONG_GROUPS.get(short, short)}.{domain}"


class Names:
    """The identifiers of one naming set."""

    def __init__(self, naming: str) -> None:
        upstream = naming == "kubernetes"
        self.naming = naming
        self.domain = "kubernetes.io" if upstream else "orch.io"
        self.group_domain = "k8s.io" if upstream else "orch.io"
        self.short = "kube" if upstream else "orch"
        self.product = "kubernetes" if upstream else "orch"
        self._set_labels(self.domain)
        self._set_annotations(self.domain)
        self._set_volumes(self.domain)
        self._set_taints_and_finalizers(self.domain)
        self._set_cluster_objects(self.short)
        self._set_users(self.short)
        self._set_tokens(self.domain)
        self._set_media_types()

    def __repr__(self) -> str:
        return f"Names({self.naming!r})"

    # --- functions of a part ----------------------------------------------------------------------

    def group(self, short: str) -> str:
        """Full name of an API group: "apps" -> "apps", "discovery" -> "discovery.k8s.io", "core" ->
        "".
        """
        return _group(short, self.group_domain)

    def short_group(self, group: str) -> str:
        """A group without its domain, the same in every naming set: "rbac.authorization", "apps",
        "".
        """
        return group.removesuffix("." + self.group_domain)

    def upstream_group(self, group: str) -> str:
        """A group in upstream's naming, for schemas, hashes and recordings."""
        suffix = "." + self.group_domain
        return group.removesuffix(suffix) + ".k8s.io" if group.endswith(suffix) else group

    def api_version(self, short_group: str, version: str) -> str:
        """An apiVersion: ("apps", "v1") -> "apps/v1", ("", "v1") -> "v1"."""
        group = self.group(short_group)
        return f"{group}/{version}" if group else version

    def component(self, name: str) -> str:
        """A control plane component: "apiserver" -> "kube-apiserver"."""
        return f"{self.short}-{name}"

    def signer(self, name: str) -> str:
        """A signer of certificates: "legacy-unknown" -> "kubernetes.io/legacy-unknown"."""
        return f"{self.domain}/{name}"

    def in_tree(self, driver: str) -> str:
        """A storage driver that upstream contains: "aws-ebs" -> "kubernetes.io/aws-ebs"."""
        return f"{self.domain}/{driver}"

    def node_user(self, node: str) -> str:
        """The user of a node agent."""
        return self.user_node_prefix + node

    def service_account_user(self, namespace: str, name: str) -> str:
        """The user of a service account."""
        return f"system:serviceaccount:{namespace}:{name}"

    def service_account_groups(self, namespace: str) -> tuple[str, ...]:
        """The groups of a service account."""
        return (
            self.group_service_accounts,
            f"{self.group_service_accounts}:{namespace}",
            self.group_authenticated,
        )

    # --- the sets ---------------------------------------------------------------------------------

    def _set_labels(self, d: str) -> None:
        self.label_hostname = f"{d}/hostname"
        self.label_os = f"{d}/os"
        self.label_arch = f"{d}/arch"
        self.label_zone = f"topology.{d}/zone"
        self.label_region = f"topology.{d}/region"
        self.label_instance_type = f"node.{d}/instance-type"
        self.label_beta_os = f"beta.{d}/os"
        self.label_beta_arch = f"beta.{d}/arch"
        self.label_beta_instance_type = f"beta.{d}/instance-type"
        self.label_beta_zone = f"failure-domain.beta.{d}/zone"
        self.label_beta_region = f"failure-domain.beta.{d}/region"
        self.label_node_role_prefix = f"node-role.{d}/"
        self.label_role = f"{d}/role"
        self.label_exclude_balancers = f"node.{d}/exclude-from-external-load-balancers"
        self.label_node_exclude_disruption = f"node.{d}/exclude-disruption"
        self.label_metadata_name = f"{d}/metadata.name"
        self.label_service_name = f"{d}/service-name"
        self.label_headless = f"service.{d}/headless"
        self.label_proxy_name = f"service.{d}/service-proxy-name"
        self.label_managed_by = f"endpointslice.{d}/managed-by"
        self.annotation_topology_hints = f"service.{d}/topology-aware-hints"
        self.label_node_restriction_prefix = f"node-restriction.{d}/"
        self.label_component = f"{self.group_domain}/component"
        self.label_skip_mirror = f"endpointslice.{d}/skip-mirror"
        self.managed_by_mirroring_controller = f"endpointslicemirroring-controller.{self.group_domain}"
        self.managed_by_endpointslice_controller = f"endpointslice-controller.{self.group_domain}"
        self.label_pod_security_prefix = f"pod-security.{d}/"
        self.label_statefulset_pod_name = f"statefulset.{d}/pod-name"
        self.label_pod_template_hash = "pod-template-hash"
        self.label_bootstrapping = f"{d}/bootstrapping"
        self.label_aggregate_prefix = f"{self.group('rbac')}/aggregate-to-"
        self.label_controller_revision_hash = "controller-revision-hash"
        self.label_pod_template_generation = "pod-template-generation"

    def _set_annotations(self, d: str) -> None:
        ctl = "kubectl" if self.naming == "kubernetes" else "orchctl"
        self.manager_kubectl = ctl  # field manager of its server-side apply
        self.annotation_last_applied = f"{ctl}.{d}/last-applied-configuration"
        self.annotation_revision = f"deployment.{d}/revision"
        self.annotation_revision_history = f"deployment.{d}/revision-history"
        self.annotation_desired_replicas = f"deployment.{d}/desired-replicas"
        self.annotation_max_replicas = f"deployment.{d}/max-replicas"
        self.annotation_rollback_to = "deprecated.deployment.rollback.to"
        self.annotation_template_generation = "deprecated.daemonset.template.generation"
        self.annotation_pod_deletion_cost = f"controller.{d}/pod-deletion-cost"
        self.annotation_job_tracking = f"batch.{d}/job-tracking"
        self.annotation_autoscaling_prefix = f"autoscaling.alpha.{d}/"
        self.annotation_job_completion_index = f"batch.{d}/job-completion-index"
        self.annotation_last_change_trigger_time = f"endpoints.{d}/last-change-trigger-time"
        self.annotation_over_capacity = f"endpoints.{d}/over-capacity"
        self.annotation_ingress_class = f"{d}/ingress.class"
        self.annotation_default_ingress_class = f"ingressclass.{d}/is-default-class"
        self.annotation_default_storage_class = f"storageclass.{d}/is-default-class"
        self.annotation_beta_default_storage_class = f"storageclass.beta.{d}/is-default-class"
        self.label_automanaged = f"{self.short}-aggregator.{d}/automanaged"
        self.annotation_leader = f"control-plane.alpha.{d}/leader"
        self.annotation_node_ttl = f"node.alpha.{d}/ttl"
        self.annotation_attach_detach = f"volumes.{d}/controller-managed-attach-detach"
        self.annotation_provided_node_ip = f"alpha.{d}/provided-node-ip"
        self.annotation_keep_volumes = f"volumes.{d}/keep-terminated-pod-volumes"
        self.annotation_mirror_pod = f"{d}/config.mirror"
        self.annotation_config_source = f"{d}/config.source"
        self.annotation_config_hash = f"{d}/config.hash"
        self.annotation_config_seen = f"{d}/config.seen"
        self.annotation_limit_ranger = f"{d}/limit-ranger"
        self.annotation_beta_storage_class = f"volume.beta.{d}/storage-class"
        self.annotation_csi_node_id = f"csi.volume.{d}/nodeid"
        self.annotation_migrated_plugins = f"storage.alpha.{d}/migrated-plugins"
        self.provisioner_none = f"{d}/no-provisioner"
        self.annotation_service_account_name = f"{d}/service-account.name"
        self.annotation_service_account_uid = f"{d}/service-account.uid"
        self.annotation_mountable_secrets = f"{d}/enforce-mountable-secrets"
        self.annotation_apparmor_prefix = "container.apparmor.security.beta." + d + "/"
        self.annotation_seccomp_pod = "seccomp.security.alpha." + d + "/pod"
        self.annotation_seccomp_container_prefix = "container.seccomp.security.alpha." + d + "/"
        self.annotation_node_selector = f"scheduler.alpha.{d}/node-selector"
        self.annotation_default_tolerations = f"scheduler.alpha.{d}/defaultTolerations"
        self.annotation_tolerations_whitelist = f"scheduler.alpha.{d}/tolerationsWhitelist"
        self.annotation_critical_pod = f"scheduler.alpha.{d}/critical-pod"
        self.annotation_flow_autoupdate = f"apf.{d}/autoupdate-spec"
        self.annotation_rbac_autoupdate = f"rbac.authorization.{d}/autoupdate"
        self.annotation_api_approved = f"api-approved.{d}"

    def _set_volumes(self, d: str) -> None:
        self.volume_plugin_prefix = f"{d}/"  # of the plugins that are part of the product
        self.annotation_bind_completed = f"pv.{d}/bind-completed"
        self.annotation_bound_by_controller = f"pv.{d}/bound-by-controller"
        self.annotation_provisioned_by = f"pv.{d}/provisioned-by"
        self.annotation_migrated_to = f"pv.{d}/migrated-to"
        self.annotation_selected_node = f"volume.{d}/selected-node"
        self.annotation_storage_provisioner = f"volume.{d}/storage-provisioner"
        self.annotation_beta_storage_provisioner = f"volume.beta.{d}/storage-provisioner"
        self.annotation_storage_resizer = f"volume.{d}/storage-resizer"
        self.annotation_pre_resize_capacity = f"volume.alpha.{d}/pre-resize-capacity"
        self.annotation_driver_node_id = f"csi.alpha.{d}/node-id"
        self.prefix_storage_parameters = f"csi.storage.{self.group_domain}/"  # of a StorageClass
        self.label_capacity_driver = f"csi.storage.{self.group_domain}/drivername"
        self.label_capacity_manager = f"csi.storage.{self.group_domain}/managed-by"
        self.attribute_provisioner_identity = f"storage.{d}/csiProvisionerIdentity"
        self.annotation_beta_mount_options = f"volume.beta.{d}/mount-options"

    def _set_taints_and_finalizers(self, d: str) -> None:
        self.taint_not_ready = f"node.{d}/not-ready"
        self.taint_unreachable = f"node.{d}/unreachable"
        self.taint_unschedulable = f"node.{d}/unschedulable"
        self.taint_memory_pressure = f"node.{d}/memory-pressure"
        self.taint_disk_pressure = f"node.{d}/disk-pressure"
        self.taint_pid_pressure = f"node.{d}/pid-pressure"
        self.taint_network_unavailable = f"node.{d}/network-unavailable"
        self.taint_out_of_service = f"node.{d}/out-of-service"
        self.taint_uninitialized = f"node.cloudprovider.{d}/uninitialized"
        self.taint_shutdown = f"node.cloudprovider.{d}/shutdown"
        self.finalizer_namespace = self.product
        self.finalizer_foreground = "foregroundDeletion"
        self.finalizer_orphan = "orphan"
        self.finalizer_claim_protection = f"{d}/pvc-protection"
        self.finalizer_volume_protection = f"{d}/pv-protection"
        self.finalizer_volume_data = f"{d}/pv-controller"
        self.finalizer_external_volume = f"external-provisioner.volume.{d}/finalizer"
        self.finalizer_job_tracking = f"batch.{d}/job-tracking"
        self.finalizer_balancer_cleanup = f"service.{d}/load-balancer-cleanup"
        self.finalizer_crd_cleanup = f"customresourcecleanup.apiextensions.{self.group_domain}"

    def _set_cluster_objects(self, s: str) -> None:
        self.default_namespace = "default"
        self.system_namespace = f"{s}-system"
        self.public_namespace = f"{s}-public"
        self.lease_namespace = f"{s}-node-lease"
        self.lease_controller_manager = f"{s}-controller-manager"
        self.lease_scheduler = f"{s}-scheduler"
        self.apiserver_service = self.product
        self.check_storage = "etcd" if s == "kube" else "storage"  # of the API server's health
        self.config_map_authentication = "extension-apiserver-authentication"
        self.config_map_cluster_info = "cluster-info"
        self.cluster_info_config = f"{s}config"
        self.cluster_info_signature_prefix = f"jws-{s}config-"
        self.config_map_root_ca = f"{s}-root-ca.crt"
        self.volume_api_access_prefix = f"{s}-api-access-"
        self.default_service_account = "default"
        self.priority_class_node_critical = "system-node-critical"
        self.priority_class_cluster_critical = "system-cluster-critical"
        self.node_agent = "kubelet" if self.naming == "kubernetes" else "orchlet"
        self.secret_type_service_account = f"{self.domain}/service-account-token"
        self.secret_type_dockercfg = f"{self.domain}/dockercfg"
        self.secret_type_dockerconfigjson = f"{self.domain}/dockerconfigjson"
        self.secret_type_basic_auth = f"{self.domain}/basic-auth"
        self.secret_type_ssh_auth = f"{self.domain}/ssh-auth"
        self.secret_type_tls = f"{self.domain}/tls"
        self.secret_type_bootstrap_token = f"bootstrap.{self.domain}/token"

    def _set_users(self, s: str) -> None:
        self.user_scheduler = f"system:{s}-scheduler"
        self.user_controller_manager = f"system:{s}-controller-manager"
        self.user_proxy = f"system:{s}-proxy"
        self.user_apiserver = "system:apiserver"
        self.user_aggregator = f"system:{s}-aggregator"
        self.user_anonymous = "system:anonymous"
        self.user_node_prefix = "system:node:"
        self.group_masters = "system:masters"
        self.group_authenticated = "system:authenticated"
        self.group_unauthenticated = "system:unauthenticated"
        self.group_nodes = "system:nodes"
        self.group_monitoring = "system:monitoring"
        self.group_service_accounts = "system:serviceaccounts"

    def _set_tokens(self, d: str) -> None:
        self.user_bootstrap_prefix = "system:bootstrap:"
        self.group_bootstrappers = "system:bootstrappers"
        self.bootstrap_secret_prefix = "bootstrap-token-"
        self.issuer_service_account = f"https://{self.product}.default.svc.cluster.local"
        self.issuer_legacy_service_account = f"{self.product}/serviceaccount"
        self.claim_bound = d
        self.claim_legacy_namespace = f"{d}/serviceaccount/namespace"
        self.claim_legacy_secret = f"{d}/serviceaccount/secret.name"
        self.claim_legacy_account = f"{d}/serviceaccount/service-account.name"
        self.claim_legacy_uid = f"{d}/serviceaccount/service-account.uid"
        self.extra_pod_name = f"authentication.{d}/pod-name"
        self.extra_pod_uid = f"authentication.{d}/pod-uid"
        self.protocol_bearer_prefix = f"base64url.bearer.authorization.{self.group_domain}."
        self.openid_configuration_path = "/.well-known/openid-configuration"
        self.openid_keys_path = "/openid/v1/jwks"

    def _set_media_types(self) -> None:
        prefix = f"X-{self.product.capitalize()}-PF"
        # of FlowSchema and priority level
        self.headers_flow = (f"{prefix}-FlowSchema-UID", f"{prefix}-PriorityLevel-UID")
        self.media_json = "application/json"
        self.media_yaml = "application/yaml"
        self.media_protobuf = f"application/vnd.{self.product}.protobuf"
        self.media_json_patch = "application/json-patch+json"
        self.media_merge_patch = "application/merge-patch+json"
        self.media_strategic_patch = "application/strategic-merge-patch+json"
        self.media_apply_patch = "application/apply-patch+yaml"


NAMES: Mapping[str, Names] = MappingProxyType({"orch": Names("orch"), "kubernetes": Names("kubernetes")})
