"""Webhook configurations: defaults, validation, generation, table."""

from __future__ import annotations

import pytest

from sim.api.kinds.tables import row
from sim.api.types import Obj, Reply
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE: Obj = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


@pytest.fixture
def api() -> Api:
    return Api()


def hook(**fields: object) -> Obj:
    return {
        "name": "a.example.com",
        "clientConfig": {"url": "https://x/y"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [RULE],
        **fields,
    }


def post(api: Api, *hooks: Obj, plural: str = "validatingwebhookconfigurations") -> Reply:
    return api.ask("POST", f"{GROUP}/{plural}", {"metadata": {"name": "w"}, "webhooks": list(hooks)})


def test_webhook_gets_defaults_and_reinvocation_only_if_mutating(api: Api) -> None:
    made = post(api, hook(clientConfig={"service": {"name": "s", "namespace": "d"}})).obj
    (filled,) = made["webhooks"]
    assert filled["clientConfig"]["service"]["port"] == 443
    assert filled["rules"][0]["scope"] == "*"
    assert (filled["failurePolicy"], filled["matchPolicy"], filled["timeoutSeconds"]) == (
        "Fail",
        "Equivalent",
        10,
    )
    assert (filled["namespaceSelector"], filled["objectSelector"]) == ({}, {})
    assert "reinvocationPolicy" not in filled
    mutating = post(api, hook(), plural="mutatingwebhookconfigurations").obj
    assert mutating["webhooks"][0]["reinvocationPolicy"] == "Never"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": "short"}, "should be a domain with at least three segments separated by dots"),
        ({"sideEffects": "Some"}, 'supported values: "None", "NoneOnDryRun"'),
        ({"clientConfig": {}}, "exactly one of url or service is required"),
        ({"timeoutSeconds": 31}, "the timeout value must be between 1 and 30 seconds"),
        ({"admissionReviewVersions": ["v2"]}, 'Invalid value: []string{"v2"}: must include at least one of v1, v1beta1'),
        ({"admissionReviewVersions": ["v1", "v1"]}, "duplicate version"),
        ({"rules": [{**RULE, "operations": ["*", "CREATE"]}]}, '[]admissionregistration.OperationType{"*", "CREATE"}'),
        ({"rules": [{**RULE, "resources": ["pods/*", "pods/log"]}]}, "if 'pods/*' is present, must not specify pods/log"),
        ({"rules": [{**RULE, "resources": ["*", "pods"]}]}, "must not specify other resources without subresources"),
        ({"rules": [{**RULE, "scope": "Other"}]}, 'supported values: "*", "Cluster", "Namespaced"'),
        ({"namespaceSelector": {"matchExpressions": [{"key": "k", "operator": "In"}]}}, "namespaceSelector"),
    ],
)  # fmt: skip
def test_webhook_is_validated(api: Api, fields: Obj, text: str) -> None:
    refused = post(api, hook(**fields))
    assert refused.code == 422 and text in refused.message


def test_names_of_webhooks_are_unique(api: Api) -> None:
    assert 'webhooks[1].name: Duplicate value: "a.example.com"' in post(api, hook(), hook()).message


def test_update_needs_a_revision_and_counts_generations_of_webhooks(api: Api) -> None:
    made = post(api, hook()).obj
    path = f"{GROUP}/validatingwebhookconfigurations/w"
    unconditional = api.ask("PUT", path, {"metadata": {"name": "w"}, "webhooks": [hook()]})
    assert unconditional.code == 422 and "must be specified for an update" in unconditional.message
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    same = api.ask("PUT", path, labelled).obj
    assert same["metadata"]["generation"] == 1
    assert api.ask("PUT", path, {**same, "webhooks": []}).obj["metadata"]["generation"] == 2


def test_table_counts_webhooks(api: Api) -> None:
    made = post(api, hook()).obj
    resource = api.scheme.resource("validatingwebhookconfigurations")
    assert row(resource, made, 1_700_000_060_000_000, NAMES["kubernetes"])["cells"] == ["w", 1, "60s"]
