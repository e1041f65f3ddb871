"""CustomResourceDefinitions as objects: what is filled in, left out and refused; recorded answers are in
test_validation_golden."""

from __future__ import annotations

from typing import Any

import pytest

from sim.ident import NAMES
from sim.machinery.api import Obj
from sim.machinery.validation.definition_structure import ERRORS_MAX
from tests.unit.machinery.golden_api import Api

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"{DEFINITIONS}/widgets.example.com"
MERGE = "application/merge-patch+json"
ROOT = "spec.validation.openAPIV3Schema"
SPEC = f"{ROOT}.properties[spec]"
STRING = {"type": "string"}


def version(name: str = "v1", storage: bool = True, schema: Any = None, **more: Any) -> Obj:
    schema = {"type": "object"} if schema is None else schema
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        **more,
    }


def definition(*versions: Obj, **spec: Any) -> Obj:
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, **spec}
    metadata = {"name": f"{spec['names'].get('plural', '')}.{spec['group']}"}
    return {"metadata": metadata, "spec": {**spec, "versions": list(versions) or [version()]}}


def of_spec(schema: Any) -> Obj:
    """A definition whose objects have one field."""
    return definition(version(schema={"type": "object", "properties": {"spec": schema}}))


def refusals(body: Obj) -> list[str]:
    """Why it is not created, each cause with its field; [] if it is."""
    reply = Api().ask("POST", DEFINITIONS, body)
    if reply.code == 201:
        return []
    assert reply.code == 422, reply.body
    return [f"{cause['field']}: {cause['message']}" for cause in reply.body["details"]["causes"]]


# --- what people write ------------------------------------------------------------------------------------

