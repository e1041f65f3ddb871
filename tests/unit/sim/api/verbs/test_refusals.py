"""Texts of refused writes, which show values as the body held them."""

from __future__ import annotations

from typing import Any

import pytest

from actors.apiserver.caches.selection import EVERYTHING, select
from sim.api.types import Reply, Request
from sim.api.verbs.call import Call
from tests.unit.sim.api.golden_api import Api

CORE = "/api/v1/namespaces/golden-ns"
MERGE = "application/merge-patch+json"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
POD = {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}


def marked(reply: Reply) -> list[str]:
    """The lines of the printed difference that are marked as new."""
    lines = str(reply.body["message"]).splitlines()
    return [" ".join(line[1:].split()) for line in lines if line.startswith("+")]


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        ("0.5", 's"x": {i: resource.int64Amount{value: 5, scale: -1}, Format: "DecimalSI"}'),
        ("-0", 's"x": {Format: "DecimalSI"}'),
        ("1Ei", 's"x": {d: s"1152921504606846976.000", Format: "BinarySI"}'),
    ],
)
def test_quantity_in_the_difference_of_a_claim_has_the_form_of_the_body(limit: str, shown: str) -> None:
    api, path = Api(), f"{CORE}/persistentvolumeclaims"
    assert api.ask("POST", path, {"metadata": {"name": "a"}, "spec": CLAIM}).code == 201
    reply = api.ask("PATCH", f"{path}/a", {"spec": {"resources": {"limits": {"x": limit}}}}, MERGE)
    assert marked(reply) == [f"Limits: core.ResourceList{{{shown}}},"]


def test_difference_of_a_pod_shows_a_claim_template_by_its_metadata() -> None:
    api, path = Api(), f"{CORE}/pods"
    kept = {"name": "k", "emptyDir": {}}
    spec = {**POD, "volumes": [kept]}
    assert api.ask("POST", path, {"metadata": {"name": "a"}, "spec": spec}).code == 201
    template = {"metadata": {"labels": {"a": "b"}}, "spec": CLAIM}
    volumes = [kept, {"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    shown = marked(api.ask("PATCH", f"{path}/a", {"spec": {"volumes": volumes}}, MERGE))
    template_text = '{VolumeClaimTemplate: s"&ObjectMeta{Name:,GenerateName:,"...},'
    assert f"Ephemeral: &core.EphemeralVolumeSource{template_text}" in shown


def test_empty_rules_of_an_ingress_are_shown_as_such() -> None:
    api, path = Api(), "/apis/networking.k8s.io/v1/namespaces/golden-ns/ingresses"
    empty = api.ask("POST", path, {"metadata": {"name": "a"}, "spec": {"rules": []}})
    absent = api.ask("POST", path, {"metadata": {"name": "a"}, "spec": {}})
    assert "[]networking.IngressRule{}: either" in empty.message
    assert "[]networking.IngressRule(nil): either" in absent.message


def test_fraction_of_a_second_is_shown_inside_of_a_value() -> None:
    api = Api()
    taint = {"key": "k", "effect": "NoExecute", "timeAdded": "2020-01-01T00:00:00.1Z"}
    reply = api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"taints": [taint, taint]}})
    assert "TimeAdded:time.Date(2020, time.January, 1, 0, 0, 0, 100000000, time.Local)}" in reply.message


def test_access_review_names_no_owners_of_fields_that_are_not_there() -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    reply = Api().ask("POST", path, {"metadata": {"name": "a"}, "spec": {}})
    assert "ManagedFields:[]v1.ManagedFieldsEntry(nil)}: must be empty" in reply.message


