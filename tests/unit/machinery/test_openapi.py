"""OpenAPI documents."""

import json

from sim.ident import NAMES
from sim.machinery.openapi import openapi_v2, openapi_v3, openapi_v3_index
from sim.machinery.scheme import Scheme

SCHEME = Scheme(NAMES["kubernetes"])


def test_the_index_names_every_group_version():
    paths = openapi_v3_index(SCHEME)["paths"]
    assert paths["apis/apps/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/apps/v1?hash=")
    assert "api/v1" in paths


def test_a_document_undoes_the_changes_of_the_dependency():
    text = openapi_v3(SCHEME, "apps", "v1")
    assert text is not None and b'"null"' not in text and b"#/$defs" not in text
    document = json.loads(text)
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert {p["name"] for p in patch["parameters"]} >= {"dryRun", "fieldValidation"}
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "apps",
        "kind": "Deployment",
        "version": "v1",
    }
    schema = document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    assert "enum" not in schema["properties"]["kind"]
    assert openapi_v3(SCHEME, "apps", "v9") is None


def test_the_v2_document_defines_what_it_refers_to():
    document = json.loads(openapi_v2(SCHEME))
    assert document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"] == {"type": "string"}
    assert "/api/v1/namespaces/{namespace}/pods/{name}" in document["paths"]