CRON_TAB = of_spec(
    {
        "type": "object",
        "required": ["cronSpec"],
        "properties": {
            "cronSpec": {"type": "string", "pattern": r"^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$"},
            "image": {"type": "string", "default": "busybox"},
            "replicas": {"type": "integer", "minimum": 1, "maximum": 10, "default": 1},
        },
    }
)
OPERATOR = definition(
    version(
        "v1",
        schema={
            "type": "object",
            "description": "A Widget is made by an operator.",
            "properties": {
                "apiVersion": STRING,
                "kind": STRING,
                "metadata": {"type": "object"},
                "spec": {
                    "type": "object",
                    "properties": {
                        "port": {
                            "anyOf": [{"type": "integer"}, STRING],
                            "x-kubernetes-int-or-string": True,
                        },
                        "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        "manifest": {
                            "type": "object",
                            "x-kubernetes-embedded-resource": True,
                            "x-kubernetes-preserve-unknown-fields": True,
                        },
                        "labels": {"type": "object", "additionalProperties": STRING},
                        "storage": {"oneOf": [{"required": ["disk"]}], "type": "object"},
                    },
                    "x-kubernetes-validations": [{"rule": "self.port > 0", "message": "no port"}],
                },
                "status": {
                    "type": "object",
                    "properties": {
                        "conditions": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["type"],
                            "items": {
                                "type": "object",
                                "required": ["type", "status"],
                                "properties": {"type": STRING, "status": {"enum": ["True"], **STRING}},
                            },
                        }
                    },
                },
            },
        },
        subresources={
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        additionalPrinterColumns=[{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
    ),
    version("v1alpha1", storage=False, deprecated=True, deprecationWarning="use v1"),
    names={"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
)


@pytest.mark.parametrize("body", [definition(), CRON_TAB, OPERATOR, definition(scope="Cluster")])
def test_what_people_write_is_taken(body: Obj) -> None:
    assert refusals(body) == []


# --- the form ---------------------------------------------------------------------------------------------


def test_names_follow_from_the_kind_and_versions_are_not_converted() -> None:
    made = Api().ask("POST", DEFINITIONS, definition()).obj
    assert made["spec"]["names"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert made["status"] == {
        "acceptedNames": {"plural": "", "kind": ""},
        "conditions": None,
        "storedVersions": ["v1"],
    }


def test_a_schema_loses_what_says_nothing_and_whole_numbers_their_point() -> None:
    field = {
        "type": "number",
        "format": "",
        "uniqueItems": False,
        "nullable": False,
        "maximum": 5.0,
        "minimum": 0,
        "default": 2.0,
        "enum": [2.0, 2.5],
        "required": [],
    }
    body = of_spec({"type": "array", "items": {**field, "x-unknown": 1}})
    reply = Api().ask("POST", DEFINITIONS, body)
    spec = reply.obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["items"] == {"type": "number", "maximum": 5, "minimum": 0, "default": 2, "enum": [2, 2.5]}
    assert [type(spec["items"][key]) for key in ("maximum", "default")] == [int, int]
    assert reply.warnings == ()  # what decodes itself drops what it does not know without a word


def test_an_unknown_keyword_of_a_property_is_told() -> None:
    reply = Api().ask("POST", DEFINITIONS, of_spec({"type": "string", "nulable": True}))
    assert reply.warnings == (
        'unknown field "spec.versions[0].schema.openAPIV3Schema.properties.spec.nulable"',
    )


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": 5}, "cannot unmarshal number into Go struct field JSONSchemaProps.spec.versions.schema"),
        ({"items": {"type": 5}}, "Go struct field JSONSchemaProps.type of type string"),
        ({"additionalProperties": "x"}, "boolean or JSON schema expected"),
        ({"items": ["x"]}, "cannot unmarshal string into Go value of type v1.JSONSchemaProps"),
        ({"dependencies": {"a": [1]}}, "cannot unmarshal number into Go value of type string"),
        ({"properties": []}, "cannot unmarshal array into Go struct field"),
    ],
)
def test_keywords_of_a_wrong_type_are_refused(schema: Obj, says: str) -> None:
    reply = Api().ask("POST", DEFINITIONS, definition(version(schema=schema)))
    assert (reply.code, says in reply.message) == (400, True), reply.message


def test_a_status_subresource_that_is_no_object_is_refused() -> None:
    body = definition(version(subresources={"status": True}))
    assert "of type v1.CustomResourceSubresourceStatus" in Api().ask("POST", DEFINITIONS, body).message


def test_a_version_that_objects_were_stored_in_is_remembered() -> None:
    api = Api()
    api.ask("POST", DEFINITIONS, definition())
    both = [version("v2"), version("v1", storage=False)]
    made = api.ask("PATCH", NAME, {"spec": {"versions": both}}, MERGE).obj
    assert (made["status"]["storedVersions"], made["metadata"]["generation"]) == (["v1", "v2"], 2)
    reply = api.ask("PATCH", NAME, {"spec": {"versions": both[:1]}}, MERGE)
    assert 'status.storedVersions[0]: Invalid value: "v1": must appear in spec.versions' in reply.message
    api.ask("PATCH", f"{NAME}/status", {"status": {"storedVersions": ["v2"]}}, MERGE)
    assert api.ask("PATCH", NAME, {"spec": {"versions": both[:1]}}, MERGE).code == 200


# --- refusals, one of each kind ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            {**definition(), "metadata": {"name": "other.example.com"}},
            'metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group',
        ),
        (
            definition(group="example"),
            'spec.group: Invalid value: "example": should be a domain with at least one dot',
        ),
        (
            definition(scope="Everywhere"),
            'spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced"',
        ),
        (definition(names={"plural": "widgets"}), "spec.names.kind: Required value"),
        (
            definition(names={"plural": "widgets", "kind": "Widget", "listKind": "Widget"}),
            'spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same',
        ),
        (
            definition(version("v1"), version("v2", storage=False, schema={}, subresources={"status": {}})),
            "spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root",
        ),
        (
            definition({**version("v1"), "schema": {}}),
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
        ),
        (
            definition(preserveUnknownFields=True),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
            "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
        (
            definition(version(deprecationWarning="old")),
            'spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions',
        ),
        (
            definition(version(additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".a"}])),
            'spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of '
            "boolean,date,integer,number,string",
        ),
        (
            definition(
                version(additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": "spec.a"}])
            ),
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.a": must be a simple json path '
            "starting with .",
        ),
        (
            definition(version(subresources={"scale": {"specReplicasPath": ".a", "statusReplicasPath": ""}})),
            'spec.subresources.scale.specReplicasPath: Invalid value: ".a": should be a json path under .spec',
        ),
        (
            definition(conversion={"strategy": "Webhook"}),
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
        ),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused(body: Obj, says: str) -> None:
    assert says in refusals(body)


def test_versions_are_shown_as_the_hub_holds_them() -> None:
    wrong = refusals(definition(version("v1"), version("v1", storage=False)))
    shown = (
        'apiextensions.CustomResourceDefinitionVersion{{Name:"v1", Served:true, Storage:{}, Deprecated:false, '
        "DeprecationWarning:(*string)(nil), Schema:(*apiextensions.CustomResourceValidation)(nil), "
        "Subresources:(*apiextensions.CustomResourceSubresources)(nil), "
        "AdditionalPrinterColumns:[]apiextensions.CustomResourceColumnDefinition(nil)}}"
    )
    both = f"{shown.format('true')}, {shown.format('false')}"
    said = f"Invalid value: []apiextensions.CustomResourceDefinitionVersion{{{both}}}"
    assert wrong == [f"spec.versions: {said}: must contain unique version names"]


def test_one_error_of_several_versions_is_told_at_the_hub_where_they_are_alike() -> None:
    bad = {"type": "object", "properties": {"a": {}}}
    text = "type: Required value: must not be empty for specified object fields"
    same = definition(version("v1", schema=bad), version("v2", storage=False, schema=bad))
    assert refusals(same) == [f"{ROOT}.properties[a].{text}"]
    other = {"type": "object", "properties": {"b": {}}}
    assert refusals(definition(version("v1", schema=bad), version("v2", storage=False, schema=other))) == [
        f"spec.versions[0].schema.openAPIV3Schema.properties[a].{text}",
        f"spec.versions[1].schema.openAPIV3Schema.properties[b].{text}",
    ]


def test_versions_that_differ_by_true_and_one_are_not_alike() -> None:
    schemas = [{"type": "object", "properties": {"a": {**STRING, "example": one}}} for one in (True, 1)]
    schemas[1]["properties"]["b"] = schemas[0]["properties"]["b"] = {**STRING}
    body = definition(version("v1", schema=schemas[0]), version("v2", storage=False, schema=schemas[1]))
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["b"] = {}
    assert refusals(body)[0].startswith("spec.versions[0].schema")


def many(prefix: str, rows: list[tuple[Obj, str]]) -> list[Any]:
    return [pytest.param(schema, f"{prefix}{says}") for schema, says in rows]


@pytest.mark.parametrize(
    ("schema", "says"),
    many(
        SPEC,
        [
            ({"type": "array"}, ".items: Required value: must be specified"),
            (
                {"type": "array", "items": {}},
                ".items.type: Required value: must not be empty for specified array items",
            ),
            (
                {"type": "strnig"},
                '.type: Unsupported value: "strnig": supported values: "array", "boolean", "integer", "number", '
                '"object", "string"',
            ),
            (
                {"type": "null"},
                ".type: Forbidden: type cannot be set to null, use nullable as an alternative",
            ),
            ({**STRING, "$ref": "#/a"}, ".$ref: Forbidden: $ref is not supported"),
            ({**STRING, "id": "a"}, ".id: Forbidden: id is not supported"),
            (
                {"type": "object", "patternProperties": {"a": STRING}},
                ".patternProperties: Forbidden: patternProperties is not supported",
            ),
            (
                {"type": "object", "definitions": {"a": STRING}},
                ".definitions: Forbidden: definitions is not supported",
            ),
            (
                {"type": "object", "dependencies": {"a": ["b"]}},
                ".dependencies: Forbidden: dependencies is not supported",
            ),
            (
                {"type": "array", "items": STRING, "additionalItems": True},
                ".additionalItems: Forbidden: additionalItems is not supported",
            ),
            (
                {"type": "array", "items": [STRING]},
                ".items: Forbidden: items must be a schema object and not an array",
            ),
            (
                {"type": "array", "items": STRING, "uniqueItems": True},
                ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes "
                "quadratic",
            ),
            (
                {"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
                ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            ),
            (
                {"type": "object", "allOf": [{"description": "d"}]},
                ".allOf[0].description: Forbidden: must be empty to be structural",
            ),
            (
                {"type": "object", "not": {"default": False}},
                ".not.default: Forbidden: must be undefined to be structural",
            ),
            (
                {"type": "object", "oneOf": [{"additionalProperties": False}]},
                ".oneOf[0].additionalProperties: Forbidden: must be undefined to be structural",
            ),
            (
                {"type": "object", "anyOf": [{"properties": {"a": {"nullable": True}}}]},
                ".anyOf[0].properties[a].nullable: Forbidden: must be false to be structural",
            ),
            (
                {"type": "object", "anyOf": [{"properties": {"metadata": {}}}]},
                ".anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
            ),
            (
                {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
                ".x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if "
                "x-kubernetes-int-or-string is true",
            ),
            (
                {"type": "object", "x-kubernetes-embedded-resource": True},
                ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields",
            ),
            (
                {"type": "array", "items": STRING, "x-kubernetes-list-type": "bag"},
                '.x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map"',
            ),
            (
                {
                    "type": "array",
                    "items": {"type": "object", "properties": {"k": STRING}},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                },
                ".items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it "
                "must have a default or be a required property",
            ),
            (
                {"type": "object", "x-kubernetes-map-type": "loose"},
                '.x-kubernetes-map-type: Unsupported value: "loose": supported values: "atomic", "granular"',
            ),
            (
                {**STRING, "x-kubernetes-validations": [{"rule": " "}]},
                ".x-kubernetes-validations[0].rule: Required value: rule is not specified",
            ),
            (
                {**STRING, "x-kubernetes-validations": [{"rule": "true", "message": " "}]},
                '.x-kubernetes-validations[0].message: Invalid value: " ": message must be non-empty if specified',
            ),
            (
                {**STRING, "x-kubernetes-validations": [{"rule": "true", "message": "a\nb"}]},
                '.x-kubernetes-validations[0].message: Invalid value: "a\\nb": message must not contain line breaks',
            ),
            (
                {**STRING, "x-kubernetes-validations": [{"rule": "true\n&& true"}]},
                ".x-kubernetes-validations[0].message: Required value: message must be specified if rule contains "
                "line breaks",
            ),
        ],
    ),
)
def test_a_keyword_that_may_not_be_used_so_is_refused(schema: Obj, says: str) -> None:
    assert says in refusals(of_spec(schema))


@pytest.mark.parametrize(
    ("schema", "says"),
    many(
        ROOT,
        [
            ({"type": "array", "items": STRING}, '.type: Invalid value: "array": must be object at the root'),
            (
                {"type": "object", "additionalProperties": STRING},
                ".additionalProperties: Forbidden: must not be used at the root",
            ),
            (
                {"type": "object", "nullable": True},
                ".nullable: Forbidden: nullable cannot be true at the root",
            ),
            (
                {"type": "object", "$schema": "x"},
                ": Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported",
            ),
            (
                {"type": "object", "properties": {"kind": {"type": "integer"}}},
                '.properties[kind].type: Invalid value: "integer": must be string',
            ),
            (
                {"type": "object", "properties": {"metadata": {"type": "object", "description": "d"}}},
                ".properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
                "metadata is implicitly specified",
            ),
            (
                {"type": "object", "properties": {"kind": {**STRING, "default": "Widget"}}},
                ".properties[kind].default: Forbidden: must not be set in top-level kind",
            ),
            (
                {"type": "object", "anyOf": [{"properties": {"spec": {"required": ["a"]}}}]},
                f".properties[spec]: Required value: because it is defined in {ROOT}.anyOf[0].properties[spec]",
            ),
        ],
    ),
)
def test_the_root_of_a_schema_is_an_object_with_metadata(schema: Obj, says: str) -> None:
    assert says in refusals(definition(version(schema=schema)))


def test_the_name_of_objects_may_be_restricted() -> None:
    metadata = {"type": "object", "properties": {"name": {**STRING, "maxLength": 8}}}
    assert (
        refusals(definition(version(schema={"type": "object", "properties": {"metadata": metadata}}))) == []
    )


def test_a_schema_with_a_status_keeps_to_what_can_be_taken_apart() -> None:
    with_status = {"subresources": {"status": {}}}
    wrong = refusals(definition(version(schema={"type": "object", "minProperties": 1}, **with_status)))
    assert "fields are allowed at the root of the schema if the status subresource is enabled" in wrong[0]
    assert refusals(definition(version(schema={"type": "object", "minProperties": 1}))) == []


def test_a_pattern_that_is_none_is_refused() -> None:
    wrong = refusals(of_spec({**STRING, "pattern": "a("}))
    assert wrong[0].startswith(
        f'{SPEC}.pattern: Invalid value: "a(": must be a valid regular expression, but'
    )


# --- changes ----------------------------------------------------------------------------------------------


def established(api: Api) -> None:
    conditions = [
        {"type": kind, "status": "True", "reason": "r", "message": "m", "lastTransitionTime": None}
        for kind in ("NamesAccepted", "Established")
    ]
    assert api.ask("PATCH", f"{NAME}/status", {"status": {"conditions": conditions}}, MERGE).code == 200


@pytest.mark.parametrize(
    ("change", "field", "always"),
    [
        ({"group": "other.example.com"}, "spec.group", True),
        ({"names": {"plural": "gadgets"}}, "spec.names.plural", True),
        ({"names": {"kind": "Gadget"}}, "spec.names.kind", False),
        ({"scope": "Cluster"}, "spec.scope", False),
    ],
)
def test_what_keys_and_objects_are_made_of_stays(change: Obj, field: str, always: bool) -> None:
    api = Api()
    api.ask("POST", DEFINITIONS, definition())
    dry = f"{NAME}?dryRun=All"
    assert (api.ask("PATCH", dry, {"spec": change}, MERGE).code == 422) is always
    established(api)
    reply = api.ask("PATCH", dry, {"spec": change}, MERGE)
    assert f"{field}: Invalid value" in reply.message
    assert "field is immutable" in reply.message


def test_a_definition_is_not_replaced_blindly() -> None:
    api = Api()
    api.ask("POST", DEFINITIONS, definition())
    assert "must be specified for an update" in api.ask("PUT", NAME, definition()).message


def test_only_status_is_written_to_status() -> None:
    api = Api()
    api.ask("POST", DEFINITIONS, definition())
    body = {"spec": {"scope": "Cluster"}, "status": {"acceptedNames": {"kind": "Bad_"}}}
    assert "status.acceptedNames.kind" in api.ask("PATCH", f"{NAME}/status", body, MERGE).message
    made = api.ask("PATCH", f"{NAME}/status", {"spec": {"scope": "Cluster"}}, MERGE).obj
    assert made["spec"]["scope"] == "Namespaced"


# --- groups of the community ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (None, "Required value: protected groups must have approval annotation"),
        ("yes", 'Invalid value: "yes": protected groups must have approval annotation'),
        ("unapproved, an experiment", ""),
        ("https://example.com/1", ""),
    ],
)
def test_groups_of_the_community_need_its_approval(said: str | None, problem: str) -> None:
    names = NAMES["kubernetes"]
    body = definition(group=f"x.{names.group_domain}")
    if said is not None:
        body["metadata"]["annotations"] = {names.annotation_api_approved: said}
    wrong = refusals(body)
    assert len(wrong) == bool(problem)
    assert not problem or problem in wrong[0]


# --- bounds -----------------------------------------------------------------------------------------------


def test_a_schema_of_many_errors_tells_so_many() -> None:
    properties = {f"{'n' * 1000}{i}": {} for i in range(3 * ERRORS_MAX)}
    wrong = refusals(definition(version(schema={"type": "object", "properties": properties})))
    assert len(wrong) <= ERRORS_MAX + 1
    assert max(map(len, wrong)) < 1000


@pytest.mark.parametrize("step", ["items", "additionalProperties", "not", "properties"])
def test_a_deep_schema_is_judged(step: str) -> None:
    schema: Obj = {"type": "object"}
    for _ in range(90 if step == "properties" else 180):
        below = {"a": schema} if step == "properties" else schema
        schema = {"type": "array" if step == "items" else "object", step: below}
    deep = of_spec(schema)
    assert (refusals(deep) == []) is (step != "not")


@pytest.mark.parametrize("keys", [["k"] * 100_000, [f"k{i}" for i in range(100_000)]])
def test_many_keys_of_a_list_are_told_briefly(keys: list[str]) -> None:
    items = {"type": "object", "properties": {"k": STRING}, "required": ["k"]}
    listed = {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys,
    }
    assert 0 < len(refusals(of_spec(listed))) < 200


# --- defaults inside of schemas ---------------------------------------------------------------------------

FREE = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}


