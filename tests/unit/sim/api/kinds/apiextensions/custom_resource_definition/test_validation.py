"""CustomResourceDefinitions as objects: what is filled in, left out and refused; recorded answers
are in test_validation_golden, schemas in test_definition_schemas.
"""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.types import Obj
from sim.ident import NAMES
from tests.unit.sim.api.definitions import (
    DEFINITIONS,
    MERGE,
    NAME,
    ROOT,
    STRING,
    definition,
    of_spec,
    refusals,
    version,
)
from tests.unit.sim.api.golden_api import Api

# --- what people write ----------


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


# --- the form ----------


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


def test_unknown_keyword_of_a_property_gives_a_warning() -> None:
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


# --- refusals, one of each kind ----------


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


def test_error_that_all_versions_share_is_reported_once_at_the_hub() -> None:
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
    first, second = (
        {"type": "object", "properties": {"a": {"type": "strnig", "example": one}}} for one in (True, 1)
    )
    wrong = refusals(definition(version("v1", schema=first), version("v2", storage=False, schema=second)))
    assert [text.partition("].schema")[0] for text in wrong] == ["spec.versions[0", "spec.versions[1"]


# --- changes ----------


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


# --- groups of the community ----------


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
    if problem:
        assert problem in wrong[0]


# --- conversion ----------


SERVICE = {"service": {"name": "s", "namespace": "n"}}
CLIENT = "spec.conversion.webhookClientConfig"


def webhook(client: Any, versions: Any = ("v1",)) -> Obj:
    said = {"clientConfig": client, "conversionReviewVersions": list(versions)}
    return definition(conversion={"strategy": "Webhook", "webhook": said})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            definition(conversion={"strategy": "webhook"}),
            'spec.conversion.strategy: Unsupported value: "webhook": supported values: "None", "Webhook"',
        ),
        (webhook({}), f"{CLIENT}: Required value: exactly one of url or service is required"),
        (
            webhook({"url": "http://a"}),
            f"{CLIENT}.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: "
            "https://host[/path]",
        ),
        (
            webhook({"url": "https:///x"}),
            f'{CLIENT}.url: Invalid value: "": host must be provided; desired format: https://host[/path]',
        ),
        (
            webhook({"url": "https://u:p@a"}),
            f'{CLIENT}.url: Invalid value: "u:p": user information is not permitted in the URL',
        ),
        (
            webhook({"url": "https://a/#f"}),
            f'{CLIENT}.url: Invalid value: "f": fragments are not permitted in the URL',
        ),
        (
            webhook({"url": "https://a/?q=1"}),
            f'{CLIENT}.url: Invalid value: "q=1": query parameters are not permitted in the URL',
        ),
        (
            webhook({"service": {"namespace": "n"}}),  # Quirk: it is the name that is missing
            f"{CLIENT}.service.namespace: Required value: service namespace is required",
        ),
        (
            webhook({"service": {**SERVICE["service"], "path": "a"}}),
            f"{CLIENT}.service.path: Invalid value: \"a\": must start with a '/'",
        ),
        (
            webhook({"service": {**SERVICE["service"], "path": "//"}}),
            f'{CLIENT}.service.path: Invalid value: "//": segment[0] may not be empty',
        ),
        (
            webhook({"service": {**SERVICE["service"], "port": 0}}),
            f"{CLIENT}.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
        ),
        (
            webhook(SERVICE, ("v7",)),
            'spec.conversion.conversionReviewVersions: Invalid value: []string{"v7"}: must include at least one of '
            "v1, v1beta1",
        ),
        (
            webhook(SERVICE, ("v1", "v1")),
            'spec.conversion.conversionReviewVersions[1]: Invalid value: "v1": duplicate version',
        ),
        (
            definition(conversion={"strategy": "None", "webhook": {"clientConfig": SERVICE}}),
            f"{CLIENT}: Forbidden: should not be set when strategy is not set to Webhook",
        ),
    ],
)
def test_conversion_that_cannot_be_carried_out_is_refused(body: Obj, says: str) -> None:
    assert says in refusals(body)


@pytest.mark.parametrize("client", [SERVICE, {"url": "https://a/b"}, {"url": "https://a:1"}])
def test_a_webhook_is_taken_and_a_service_has_a_port(client: Obj) -> None:
    made = (
        Api().ask("POST", DEFINITIONS, webhook(client)).obj["spec"]["conversion"]["webhook"]["clientConfig"]
    )
    assert made == ({"service": {**SERVICE["service"], "port": 443}} if "service" in client else client)


def test_a_url_with_control_characters_is_none() -> None:
    assert "net/url: invalid control character in URL" in refusals(webhook({"url": "https://a\x01"}))[0]


def test_defaults_need_pruning() -> None:
    schema: Obj = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
    said = refusals(definition(version(schema=schema), preserveUnknownFields=True))
    assert any("must be false in order to use defaults" in one for one in said)


def test_second_version_of_one_name_counts_as_not_stored() -> None:
    said = refusals(definition(version(), version()))
    assert any("must have the storage version v1" in one for one in said)


def test_null_default_is_none() -> None:
    schema: Obj = {"type": "object", "properties": {"a": {"type": "string", "default": None}}}
    assert refusals(definition(version(schema=schema))) == []
