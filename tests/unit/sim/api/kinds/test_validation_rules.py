"""Validation rules of kinds other than pods, each named after the upstream function that has it."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.autoscaling.horizontal_pod_autoscaler.forms import settled, to_beta
from sim.api.kinds.core.service.addresses import keep_allocated, sync_addresses
from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.strategies import for_create, for_status, for_update
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.schema.resource import Resource
from sim.api.selectors import SelectorError, format_selector, parse_fields
from sim.api.verbs.review import errors_of
from tests.unit.sim.api.golden_api import Api
from tests.unit.sim.api.kinds.writes import NAMING, SCHEME

Obj = dict[str, Any]
META = {"name": "x", "uid": "u", "resourceVersion": "1"}
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}


def filled(resource: Resource, body: Obj) -> Obj:
    meta = {**META, **({"namespace": "d"} if resource.namespaced else {}), **body.get("metadata", {})}
    return apply_defaults(resource, {**body, "apiVersion": resource.api_version, "metadata": meta})


def created(plural: str, body: Obj) -> list[str]:
    """The errors of a create."""
    resource = SCHEME.resource(plural)
    made = for_create(resource, filled(resource, body), NAMING)
    return [f"{error.field}: {error.message}" for error in validate_create(resource, made)]


def updated(plural: str, before: Obj, after: Obj, status: bool = False) -> list[str]:
    """The errors of an update."""
    resource = SCHEME.resource(plural)
    old, new = filled(resource, before), filled(resource, after)
    if status:
        new = for_status(resource, new, old, NAMING)
        errors = validate_update(resource, new, old, "status")
    else:
        errors = validate_update(resource, for_update(resource, new, old, NAMING), old)
    return [f"{error.field}: {error.message}" for error in errors]


@pytest.mark.parametrize(
    ("plural", "before", "after", "wrong"),
    [
        # networkPolicyStrategy.ValidateUpdate: the object is checked as a new one too
        ("networkpolicies", {"spec": {}}, {"spec": {"policyTypes": ["X"]}}, "spec.policyTypes[0]"),
        # csiNodeStrategy.ValidateUpdate
        ("csinodes", {"spec": {}}, {"spec": {"drivers": [{"name": "a"}]}}, "spec.drivers[0].nodeID"),
        # nodeStrategy.ValidateUpdate
        ("nodes", {"spec": {}}, {"spec": {"taints": [{"key": "k"}]}}, "metadata.taints[0].effect"),
        # persistentvolumeStrategy.ValidateUpdate
        (
            "persistentvolumes",
            {
                "spec": {
                    "capacity": {"storage": "1"},
                    "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": "/a"},
                }
            },
            {"spec": {"capacity": {"storage": "1"}, "hostPath": {"path": "/a"}}},
            "spec.accessModes",
        ),
    ],
)
def test_update_lists_errors_of_a_strategy_that_checks_twice_twice(
    plural: str, before: Obj, after: Obj, wrong: str
) -> None:
    assert sum(error.startswith(f"{wrong}:") for error in updated(plural, before, after)) == 2


def test_ingress_update_tolerates_what_the_stored_one_has() -> None:
    """allowInvalidSecretName, allowInvalidWildcardHostRule."""
    tls, rule = [{"secretName": "-"}], {"host": "*.a", "http": {"paths": []}}
    wrong = {"spec": {"defaultBackend": BACKEND, "tls": tls, "rules": [rule]}}
    sound = {"spec": {"defaultBackend": BACKEND}}
    assert updated("ingresses", wrong, wrong) == []
    fields = [error.split(":")[0] for error in updated("ingresses", sound, wrong)]
    assert fields == ["spec.rules[0].http.paths", "spec.tls[0].secretName"]


def test_mapped_address_is_no_address_of_version_6() -> None:
    """IsValidIPv6Address reads the form of version 4 inside of it (Go's To4)."""
    mapped = {"addressType": "IPv6", "endpoints": [{"addresses": ["::ffff:1.2.3.4"]}]}
    assert created("endpointslices", mapped)[0].endswith("must be a valid IPv6 address")
    assert created("endpointslices", {**mapped, "addressType": "IPv4"}) == []


def test_empty_lists_of_slices_limits_and_drivers_are_stored_as_null() -> None:
    def stored(plural: str, body: Obj) -> Obj:
        resource = SCHEME.resource(plural)
        return for_create(resource, filled(resource, body), NAMING)

    slices = stored("endpointslices", {"addressType": "IPv4", "endpoints": [], "ports": []})
    assert slices["endpoints"] is slices["ports"] is None
    assert stored("limitranges", {"spec": {"limits": []}})["spec"]["limits"] is None
    assert stored("csinodes", {"spec": {"drivers": []}})["spec"]["drivers"] is None
    driver = {"name": "d", "nodeID": "n", "topologyKeys": []}
    assert stored("csinodes", {"spec": {"drivers": [driver]}})["spec"]["drivers"][0]["topologyKeys"] is None


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        # ValidateServiceClusterIPsRelatedFields
        ({"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4", "1.2.3.5", "x"]}, ["[2]", ": Invalid"]),
        ({"ipFamilyPolicy": "X"}, ['"PreferDualStack", "RequireDualStack", "SingleStack"']),
        # validateClientIPAffinityConfig
        (
            {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}},
            ["Seconds: Invalid"],
        ),
        # validateServiceExternalTrafficPolicy
        ({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}, ["spec.healthCheckNodePort: Required"]),
        # ValidateService: an address that is none is not judged further
        ({"externalIPs": ["x"]}, ["spec.externalIPs[0]: Invalid"]),
    ],
)
def test_service_rules_are_those_of_upstream(spec: Obj, errors: list[str]) -> None:
    found = created("services", {"spec": {"ports": [{"port": 80}], **spec}})
    assert len(found) == len(errors)
    assert all(part in error for part, error in zip(errors, found, strict=True))


