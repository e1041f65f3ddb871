"""Schemas of custom resources in OpenAPI documents."""

import json
from typing import Any

from sim.api.crd.served import resources_of
from sim.api.openapi.custom_paths import custom_paths
from sim.api.openapi.custom_schemas import schemas
from sim.api.openapi.schemas import V2, V3
from sim.ident import NAMES

EITHER = [{"type": "integer"}, {"type": "string"}]


def resource(schema: dict[str, Any], **spec: Any) -> Any:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"scale": {"specReplicasPath": ".a", "statusReplicasPath": ".b"}},
    }
    names = {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"}
    conditions = [{"type": kind, "status": "True"} for kind in ("Established", "NamesAccepted")]
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version], **spec},
        "status": {"acceptedNames": names, "conditions": conditions, "storedVersions": ["v1"]},
    }
    return resources_of(definition)[0]


def published(field: dict[str, Any], refs: str = V3, **more: Any) -> Any:
    """The published schema of a field."""
    made = schemas([resource({"type": "object", "properties": {"x": field}, **more})], refs)
    return made["com.example.v1.Thing"]["properties"].get("x")


def test_whole_numbers_or_strings_have_both_types_once():
    given = {"x-kubernetes-int-or-string": True}
    assert published(given)["anyOf"] == EITHER
    assert published({**given, "anyOf": EITHER}) == {"anyOf": EITHER, **given}
    kept = [{"anyOf": EITHER}, {"pattern": "1"}]
    assert published({**given, "allOf": kept}) == {"allOf": kept, **given}
    both = published({**given, "anyOf": [{"pattern": "1"}, {"maximum": 4}]})
    assert (both["allOf"], both["anyOf"]) == ([{"anyOf": EITHER}], [{"pattern": "1"}, {"maximum": 4}])
    assert published(given, V2) == given


def test_members_without_meaning_are_not_published():
    field = {"type": "string", "nullable": False, "title": "", "maxLength": 0, "example": 1, "enum": []}
    assert published(field) == {"type": "string", "maxLength": 0}


def test_older_form_of_nullable_values_is_untyped():
    field = {"type": "array", "nullable": True, "items": {"type": "string"}}
    assert published(field, V2) == {}
    assert published(field)["nullable"] is True


def test_older_form_requires_no_nullable_field():
    inner = {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}}
    field = {"type": "object", "properties": inner, "required": ["a", "b"]}
    assert published(field, V2)["required"] == ["b"]
    assert published(field)["required"] == ["a", "b"]


def test_older_form_of_a_map_of_nullable_values_is_a_map_of_none():
    rest = {"additionalProperties": {"type": "string", "nullable": True}}
    field = {"type": "object", "required": ["k"], **rest}
    assert published(field, V2) == {"type": "object", "additionalProperties": False}


def test_older_form_of_free_objects_has_no_fields():
    field = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"k": {"type": "string"}},
    }
    assert published(field, V2) == {"x-kubernetes-preserve-unknown-fields": True}
    assert list(published(field)["properties"]) == ["k"]


def test_older_form_of_a_free_kind_has_nothing_but_its_type():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    for one in (
        resource({**schema, "x-kubernetes-preserve-unknown-fields": True}),
        resource(schema, preserveUnknownFields=True),
    ):
        assert list(schemas([one], V2)["com.example.v1.Thing"]) == ["type", "x-kubernetes-group-version-kind"]
        assert "metadata" in schemas([one], V3)["com.example.v1.Thing"]["properties"]


def test_defaults_are_published_in_the_newer_form_only():
    field = {"type": "object", "default": {"b": 1, "a": 2}, "properties": {"a": {"type": "integer"}}}
    assert json.dumps(published(field)["default"]) == '{"a": 2, "b": 1}'
    assert "default" not in published(field, V2)


def test_embedded_objects_have_the_common_fields():
    field = {"type": "object", "x-kubernetes-embedded-resource": True, "required": ["kind"]}
    made = published(field)
    assert (sorted(made["properties"]), made["required"]) == (
        ["apiVersion", "kind", "metadata"],
        ["kind", "apiVersion"],
    )
    free = {**field, "x-kubernetes-preserve-unknown-fields": True}
    assert "properties" not in published(free, V2)
    assert "properties" in published(free)


def test_rules_keep_their_order_in_the_newer_form():
    rules = [{"rule": "self.a > 1", "message": "m", "other": 1}, {"rule": "true"}]
    field = {"type": "object", "x-kubernetes-validations": rules}
    newer = published(field)["x-kubernetes-validations"]
    older = published(field, V2)["x-kubernetes-validations"]
    assert [list(each) for each in (*newer, older[0])] == [["rule", "message"], ["rule"], ["message", "rule"]]


def test_paths_of_custom_resources_follow_their_own_rules():
    paths = custom_paths(resource({"type": "object"}), NAMES["kubernetes"])
    base = "/apis/example.com/v1/things"
    assert list(paths) == [base, f"{base}/{{name}}", f"{base}/{{name}}/scale"]
    scale = paths[f"{base}/{{name}}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"]["kind"] == "Thing"
    assert scale["responses"]["200"]["schema"]["$ref"].endswith("autoscaling.v1.Scale")
    patch = paths[f"{base}/{{name}}"]["patch"]
    assert [each["name"] for each in patch["parameters"]][1:] == ["dryRun", "fieldManager", "fieldValidation"]
    assert patch["consumes"][2:] == ["application/apply-patch+yaml"]
    many = paths[base]["delete"]
    assert "body" not in [each["name"] for each in many["parameters"]]
    assert many["operationId"] == "deleteExampleComV1CollectionThing"