def test_repeated_owner_of_a_review_is_dropped_with_a_warning() -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    owner = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"}
    api, spec = Api(), {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    reply = api.ask("POST", path, {"metadata": {"ownerReferences": [owner, owner]}, "spec": spec})
    assert reply.message.count('Kind:"X"') == 1


def test_changed_prefix_of_a_name_is_checked_as_part_of_a_path() -> None:
    api, path = Api(), f"{CORE}/configmaps"
    api.ask("POST", path, {"metadata": {"name": "a"}})
    reply = api.ask("PATCH", f"{path}/a", {"metadata": {"generateName": "a/b"}}, MERGE)
    assert reply.message.startswith(
        'ConfigMap "a" is invalid: [metadata.generateName: Invalid value: "a/b": may not contain \'/\', '
    )


def test_refused_allocation_of_a_service_has_no_generated_name() -> None:
    spec = {"ports": [{"port": 80}], "ipFamilyPolicy": "x"}
    reply = Api().ask("POST", f"{CORE}/services", {"metadata": {"generateName": "s"}, "spec": spec})
    assert reply.message.startswith('Service "" is invalid: spec.ipFamilyPolicy: Unsupported value: "x"')
    assert "name" not in reply.body["details"]


@pytest.mark.parametrize("selector", ["=", "==", "!=", "=,="])
def test_field_selector_of_operators_alone_selects_everything(selector: str) -> None:
    api = Api()
    options: dict[str, Any] = {"fieldSelector": selector}
    request = Request(verb="list", resource="pods", namespace="golden-ns", options=options, user=api.user)
    call = Call(request, api.scheme.resource("pods"), api.registry, options=options)
    assert select(api.scheme, call) is EVERYTHING


@pytest.mark.parametrize(("request_text", "shown"), [("", "[]byte{}"), (None, "[]byte(nil)")])
def test_empty_bytes_are_shown_otherwise_than_none(request_text: str | None, shown: str) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec = {"request": request_text, "signerName": "a.b/c", "usages": ["client auth"]}
    reply = Api().ask("POST", path, {"metadata": {"name": "c"}, "spec": spec})
    assert f"spec.request: Invalid value: {shown}: " in reply.message


@pytest.mark.parametrize(("keys", "shown"), [([], "[]string{}"), (None, "[]string(nil)")])
def test_empty_keys_of_a_driver_are_shown_otherwise_than_none(keys: Any, shown: str) -> None:
    api, path = Api(), "/apis/storage.k8s.io/v1/csinodes"
    driver = {"name": "a.b", "nodeID": "n", "topologyKeys": ["x"]}
    api.ask("POST", path, {"metadata": {"name": "n"}, "spec": {"drivers": [driver]}})
    patch = {"spec": {"drivers": [{**driver, "topologyKeys": keys}]}}
    assert f"TopologyKeys:{shown}, " in api.ask("PATCH", f"{path}/n", patch, MERGE).message


def test_event_of_the_newer_group_has_the_type_of_the_core() -> None:
    path = "/apis/events.k8s.io/v1/namespaces/golden-ns/events"
    reply = Api().ask("POST", path, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e"}})
    assert "converting (v1.Pod) to (core.Event): unknown conversion" in reply.message


def test_whole_number_of_a_definition_has_no_fraction() -> None:
    schema = {"type": "number", "multipleOf": 1e10, "maximum": 1.5}
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"a": schema}}}
    names = {"kind": "W", "plural": "ws"}
    spec = {"group": "a.example", "names": names, "scope": "Namespaced", "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = Api().ask("POST", path, {"metadata": {"name": "ws.a.example"}, "spec": spec}).obj
    stored = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]
    assert [repr(stored[key]) for key in ("multipleOf", "maximum")] == ["10000000000", "1.5"]


def test_bytes_may_be_a_list_of_numbers_and_nulls() -> None:
    reply = Api().ask("POST", f"{CORE}/secrets", {"metadata": {"name": "s"}, "data": {"k": [97, None]}})
    assert reply.obj["data"] == {"k": "YQA="}


def test_amount_of_a_rolling_update_is_shown_as_a_struct() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": template,
        "strategy": {"rollingUpdate": {"maxUnavailable": "0%", "maxSurge": 0}},
    }
    path = "/apis/apps/v1/namespaces/golden-ns/deployments"
    reply = Api().ask("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    assert 'Invalid value: intstr.IntOrString{Type:1, IntVal:0, StrVal:"0%"}: may not be 0' in reply.message


def test_definition_reports_fields_in_a_struct_without_fields() -> None:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
        "subresources": {"status": {"x": 1}},
    }
    names = {"kind": "W", "plural": "ws"}
    spec = {"group": "a.example", "names": names, "scope": "Namespaced", "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    reply = Api().ask("POST", path, {"metadata": {"name": "ws.a.example"}, "spec": spec})
    assert reply.warnings == ('unknown field "spec.versions[0].subresources.status.x"',)
    version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-validations": True}}
    wrong = Api().ask("POST", path, {"metadata": {"name": "ws.a.example"}, "spec": spec})
    assert wrong.message.endswith(".x-kubernetes-validations of type v1.ValidationRules")


def test_empty_group_of_a_data_source_is_kept_and_an_image_without_names_has_null() -> None:
    api, path = Api(), f"{CORE}/persistentvolumeclaims"
    source = {"apiGroup": "", "kind": "PersistentVolumeClaim", "name": "s"}
    made = api.ask("POST", path, {"metadata": {"name": "a"}, "spec": {**CLAIM, "dataSource": source}})
    assert made.obj["spec"]["dataSource"] == source
    api.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    status = {"status": {"images": [{"sizeBytes": 1}]}}
    node = api.ask("PATCH", "/api/v1/nodes/n/status", status, MERGE)
    assert node.obj["status"]["images"] == [{"sizeBytes": 1, "names": None}]


def test_owner_of_empty_ports_of_a_slice_is_its_creator() -> None:
    path = "/apis/discovery.k8s.io/v1/namespaces/golden-ns/endpointslices"
    reply = Api().ask("POST", path, {"metadata": {"name": "s"}, "addressType": "IPv4", "ports": []})
    assert reply.item is not None
    assert (reply.obj["ports"], "f:ports" in reply.item.managed[0].fields) == (None, True)


def test_hands_of_priority_levels_are_bounded_without_being_dealt() -> None:
    path = "/apis/flowcontrol.apiserver.k8s.io/v1beta2/prioritylevelconfigurations"
    queuing = {"queues": 2147483647, "handSize": 2147483647, "queueLengthLimit": 5}
    limited = {"assuredConcurrencyShares": 5, "limitResponse": {"type": "Queue", "queuing": queuing}}
    reply = Api().ask(
        "POST", path, {"metadata": {"name": "p"}, "spec": {"type": "Limited", "limited": limited}}
    )
    why = "required entropy bits of deckSize 2147483647 and handSize 2147483647 should not be greater than 60"
    assert reply.message.endswith(f"{why}]")
