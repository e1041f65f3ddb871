"""OpenAPI documents."""

import json

from sim.ident import NAMES
from sim.machinery.openapi import openapi_v2, openapi_v2_protobuf, openapi_v3, openapi_v3_index
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


def test_the_protobuf_form_holds_what_the_json_form_holds():
    document = _message(openapi_v2_protobuf(SCHEME))
    assert (document[1], _message(document[2][0])[1]) == ([b"2.0"], [b"Kubernetes"])
    named = [_message(part) for part in _message(document[9][0])[1]]
    schemas = {part[1][0].decode(): _message(part[2][0]) for part in named}
    wanted = json.loads(openapi_v2(SCHEME))["definitions"]
    assert schemas.keys() == wanted.keys()
    pod = schemas["io.k8s.api.core.v1.Pod"]
    fields = [_message(part)[1][0].decode() for part in _message(pod[25][0])[1]]
    assert fields == list(wanted["io.k8s.api.core.v1.Pod"]["properties"])
    assert [_message(part)[1] for part in pod[31]] == [[b"x-kubernetes-group-version-kind"]]


def _message(data: bytes) -> dict[int, list[bytes]]:
    """The fields of a protobuf message; all that occur here are of bytes."""
    out: dict[int, list[bytes]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        assert tag & 7 == 2
        size = varint()
        out.setdefault(tag >> 3, []).append(data[at : at + size])
        at += size
    return out
