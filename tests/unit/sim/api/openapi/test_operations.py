"""Operations and their parameters."""

import json

from sim.api.openapi.documents import openapi_v2
from sim.api.openapi.operations import article, identifier, newer, tag, title
from sim.api.openapi.parameters import hoisted, in_body, in_path, query
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

PATHS = json.loads(openapi_v2(Scheme(NAMES["kubernetes"])))["paths"]
CONFIG_MAPS = "/api/v1/namespaces/{namespace}/configmaps"


def test_parameters_of_all_operations_stand_at_their_path():
    shared, own = query("pretty"), query("dryRun")
    item = hoisted({"get": {"parameters": [shared]}, "put": {"parameters": [shared, own]}})
    assert item == {"get": {}, "put": {"parameters": [own]}, "parameters": [shared]}


def test_a_body_stays_at_the_only_operation_of_a_path():
    body = in_body({"type": "string"}, required=True)
    item = hoisted({"post": {"parameters": [query("pretty"), body, in_path("namespace")]}})
    assert item["post"]["parameters"] == [body]
    assert [each["name"] for each in item["parameters"]] == ["namespace", "pretty"]


def test_a_list_of_all_namespaces_states_its_parameters_at_the_path():
    item = PATHS["/api/v1/configmaps"]
    assert "parameters" not in item["get"]
    assert [each["name"] for each in item["parameters"]][-2:] == ["timeoutSeconds", "watch"]


def test_descriptions_name_verb_subresource_and_kind():
    one = f"{CONFIG_MAPS}/{{name}}"
    scale = PATHS["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]
    texts = [
        PATHS[CONFIG_MAPS]["get"],
        PATHS["/api/v1/componentstatuses"]["get"],
        PATHS["/apis/networking.k8s.io/v1/ingressclasses"]["post"],
        PATHS[one]["patch"],
        PATHS[one]["delete"],
        scale["put"],
        PATHS["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"],
    ]
    assert [each["description"] for each in texts] == [
        "list or watch objects of kind ConfigMap",
        "list objects of kind ComponentStatus",
        "create an IngressClass",
        "partially update the specified ConfigMap",
        "delete a ConfigMap",
        "replace scale of the specified Deployment",
        "create eviction of a Pod",
    ]
    assert scale["parameters"][0]["description"] == "name of the Scale"


def test_articles_follow_the_noun():
    assert [article(noun) for noun in ("Pod", "Event", "Endpoints", "IngressClass")] == [
        " a ",
        " an ",
        " ",
        " an ",
    ]


def test_groups_with_hyphens_have_names_without_them():
    assert (title("my-group.example.com", "v1"), tag("my-group.example.com", "v1")) == (
        "MyGroupExampleComV1",
        "myGroupExampleCom_v1",
    )
    assert identifier("2a b", upper=False) == "AB"  # Quirk: a digit cannot come first


def test_delete_of_some_kinds_returns_the_object():
    shown = {
        plural: PATHS[f"/api/v1/namespaces/{{namespace}}/{plural}/{{name}}"]["delete"]["responses"]["200"]
        for plural in ("serviceaccounts", "configmaps")
    }
    kinds = [each["schema"]["$ref"].rpartition(".")[2] for each in shown.values()]
    assert kinds == ["ServiceAccount", "Status"]


def test_documents_of_discovery_have_tags():
    tags = {path: item["get"]["tags"] for path, item in PATHS.items() if path.endswith("/")}
    assert [tags[path] for path in ("/api/", "/apis/", "/apis/apps/v1/", "/version/", "/logs/")] == [
        ["core"],
        ["apis"],
        ["apps_v1"],
        ["version"],
        ["logs"],
    ]
    assert tags["/.well-known/openid-configuration/"] == ["WellKnown"]


def test_extensions_are_sorted_but_for_those_of_the_aggregator():
    own = PATHS["/apis/apiregistration.k8s.io/v1/apiservices"]["get"]
    other = PATHS["/api/v1/configmaps"]["get"]
    assert [list(each["x-kubernetes-group-version-kind"]) for each in (own, other)] == [
        ["group", "version", "kind"],
        ["group", "kind", "version"],
    ]


def test_newer_operations_have_bodies_by_media_type_in_order():
    made = newer(PATHS[f"{CONFIG_MAPS}/{{name}}"])["patch"]
    assert list(made) == [
        "tags",
        "description",
        "operationId",
        "parameters",
        "requestBody",
        "responses",
        "x-kubernetes-action",
        "x-kubernetes-group-version-kind",
    ]
    assert next(iter(made["requestBody"]["content"])) == "application/apply-patch+yaml"
    assert list(made["parameters"][0]) == ["name", "in", "description", "schema"]
