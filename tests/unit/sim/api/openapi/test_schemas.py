"""Schemas of OpenAPI: enums, and the defaults of version 3."""

from sim.api.openapi.schemas import ENUMS, V2, V3, definition_v2, definition_v3
from sim.api.schema.field_schemas import META, definitions, raw_definition
from sim.ident import NAMES

N = NAMES["kubernetes"]
CORE = "io.k8s.api.core.v1."


def _field(name, field):
    return definition_v3(name, N)["properties"][field]


def test_enum_is_stated_for_each_field_that_upstream_lists_values_of():
    # The dependency cuts the list of values off these descriptions, and leaves the blank lines.
    listed = {
        (name.rpartition("io.k8s.api.")[2], field)
        for name in definitions()
        for field, raw in raw_definition(name).get("properties", {}).items()
        if raw.get("description", "").endswith("\n\n")
    }
    assert listed == ENUMS.keys()
    assert all(list(values) == sorted(values) for values in ENUMS.values())


def test_enum_and_its_list_are_part_of_both_versions():
    for schema in (definition_v2(f"{CORE}Taint", N), definition_v3(f"{CORE}Taint", N)):
        effect = schema["properties"]["effect"]
        assert effect["enum"] == ["NoExecute", "NoSchedule", "PreferNoSchedule"]
        assert effect["description"].endswith('Possible enum values:\n - `"NoExecute"`\n - `"NoSchedule"`\n'
                                              ' - `"PreferNoSchedule"`')  # fmt: skip


def test_version_3_has_the_zero_values_of_required_scalars_as_defaults():
    assert _field(f"{CORE}Taint", "effect")["default"] == ""
    assert _field(f"{CORE}ContainerPort", "containerPort")["default"] == 0
    assert _field(f"{CORE}ContainerPort", "protocol")["default"] == "TCP"
    assert "default" not in _field(f"{CORE}ContainerPort", "hostPort")
    assert _field("io.k8s.api.apps.v1.StatefulSetStatus", "availableReplicas")["default"] == 0
    assert "default" not in definition_v2(f"{CORE}Taint", N)["properties"]["effect"]


def test_version_3_refers_to_structs_with_an_empty_default_and_to_pointers_without():
    lease = _field("io.k8s.api.coordination.v1.Lease", "spec")
    reference = {"$ref": f"{V3}io.k8s.api.coordination.v1.LeaseSpec"}
    assert (lease["allOf"], lease["default"]) == ([reference], {})
    renewed = _field("io.k8s.api.coordination.v1.LeaseSpec", "renewTime")
    assert renewed["allOf"] == [{"$ref": f"{V3}{META}MicroTime"}] and "default" not in renewed
    items = _field(f"{CORE}PodList", "items")["items"]
    assert items == {"allOf": [{"$ref": f"{V3}{CORE}Pod"}], "default": {}}
    assert _field(f"{CORE}Container", "args")["items"] == {"default": "", "type": "string"}
    assert "default" not in _field(f"{CORE}Secret", "data")["additionalProperties"]
    assert _field(f"{CORE}Volume", "emptyDir").keys() == {"allOf", "description"}
    older = definition_v2("io.k8s.api.coordination.v1.Lease", N)["properties"]["spec"]
    assert older["$ref"] == f"{V2}io.k8s.api.coordination.v1.LeaseSpec"
