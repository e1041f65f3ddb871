"""Strategy, validation and tables of APIServices."""

from __future__ import annotations

import pytest

from sim.api.kinds.apiregistration.api_service import local
from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.tables import cells
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.scheme.discovery import group_versions
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api

N = NAMES["kubernetes"]
SCHEME = Scheme(N)
RESOURCE = SCHEME.resource("apiservices")
PATH = "/apis/apiregistration.k8s.io/v1/apiservices"
MERGE = "application/merge-patch+json"
SERVICE = {"namespace": "n", "name": "s"}


def made(**spec: object) -> Obj:
    given = {"group": "x.y", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, **spec}
    return apply_defaults(RESOURCE, {"metadata": {"name": "v1.x.y", "resourceVersion": "1"}, "spec": given})


def messages(obj: Obj) -> list[str]:
    return [f"{error.field}: {error.message}" for error in validate_create(RESOURCE, obj)]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, []),
        ({"service": SERVICE, "insecureSkipTLSVerify": True}, []),
        (
            {"version": "v2"},
            ['metadata.name: Invalid value: "v1.x.y": must be `spec.version+"."+spec.group`: "v2.x.y"'],
        ),
        (
            {"groupPriorityMinimum": 20001, "versionPriority": 0},
            [
                "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
            ],
        ),
        (
            {"caBundle": "Yg==", "insecureSkipTLSVerify": True},
            [
                'spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle',
                "spec.insecureSkipTLSVerify: Invalid value: true: "
                "local APIServices may not have insecureSkipTLSVerify",
            ],
        ),
        (
            {"service": {}},
            ["spec.service.namespace: Required value", "spec.service.name: Required value"],
        ),
        (
            {"service": {**SERVICE, "port": 0}, "insecureSkipTLSVerify": True, "caBundle": "Yg=="},
            [
                "spec.service.port: Invalid value: 0: port is not valid: "
                "must be between 1 and 65535, inclusive",
                "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
            ],
        ),
    ],
)
def test_api_service_is_checked_in_upstream_order(spec: Obj, wanted: list[str]):
    assert messages(made(**spec)) == wanted


def test_status_of_api_service_has_known_values():
    odd = {**made(), "status": {"conditions": [{"type": "Available", "status": "Odd"}]}}
    (error,) = validate_update(RESOURCE, odd, made(), "status")
    assert error.field == "status.conditions[0].status"


def test_new_local_api_service_is_available_and_a_remote_one_is_not_yet():
    api = Api()
    body = {"metadata": {"name": "v1.x.y"}, "spec": made()["spec"]}
    (condition,) = api.ask("POST", PATH, body).obj["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "Local")
    assert condition["lastTransitionTime"]
    remote = {"metadata": {"name": "v2.x.y"}, "spec": {**body["spec"], "version": "v2", "service": SERVICE}}
    created = api.ask("POST", PATH, remote).obj
    assert created["status"] == {}
    assert created["spec"]["service"]["port"] == 443


def test_status_write_of_api_service_changes_no_labels():
    api = Api()
    patch = {"metadata": {"labels": {"x": "y"}}, "spec": {"versionPriority": 1}, "status": {"conditions": []}}
    written = api.ask("PATCH", f"{PATH}/v1.apps/status", patch, MERGE).obj
    assert written["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
    assert written["spec"]["versionPriority"] == 15


def test_each_served_group_version_has_an_api_service_but_the_aggregator():
    reply = Api().ask("GET", f"{PATH}/v1.").obj
    assert reply["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}
    api = Api()
    for group, versions in group_versions(SCHEME).items():
        for version in versions:
            code = api.ask("GET", f"{PATH}/{version}.{group}").code
            assert code == (404 if group == "apiregistration.k8s.io" else 200), group
    assert local("apiregistration", "v1", N) is None


def test_priorities_of_versions_are_those_of_upstream():
    found = [local("autoscaling", version, N) for version in ("v2", "v1", "v2beta2")]
    assert [obj and obj["spec"]["versionPriority"] for obj in found] == [30, 15, 1]


def test_table_of_api_services_shows_the_reason_of_unavailability():
    assert cells(RESOURCE, made(), 0, N)[:3] == ["v1.x.y", "Local", "Unknown"]
    condition = {"type": "Available", "status": "False", "reason": "ServiceNotFound"}
    remote = {**made(service=SERVICE), "status": {"conditions": [condition]}}
    assert cells(RESOURCE, remote, 0, N)[1:3] == ["n/s", "False (ServiceNotFound)"]
