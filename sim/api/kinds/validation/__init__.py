"""Semantic validation: (resource, object[, old object]) to the field errors upstream would report, in its order.

Turns objects that are well-typed and defaulted (see `fieldvalidation`) into a list of `FieldError`; empty means
valid.  `status.invalid` takes the list as its causes.

Holds: subtrees checked once are known by identity (`identity.IdentityMemo`), and what an update leaves the same
object is not looked at, so that the pods of one template and the status writes of thousands of nodes cost little.
A kind without rules of its own has its metadata checked.

Mirrors  kubernetes v1.25 pkg/apis/*/validation, apiserver pkg/registry/rest/{create,update}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from sim.api.kinds.validation import (
    autoscaling,
    batch,
    core,
    flows,
    ingress,
    network,
    policy,
    quotas,
    text,
    workloads,
)
from sim.api.kinds.validation.definitions import definition as definitions
from sim.api.kinds.validation.errors import Errors, FieldError
from sim.api.kinds.validation.meta import object_meta, object_meta_update
from sim.api.kinds.validation.pods import pod as pods
from sim.api.schema.scheme import Resource
from sim.api.types import Obj
from sim.options.gates import SCALE_TO_ZERO

__all__ = ["FieldError", "validate_create", "validate_update"]

Create = Callable[[Obj], Errors]
Update = Callable[[Obj, Obj], Errors]

_CREATE: dict[tuple[str, str], Create] = {
    ("", "configmaps"): core.create_config_map,
    ("", "podtemplates"): workloads.create_pod_template,
    ("", "endpoints"): network.create_endpoints,
    ("", "events"): core.create_event,
    ("", "limitranges"): quotas.create_limit_range,
    ("", "namespaces"): core.create_namespace,
    ("", "nodes"): core.create_node,
    ("", "persistentvolumeclaims"): core.create_claim,
    ("", "pods"): pods.create,
    ("", "replicationcontrollers"): workloads.create_controller,
    ("", "resourcequotas"): quotas.create_quota,
    ("", "secrets"): core.create_secret,
    ("", "serviceaccounts"): core.create_service_account,
    ("", "services"): network.create_service,
    ("apiextensions", "customresourcedefinitions"): definitions.create_definition,
    ("apps", "controllerrevisions"): workloads.create_controller_revision,
    ("apps", "daemonsets"): workloads.create_daemon_set,
    ("apps", "deployments"): workloads.create_deployment,
    ("apps", "replicasets"): workloads.create_replica_set,
    ("apps", "statefulsets"): workloads.create_stateful_set,
    ("autoscaling", "horizontalpodautoscalers"): autoscaling.create_autoscaler,
    ("batch", "cronjobs"): batch.create_cron_job,
    ("batch", "jobs"): batch.create_job,
    ("coordination", "leases"): policy.create_lease,
    ("discovery", "endpointslices"): network.create_slice,
    ("events", "events"): core.create_new_event,
    ("flowcontrol.apiserver", "flowschemas"): flows.create_schema,
    ("flowcontrol.apiserver", "prioritylevelconfigurations"): flows.create_level,
    ("node", "runtimeclasses"): policy.create_runtime_class,
    ("networking", "ingressclasses"): ingress.create_class,
    ("networking", "ingresses"): ingress.create_ingress,
    ("networking", "networkpolicies"): ingress.create_policy,
    ("policy", "poddisruptionbudgets"): policy.create_budget,
    ("scheduling", "priorityclasses"): policy.create_priority_class,
}

_UPDATE: dict[tuple[str, str, str], Update] = {
    ("", "configmaps", ""): core.update_config_map,
    ("", "podtemplates", ""): workloads.update_pod_template,
    ("", "endpoints", ""): network.update_endpoints,
    ("", "events", ""): core.update_event,
    ("", "limitranges", ""): quotas.update_limit_range,
    ("", "namespaces", ""): core.update_namespace,
    ("", "namespaces", "finalize"): core.finalize_namespace,
    ("", "namespaces", "status"): core.status_namespace,
    ("", "nodes", ""): core.update_node,
    ("", "nodes", "status"): core.update_node,
    ("", "persistentvolumeclaims", ""): core.update_claim,
    ("", "persistentvolumeclaims", "status"): core.status_claim,
    ("", "pods", ""): pods.update,
    ("", "pods", "ephemeralcontainers"): pods.ephemeral_update,
    ("", "pods", "status"): pods.status_update,
    ("", "replicationcontrollers", ""): workloads.update_controller,
    ("", "replicationcontrollers", "status"): workloads.status_replica_set,
    ("", "resourcequotas", ""): quotas.update_quota,
    ("", "resourcequotas", "status"): quotas.status_quota,
    ("", "secrets", ""): core.update_secret,
    ("", "serviceaccounts", ""): core.update_service_account,
    ("", "services", ""): network.update_service,
    ("", "services", "status"): network.status_balanced,
    ("apiextensions", "customresourcedefinitions", ""): definitions.update_definition,
    ("apiextensions", "customresourcedefinitions", "status"): definitions.status_definition,
    ("apps", "controllerrevisions", ""): workloads.update_controller_revision,
    ("apps", "daemonsets", ""): workloads.update_daemon_set,
    ("apps", "daemonsets", "status"): workloads.status_daemon_set,
    ("apps", "deployments", ""): workloads.update_deployment,
    ("apps", "deployments", "status"): workloads.status_deployment,
    ("apps", "replicasets", ""): workloads.update_replica_set,
    ("apps", "replicasets", "status"): workloads.status_replica_set,
    ("apps", "statefulsets", ""): workloads.update_stateful_set,
    ("apps", "statefulsets", "status"): workloads.status_stateful_set,
    ("autoscaling", "horizontalpodautoscalers", ""): autoscaling.update_autoscaler,
    ("autoscaling", "horizontalpodautoscalers", "status"): autoscaling.status_autoscaler,
    ("batch", "cronjobs", ""): batch.update_cron_job,
    ("batch", "jobs", ""): batch.update_job,
    ("batch", "jobs", "status"): batch.status_job,
    ("coordination", "leases", ""): policy.update_lease,
    ("discovery", "endpointslices", ""): network.update_slice,
    ("events", "events", ""): core.update_new_event,
    ("flowcontrol.apiserver", "flowschemas", ""): flows.update_schema,
    ("flowcontrol.apiserver", "prioritylevelconfigurations", ""): flows.update_level,
    ("node", "runtimeclasses", ""): policy.update_runtime_class,
    ("networking", "ingressclasses", ""): ingress.update_class,
    ("networking", "ingresses", ""): ingress.update_ingress,
    ("networking", "ingresses", "status"): network.status_balanced,
    ("networking", "networkpolicies", ""): ingress.update_policy,
    ("policy", "poddisruptionbudgets", ""): policy.update_budget,
    ("policy", "poddisruptionbudgets", "status"): policy.status_budget,
    ("scheduling", "priorityclasses", ""): policy.update_priority_class,
}


# Rules of kinds that are others while a gate is on.
_GATED_CREATE = {
    (SCALE_TO_ZERO, "autoscaling", "horizontalpodautoscalers"): partial(
        autoscaling.create_autoscaler, fewest=0
    )
}
_GATED_UPDATE = {
    (SCALE_TO_ZERO, "autoscaling", "horizontalpodautoscalers", ""): partial(
        autoscaling.update_autoscaler, fewest=0
    )
}
# Parts of metadata whose change has the whole of it looked at again.
_WHOLE = ("labels", "annotations", "ownerReferences", "finalizers", "name", "namespace", "generation")


def validate_create(resource: Resource, obj: Obj, gates: Collection[str] = ()) -> Errors:
    """What is wrong with a new object: the kind's own rules, and the generic ones once those hold.

    gates: of features that are on though they are off by default
    """
    place = resource.short_group, resource.plural
    rule = _CREATE.get(place)
    for gate in gates:
        rule = _GATED_CREATE.get((gate, *place), rule)
    errors = rule(obj) if rule is not None else []
    if errors or (rule is not None and resource.rule != "events"):  # all others look at metadata themselves
        return errors
    return object_meta(obj["metadata"], resource.namespaced, text.segment, core=False)


def validate_update(
    resource: Resource, new: Obj, old: Obj, subresource: str = "", gates: Collection[str] = ()
) -> Errors:
    """What is wrong with a change.  Quirk: errors of metadata come from the generic rules and the kind's own.

    gates: of features that are on though they are off by default
    """
    if new is old:
        return []
    after, before = new["metadata"], old["metadata"]
    errors = object_meta_update(after, before, core=False)
    if after is not before and any(after.get(key) is not before.get(key) for key in _WHOLE):
        errors = object_meta(after, resource.namespaced, text.segment, core=False) + errors
    place = resource.short_group, resource.plural, subresource
    rule = _UPDATE.get(place)
    for gate in gates:
        rule = _GATED_UPDATE.get((gate, *place), rule)
    return errors if rule is None else errors + rule(new, old)