def test_repeated_ports_of_a_service_follow_its_node_ports() -> None:
    ports = [{"name": name, "port": 80, "nodePort": 30001} for name in ("a", "b")]
    found = created("services", {"spec": {"type": "NodePort", "ports": ports}})
    assert [error.split(":")[0] for error in found] == ["spec.ports[1].nodePort", "spec.ports[1]"]


def test_released_family_of_a_service_needs_a_single_stack() -> None:
    """validateUpgradeDowngradeClusterIPs, validateUpgradeDowngradeIPFamilies."""
    two = {"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4", "::1"], "ipFamilies": ["IPv4", "IPv6"]}
    one = {"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"], "ipFamilies": ["IPv4"]}
    policy, ports = {"ipFamilyPolicy": "PreferDualStack"}, {"ports": [{"port": 1}]}
    found = updated("services", {"spec": {**two, **policy, **ports}}, {"spec": {**one, **policy, **ports}})
    assert [error.rpartition(" ")[2] for error in found] == ["clusterIP", "ipFamily"]


def test_fields_of_gates_that_are_off_are_dropped_from_nodes_and_claims() -> None:
    """nodeStrategy.dropDisabledFields, pvcutil.DropDisabledFieldsFromStatus."""
    node, claim = SCHEME.resource("nodes"), SCHEME.resource("persistentvolumeclaims")
    made = for_create(node, filled(node, {"spec": {"configSource": {}}, "status": {"config": {}}}), NAMING)
    assert "configSource" not in made["spec"] and "config" not in made["status"]
    new = filled(claim, {"status": {"resizeStatus": "x", "allocatedResources": {}, "phase": "Bound"}})
    assert for_status(claim, new, filled(claim, {}), NAMING)["status"] == {"phase": "Bound"}


def test_ranges_of_a_node_are_of_two_families_and_differ() -> None:
    """ValidateNode."""
    found = created("nodes", {"spec": {"podCIDRs": ["1.2.3.0/24", "x", "x"]}})
    assert [error.split(":")[0] for error in found] == [
        "spec.podCIDRs[1]",
        "spec.podCIDRs[2]",
        "spec.podCIDRs",
        "spec.podCIDRs",
        "spec.podCIDRs[2]",
    ]
    assert updated("nodes", {"spec": {}}, {"spec": {"externalID": "a"}}) == [
        "spec.externalID: Forbidden: may not be updated"
    ]


def test_access_mode_of_one_pod_needs_its_gate() -> None:
    """ValidationOptionsForPersistentVolumeClaim."""
    body = {
        "spec": {
            "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"],
            "resources": {"requests": {"storage": "1"}},
        }
    }
    found = created("persistentvolumeclaims", body)
    assert [error.split(" ")[1] for error in found] == ["Unsupported", "Forbidden:"]
    resource = SCHEME.resource("persistentvolumeclaims")
    gated = validate_create(resource, filled(resource, body), ("ReadWriteOncePod",))
    assert [error.type for error in gated] == ["Forbidden"]


