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