@pytest.mark.parametrize(
    ("schema", "says"),
    many(
        SPEC,
        [
            (
                {**STRING, "default": 5},
                '.default: Invalid value: "integer":  in body must be of type string: "integer"',
            ),
            (
                {"type": "integer", "minimum": 1, "default": 0},
                ".default: Invalid value: 0:  in body should be greater than or equal to 1",
            ),
            (
                {"type": "object", "default": {"a": 1}},
                '.default: Invalid value: map[string]interface {}{"a":1}: must not have unknown fields',
            ),
            (
                {
                    "type": "object",
                    "default": {"a": "x"},
                    "properties": {"a": {**STRING, "enum": ["y"]}},
                },
                '.default.a: Unsupported value: "x": supported values: "y"',
            ),
            ({**FREE, "default": {"kind": "A"}}, ".default.apiVersion: Required value: must not be empty"),
            (
                {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {
                        "apiVersion": STRING,
                        "metadata": {"type": "object", "properties": {"name": {**STRING, "default": "a/b"}}},
                    },
                },
                '.properties[metadata].properties[name].default: Invalid value: "a/b": must result in valid '
                "metadata: metadata.name: Invalid value: \"a/b\": may not contain '/'",
            ),
        ],
    ),
)
def test_a_default_that_would_not_be_taken_is_refused(schema: Obj, says: str) -> None:
    assert refusals(of_spec(schema)) == [says]


@pytest.mark.parametrize(
    "schema",
    [
        {**STRING, "default": "a"},
        {"type": "object", "default": {}, "properties": {"a": {**STRING, "default": "b"}}},
        {**FREE, "default": {"kind": "A", "apiVersion": "v1", "anything": 1}},
        {"x-kubernetes-int-or-string": True, "default": "50%"},
        {"type": "boolean", "default": False},
    ],
)
def test_a_default_that_fits_is_taken(schema: Obj) -> None:
    assert refusals(of_spec(schema)) == []