def test_class_of_a_claim_may_move_from_its_annotation() -> None:
    """validateStorageClassUpgradeFromAnnotation."""
    base = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    noted = {"annotations": {NAMING.annotation_beta_storage_class: "s"}}
    before = {"metadata": noted, "spec": base}
    assert updated("persistentvolumeclaims", before, {"spec": {**base, "storageClassName": "s"}}) == []
    assert len(updated("persistentvolumeclaims", before, {"spec": {**base, "storageClassName": "t"}})) == 2


def test_conditions_of_a_budget_follow_the_common_rules() -> None:
    """ValidateConditions."""
    condition = {"type": "A", "status": "Maybe", "observedGeneration": -1, "reason": "a-b"}
    found = updated("poddisruptionbudgets", {}, {"status": {"conditions": [condition, condition]}}, True)
    fields = ["status", "observedGeneration", "lastTransitionTime", "reason"]
    first = [f"status.conditions[0].{field}" for field in fields]
    second = [f"status.conditions[1].{field}" for field in ("type", *fields)]
    assert [error.split(":")[0] for error in found] == first + second


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        ({"nonResourceRules": [{"verbs": ["go"], "nonResourceURLs": ["/"]}]}, "verbs: Unsupported"),
        (
            {"nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/a*"]}]},
            '[0]: Invalid value: "/a*": wild',
        ),
        (
            {"resourceRules": [{"verbs": ["*"], "apiGroups": [""], "resources": ["*"], "namespaces": ["A"]}]},
            "each member of this list must be '*'",
        ),
    ],
)
def test_rules_of_flow_schemas_are_spelled_as_upstream_wants(rules: Obj, wrong: str) -> None:
    rule = {"subjects": [{"kind": "User", "user": {"name": "u"}}], **rules}
    (error,) = created(
        "flowschemas", {"spec": {"priorityLevelConfiguration": {"name": "p"}, "rules": [rule]}}
    )
    assert wrong in error


def test_condition_of_a_flow_schema_needs_a_type() -> None:
    """ValidateFlowSchemaStatus."""
    found = updated("flowschemas", {}, {"status": {"conditions": [{"status": "True"}]}}, True)
    assert found == ["status.conditions[0].type: Required value: must not be empty"]


def test_tolerations_of_a_runtime_class_are_unique() -> None:
    """validateTolerations."""
    toleration = {"key": "k", "operator": "Exists", "value": "v"}
    found = created(
        "runtimeclasses", {"handler": "h", "scheduling": {"tolerations": [toleration, toleration]}}
    )
    assert [error.split(":")[0] for error in found] == [
        "scheduling.tolerations.tolerations[0].operator",
        "scheduling.tolerations.tolerations[1].operator",
        "scheduling.tolerations[1]",
    ]


def test_empty_text_of_a_pointer_is_no_missing_value() -> None:
    assert created("priorityclasses", {"value": 1, "preemptionPolicy": ""})
    # ValidateReclaimPolicy passes over an empty text.
    assert not created("storageclasses", {"provisioner": "p", "reclaimPolicy": ""})


def test_event_with_a_time_may_be_about_another_namespace() -> None:
    """legacyValidateEvent."""
    body = {"involvedObject": {"namespace": "other"}, "metadata": {"namespace": "d"}}
    assert created("events", body)[0].endswith("does not match event.namespace")
    timed = {"eventTime": "2020-01-01T00:00:00.000000Z", "reportingComponent": "c", "reportingInstance": "i"}
    assert created("events", {**body, **timed, "action": "A", "reason": "R"}) == []


def test_autoscaler_is_stored_as_v1_keeps_it() -> None:
    """Convert_v1_HorizontalPodAutoscaler_To_autoscaling_HorizontalPodAutoscaler."""
    share = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}},
    }
    about = {
        "type": "Object",
        "object": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}},
    }
    obj = {"apiVersion": "autoscaling/v2", "metadata": {}, "spec": {"metrics": [share, about]}, "status": {}}
    first, last = settled(obj, NAMING)["spec"]["metrics"]
    assert last == share
    assert first["object"]["target"] == {"type": "AverageValue", "value": "0", "averageValue": "1"}
    beta = to_beta(obj, "autoscaling/v2beta2")["status"]
    assert beta == {"currentReplicas": 0, "conditions": None}


