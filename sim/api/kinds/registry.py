"""The kinds that are served, in the order of discovery.

Adding a kind is adding a line here: see `sim.api.kinds`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sim.api.kinds.admissionregistration import webhook_configurations
from sim.api.kinds.apiextensions.custom_resource_definition import kind as custom_resource_definition
from sim.api.kinds.apiregistration import api_service
from sim.api.kinds.apiserverinternal import storage_version
from sim.api.kinds.apps import controller_revision, daemon_set, deployment, replica_set, stateful_set
from sim.api.kinds.authentication import token_review
from sim.api.kinds.authorization import reviews
from sim.api.kinds.autoscaling.horizontal_pod_autoscaler import kind as horizontal_pod_autoscaler
from sim.api.kinds.batch import cron_job
from sim.api.kinds.batch.job import kind as job
from sim.api.kinds.certificates import certificate_signing_request
from sim.api.kinds.coordination import lease
from sim.api.kinds.core import (
    binding,
    component_status,
    config_map,
    endpoints,
    event,
    limit_range,
    namespace,
    node,
    persistent_volume,
    persistent_volume_claim,
    pod_template,
    replication_controller,
    resource_quota,
    secret,
    service_account,
)
from sim.api.kinds.core.pod import kind as pod
from sim.api.kinds.core.service import kind as service
from sim.api.kinds.discovery import endpoint_slice
from sim.api.kinds.events import event as newer_event
from sim.api.kinds.flowcontrol import flow_schema, priority_level_configuration
from sim.api.kinds.networking import cluster_cidr, ingress, ingress_class, network_policy
from sim.api.kinds.node import runtime_class
from sim.api.kinds.policy import pod_disruption_budget
from sim.api.kinds.rbac import bindings, roles
from sim.api.kinds.scheduling import priority_class
from sim.api.kinds.storage import csi_driver, csi_node, csi_storage_capacity, storage_class, volume_attachment
from sim.api.schema.kind import Kind, Row

KINDS: tuple[Kind, ...] = (
    binding.KIND,
    component_status.KIND,
    config_map.KIND,
    endpoints.KIND,
    event.KIND,
    limit_range.KIND,
    namespace.KIND,
    node.KIND,
    persistent_volume_claim.KIND,
    persistent_volume.KIND,
    pod.KIND,
    pod_template.KIND,
    replication_controller.KIND,
    resource_quota.KIND,
    secret.KIND,
    service_account.KIND,
    service.KIND,
    api_service.KIND,
    controller_revision.KIND,
    daemon_set.KIND,
    deployment.KIND,
    replica_set.KIND,
    stateful_set.KIND,
    token_review.KIND,
    reviews.LOCAL_SUBJECT_ACCESS_REVIEW,
    reviews.SELF_SUBJECT_ACCESS_REVIEW,
    reviews.SELF_SUBJECT_RULES_REVIEW,
    reviews.SUBJECT_ACCESS_REVIEW,
    horizontal_pod_autoscaler.KIND,
    cron_job.KIND,
    job.KIND,
    certificate_signing_request.KIND,
    newer_event.KIND,
    custom_resource_definition.KIND,
    ingress_class.KIND,
    ingress.KIND,
    network_policy.KIND,
    cluster_cidr.KIND,
    pod_disruption_budget.KIND,
    bindings.CLUSTER_ROLE_BINDING,
    roles.CLUSTER_ROLE,
    bindings.ROLE_BINDING,
    roles.ROLE,
    csi_driver.KIND,
    csi_node.KIND,
    csi_storage_capacity.KIND,
    storage_class.KIND,
    volume_attachment.KIND,
    runtime_class.KIND,
    priority_class.KIND,
    webhook_configurations.MUTATING,
    webhook_configurations.VALIDATING,
    lease.KIND,
    endpoint_slice.KIND,
    flow_schema.KIND,
    priority_level_configuration.KIND,
    storage_version.KIND,
)


def rows_of(kinds: Iterable[Kind]) -> tuple[tuple[Row, Kind], ...]:
    """The rows of kinds, each with its kind: group by group, in a group version by version, and
    then in the order of the kinds.
    """
    found: dict[str, dict[str, list[tuple[Row, Kind]]]] = {}
    for kind in kinds:
        for row in kind.rows:
            found.setdefault(row.group, {}).setdefault(row.version, []).append((row, kind))
    return tuple(pair for versions in found.values() for pairs in versions.values() for pair in pairs)


ROWS: tuple[Row, ...] = tuple(row for row, _ in rows_of(KINDS))
# By plural: the path of the pod spec in kinds that have one.
POD_SPECS = {row.plural: kind.pod_spec for row, kind in rows_of(KINDS) if kind.pod_spec}
