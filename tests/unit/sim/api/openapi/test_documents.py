"""OpenAPI documents."""

import json

import pytest

from sim.api.openapi.aggregated import v2_protobuf
from sim.api.openapi.documents import (
    openapi_v2,
    openapi_v3,
    openapi_v3_index,
    openapi_v3_of_discovery,
)
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

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
    quantity = document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]
    assert (quantity["type"], list(quantity)) == ("string", ["description", "type"])
    assert "/api/v1/namespaces/{namespace}/pods/{name}" in document["paths"]


def test_the_protobuf_form_holds_what_the_json_form_holds():
    document = _message(v2_protobuf(openapi_v2(SCHEME)))
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


def test_operations_are_named_as_upstream_names_them():
    paths = json.loads(openapi_v2(SCHEME))["paths"]
    apps = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    wanted = {
        ("/api/v1/namespaces/{namespace}/configmaps", "delete"): "deleteCoreV1CollectionNamespacedConfigMap",
        ("/api/v1/nodes", "get"): "listCoreV1Node",
        ("/api/v1/watch/pods", "get"): "watchCoreV1PodListForAllNamespaces",
        ("/api/v1/namespaces/{name}/finalize", "put"): "replaceCoreV1NamespaceFinalize",
        ("/apis/apps/v1/deployments", "get"): "listAppsV1DeploymentForAllNamespaces",
        (f"{apps}/scale", "get"): "readAppsV1NamespacedDeploymentScale",
        (f"{apps}/status", "patch"): "patchAppsV1NamespacedDeploymentStatus",
        ("/apis/", "get"): "getAPIVersions",
    }
    for (path, method), name in wanted.items():
        assert paths[path][method]["operationId"] == name
    scale = paths[f"{apps}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"] == {
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
    }
    status = paths[f"{apps}/status"]["get"]
    assert status["x-kubernetes-group-version-kind"]["group"] == "apps"
    names = [
        operation["operationId"]
        for item in paths.values()
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("naming", ["kubernetes", "orch"])
def test_every_reference_leads_to_a_schema(naming):
    scheme = Scheme(NAMES[naming])
    documents = [json.loads(openapi_v2(scheme))]
    for path in openapi_v3_index(scheme)["paths"]:
        root, _, rest = path.partition("/")
        group, _, version = rest.rpartition("/") if root == "apis" else ("", "", rest)
        text = openapi_v3(scheme, group, version) or openapi_v3_of_discovery(scheme, path)
        assert text is not None
        documents.append(json.loads(text))
    for document in documents:
        schemas = document.get("definitions") or document["components"].get("schemas", {})
        for reference in _references(document):
            assert reference.rpartition("/")[2] in schemas


def test_a_document_of_version_three_has_bodies_and_answers_by_media_type():
    text = openapi_v3(SCHEME, "coordination.k8s.io", "v1")
    assert text is not None
    paths = json.loads(text)["paths"]
    made = paths["/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"]["post"]
    lease = {"$ref": "#/components/schemas/io.k8s.api.coordination.v1.Lease"}
    assert made["requestBody"] == {"content": {"*/*": {"schema": lease}}}
    assert made["responses"]["201"]["content"]["application/json"]["schema"] == lease
    assert "body" not in [parameter["name"] for parameter in made["parameters"]]
    assert "required" not in made["requestBody"]


def _references(value):
    if isinstance(value, list):
        return [found for item in value for found in _references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [found for item in value.values() for found in _references(item)]


def test_connecting_subresources_have_an_operation_for_each_method():
    paths = json.loads(openapi_v2(SCHEME))["paths"]
    ends = {path.rpartition("}/")[2] for path in paths}
    assert {"status", "scale", "eviction", "log"} <= ends
    pod = "/api/v1/namespaces/{namespace}/pods/{name}"
    run = paths[f"{pod}/exec"]
    assert {key for key in run if key != "parameters"} == {"get", "post"}
    assert [each["name"] for each in run["parameters"]][:4] == ["command", "container", "name", "namespace"]
    assert run["post"]["operationId"] == "connectCoreV1PostNamespacedPodExec"
    assert run["post"]["x-kubernetes-group-version-kind"]["kind"] == "PodExecOptions"
    assert run["post"]["responses"]["200"]["schema"] == {"type": "string"}
    methods = {"delete", "get", "head", "options", "patch", "post", "put"}
    for tail in ("proxy", "proxy/{path}"):
        assert {key for key in paths[f"{pod}/{tail}"] if key != "parameters"} == methods
    there = paths["/api/v1/nodes/{name}/proxy/{path}"]
    assert there["head"]["operationId"] == "connectCoreV1HeadNodeProxyWithPath"
    assert [(each["name"], each["in"]) for each in there["parameters"]] == [
        ("name", "path"),
        ("path", "path"),
        ("path", "query"),
    ]


def test_documents_name_no_allowed_values_while_the_gate_is_off():
    off = Scheme(NAMES["kubernetes"], enums=False)
    for scheme, named in ((SCHEME, True), (off, False)):
        for text in (openapi_v2(scheme), openapi_v3(scheme, "", "v1")):
            assert text is not None
            assert (b"Possible enum values" in text, b'"enum":[' in text) == (named, named)