def test_term_of_an_operator_alone_counts_for_nothing() -> None:
    """fields.ParseSelector drops a term of an empty field and an empty value."""
    assert parse_fields(SCHEME.resource("configmaps"), "=").empty
    assert len(parse_fields(SCHEME.resource("configmaps"), "!=,metadata.name=a").requirements) == 1


def test_addresses_of_a_service_are_kept_one_by_one() -> None:
    """patchAllocatedValues, normalizeClusterIPs."""

    def synced(**given: Any) -> Obj:
        before = {"type": "ClusterIP", "clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"]}
        spec = {"type": "ClusterIP", **given}
        keep_allocated(spec, before)
        sync_addresses(spec, before)
        return {key: spec.get(key) for key in ("clusterIP", "clusterIPs")}

    assert synced() == {"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"]}
    assert synced(clusterIP="x") == {"clusterIP": "x", "clusterIPs": ["x"]}
    assert synced(clusterIPs=["x"]) == {"clusterIP": "1.2.3.4", "clusterIPs": ["x"]}


def test_structures_in_messages_are_written_as_go_does() -> None:
    taint = {"key": "k", "effect": "NoSchedule", "timeAdded": "2020-02-03T04:05:06Z"}
    (error,) = created("nodes", {"spec": {"taints": [taint, taint]}})
    assert "TimeAdded:time.Date(2020, time.February, 3, 4, 5, 6, 0, time.Local)}" in error
    review = {"metadata": {"labels": {"a": "b"}}, "spec": {"nonResourceAttributes": {}}}
    (found,) = errors_of("selfsubjectaccessreviews", review)
    assert (
        found.value.startswith('v1.ObjectMeta{Name:"", ')
        and 'Labels:map[string]string{"a":"b"}' in found.value
    )


def test_selector_of_one_value_is_shown_as_a_set_unless_a_label() -> None:
    """labels.Requirement.String."""
    one = {"key": "b", "operator": "In", "values": ["x"]}
    assert format_selector({"matchLabels": {"a": "x"}, "matchExpressions": [one]}) == "a=x,b in (x)"
    same = {"key": "a", "operator": "In", "values": ["x"]}
    assert format_selector({"matchLabels": {"a": "x"}, "matchExpressions": [same]}) == "a=x,a in (x)"


def test_fields_of_namespaces_and_nodes_do_not_have_a_namespace() -> None:
    """AddFieldLabelConversionsForNamespace, addConversionFuncs."""
    for plural in ("namespaces", "nodes"):
        with pytest.raises(SelectorError, match=r"field label not supported: metadata\.namespace"):
            parse_fields(SCHEME.resource(plural), "metadata.namespace=a")


def test_counts_of_objects_are_whole_numbers() -> None:
    """helper.IsIntegerResourceName."""
    hard = {"secrets": "1500m", "services.nodeports": "1500m", "cpu": "1500m"}
    found = created("resourcequotas", {"spec": {"hard": hard}})
    assert [error.split(":")[0] for error in found] == ["spec.hard[secrets]", "spec.hard[services.nodeports]"]


def test_update_of_endpoints_lists_errors_of_metadata_again() -> None:
    """ValidateEndpointsUpdate."""
    found = updated("endpoints", {}, {"metadata": {"labels": {"k": "-"}}})
    assert len(found) == 4 and len(dict.fromkeys(found)) == 1


def test_deletion_of_an_event_never_waits_for_dependents() -> None:
    """rest.Unsupported, eventStrategy.DefaultGarbageCollectionPolicy."""
    api, path = Api(), "/api/v1/namespaces/golden-ns/events"
    about = {"namespace": "golden-ns", "kind": "Pod", "name": "p"}
    api.ask("POST", path, {"metadata": {"name": "e"}, "involvedObject": about})
    assert api.ask("DELETE", f"{path}/e", {"propagationPolicy": "Foreground"}).code == 200
    assert api.ask("GET", f"{path}/e").code == 404


@pytest.mark.parametrize("version", ["v2", "v2beta2"])
def test_wrong_type_names_the_package_of_the_version(version: str) -> None:
    path = f"/apis/autoscaling/{version}/namespaces/golden-ns/horizontalpodautoscalers"
    reply = Api().ask("POST", path, {"metadata": {"name": "a"}, "spec": "x"})
    assert f"HorizontalPodAutoscaler.spec of type {version}.HorizontalPodAutoscalerSpec" in reply.message
