"""The compiled field schemas."""

from collections import Counter

from sim.api.schema.field_schemas import (
    definition_name,
    definitions,
    description,
    raw_definition,
    schema_of,
    schema_of_kind,
)

CORE = "io.k8s.api.core.v1."


def _markers(raw, found):
    found.update(key for key in raw if key.startswith("x-kubernetes-"))
    for below in raw.get("properties", {}).values():
        _markers(below, found)
    for key in ("items", "additionalProperties"):
        if isinstance(raw.get(key), dict):
            _markers(raw[key], found)


def test_the_dependency_still_ships_the_definitions_this_code_was_written_for():
    found = Counter()
    for name in definitions():
        _markers(raw_definition(name), found)
    assert len(definitions()) == 516
    assert found["x-kubernetes-list-type"] == 72
    assert found["x-kubernetes-list-map-keys"] == 20
    assert found["x-kubernetes-map-type"] == 25
    assert found["x-kubernetes-patch-merge-key"] == 41
    assert found["x-kubernetes-patch-strategy"] == 45
    assert found["x-kubernetes-group-version-kind"] == 128


def test_kinds_are_found_by_group_version_and_kind():
    assert definition_name("apps", "v1", "Deployment") == "io.k8s.api.apps.v1.Deployment"
    assert definition_name("apps", "v1", "Nothing") == ""
    assert schema_of_kind("", "v1", "Pod") is schema_of(CORE + "Pod")


def test_a_list_without_apply_markers_takes_its_type_from_the_patch_strategy():
    spec = schema_of(CORE + "PodSpec").properties
    assert (spec["containers"].list_type, spec["containers"].list_map_keys) == ("map", ("name",))
    assert spec["volumes"].patch_strategies == ("merge", "retainKeys")
    assert spec["tolerations"].list_type == "atomic"
    meta = schema_of(CORE + "Pod").properties["metadata"].properties
    assert meta["finalizers"].list_type == "set"
    assert meta["ownerReferences"].list_map_keys == ("uid",)


def test_a_map_list_knows_the_default_of_a_key_left_out():
    ports = schema_of(CORE + "Container").properties["ports"]
    assert ports.list_map_keys == ("containerPort", "protocol")
    assert ports.key_defaults == {"containerPort": 0, "protocol": "TCP"}
    spec = schema_of(CORE + "PodSpec").properties
    assert spec["containers"].key_defaults == {"name": ""}
    assert spec["imagePullSecrets"].key_defaults == {}  # its key is optional


def test_optional_time_that_is_no_pointer_is_null_when_it_is_absent():
    condition = schema_of("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerCondition")
    assert condition.nulls == ("lastTransitionTime",)
    assert schema_of("io.k8s.api.batch.v1.JobStatus").nulls == ()


def test_special_definitions_are_types_of_their_own():
    resources = schema_of(CORE + "ResourceRequirements").properties["limits"]
    assert resources.type == "map"
    assert resources.values is not None and resources.values.type == "quantity"
    lease = schema_of("io.k8s.api.coordination.v1.LeaseSpec").properties
    assert lease["renewTime"].type == "micro-time"
    assert schema_of(CORE + "ServicePort").properties["targetPort"].type == "int-or-string"
    assert schema_of("io.k8s.api.apps.v1.ControllerRevision").properties["data"].type == "any"
    assert schema_of(CORE + "Secret").properties["data"].values.format == "byte"


def test_marks_on_a_reference_do_not_change_the_shared_definition():
    strategy = schema_of("io.k8s.api.apps.v1.DeploymentSpec").properties["strategy"]
    assert strategy.patch_strategies == ("retainKeys",)
    assert schema_of("io.k8s.api.apps.v1.DeploymentStrategy").patch_strategies == ()
    selector = schema_of("io.k8s.api.apps.v1.DeploymentSpec").properties["selector"]
    assert selector.map_type == "atomic"


def test_a_definition_may_contain_itself():
    props = schema_of("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    assert props.properties["not"] is props


def test_field_descriptions_are_found_through_references():
    text = description("io.k8s.api.coordination.v1.Lease", ("spec", "holderIdentity"))
    assert text.startswith("holderIdentity contains the identity of the holder")
