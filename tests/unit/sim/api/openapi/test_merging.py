"""Documents of several servers as one."""

import json
from typing import Any

from sim.api.openapi.aggregated import converted
from sim.api.openapi.merging import Described, below, in_priority, merged, read, without_defaults
from sim.api.openapi.schemas import V2


def refers(name: str) -> dict[str, Any]:
    return {"get": {"responses": {"200": {"description": "OK", "schema": {"$ref": V2 + name}}}}}


def document(definitions: dict[str, Any], **paths: Any) -> dict[str, Any]:
    return {"paths": {f"/apis/{path}": item for path, item in paths.items()}, "definitions": definitions}


def described(name: str, made: dict[str, Any], **spec: Any) -> Described:
    version, _, group = name.partition(".")
    spec = {"group": group, "version": version, "groupPriorityMinimum": 1000, **spec}
    return Described({"metadata": {"name": name}, "spec": spec}, made)


OWN = document({"A": {"type": "string"}}, own=refers("A"))


def test_paths_and_definitions_of_all_are_in_one_document():
    made = merged(OWN, [described("v1.b", document({"B": {"type": "integer"}}, b=refers("B")))])
    assert (list(made["paths"]), list(made["definitions"])) == (["/apis/b", "/apis/own"], ["A", "B"])


def test_a_path_that_is_known_is_kept_with_its_definitions():
    other = document({"B": {"type": "integer"}, "C": {"type": "number"}}, own=refers("B"), c=refers("C"))
    made = merged(OWN, [described("v1.b", other)])
    assert made["paths"]["/apis/own"] == refers("A")
    assert list(made["definitions"]) == ["A", "C"]
    nothing = merged(OWN, [described("v1.b", document({"B": {}}, own=refers("B")))])
    assert nothing == OWN


def test_a_different_definition_of_a_known_name_is_renamed():
    first = described("v1.b", document({"A": {"type": "integer"}}, b=refers("A")))
    second = described("v1.c", document({"A": {"type": "integer"}, "A_v3": {}}, c=refers("A")))
    third = described("v1.d", document({"A": {"type": "number"}}, d=refers("A")))
    made = merged(OWN, [third, second, first])
    assert {name: schema.get("type") for name, schema in made["definitions"].items()} == {
        "A": "string",
        "A_v2": "integer",
        "A_v3": None,
        "A_v4": "number",
    }
    assert made["paths"]["/apis/c"] == refers("A_v2")
    assert made["paths"]["/apis/d"] == refers("A_v4")


def test_equal_definitions_have_the_kinds_of_both():
    key = "x-kubernetes-group-version-kind"
    kinds = [{"group": group, "kind": "K", "version": "v1"} for group in ("b", "a")]
    own = document({"A": {"type": "string", key: kinds[:1]}}, own=refers("A"))
    other = document({"A": {"type": "string", key: [kinds[1], kinds[0]]}}, b=refers("A"))
    made = merged(own, [described("v1.b", other)])
    assert made["definitions"]["A"][key] == [kinds[1], kinds[0]]


def test_documents_are_merged_by_the_priority_of_their_group():
    found = [
        described("v1.low", {}),
        described("v2.high", {}, groupPriorityMinimum=2000),
        described("v1.high", {}, versionPriority=1),
    ]
    assert [each.obj["metadata"]["name"] for each in in_priority(found)] == ["v1.high", "v2.high", "v1.low"]


def test_the_part_below_a_path_loses_definitions_of_the_rest():
    made = document({"A": {"$ref": V2 + "B"}, "B": {}, "C": {}, "Unused": {}}, a=refers("A"))
    made["paths"]["/healthz"] = refers("C")
    kept = below(made, ("/apis/",))
    assert (list(kept["paths"]), sorted(kept["definitions"])) == (["/apis/a"], ["A", "B", "Unused"])


def test_defaults_are_not_merged():
    schema = {"default": {}, "properties": {"default": {"type": "string", "default": "x"}}}
    assert without_defaults(schema) == {"properties": {"default": {"type": "string"}}}
    other = document({"B": {"items": {"default": 1}}}, b=refers("B"))
    assert merged(OWN, [described("v1.b", other)])["definitions"]["B"] == {"items": {}}


def test_junk_is_no_document():
    assert (read([]), read({"paths": []}), read({"definitions": 1}), read(None)) == (None,) * 4
    made = read({"paths": {"/a": {"get": {"responses": {}, "x-b": 1, "operationId": "o"}}}})
    assert made is not None
    assert list(made["paths"]["/a"]["get"]) == ["operationId", "responses", "x-b"]


def test_an_older_document_becomes_a_newer_one():
    made = read(
        {
            "info": {"title": "T"},
            "paths": {"/apis/a": {"get": {**refers("A")["get"], "produces": ["application/json"]}}},
            "definitions": {"A": {"properties": {"b": {"description": "d", "$ref": V2 + "B"}}}, "B": {}},
        }
    )
    assert made is not None
    newer = json.loads(converted(made))
    to = {"$ref": "#/components/schemas/B"}
    assert newer["components"]["schemas"]["A"]["properties"]["b"] == {"description": "d", "allOf": [to]}
    content = newer["paths"]["/apis/a"]["get"]["responses"]["200"]["content"]["application/json"]
    assert content == {"schema": {"$ref": "#/components/schemas/A"}}
