"""Validation, forms and warnings of CSIStorageCapacities."""

from __future__ import annotations

from sim.api.kinds.validation import validate_create, validate_update
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api

N = NAMES["kubernetes"]
RESOURCE = Scheme(N).resource("csistoragecapacities")
PATH = "/apis/storage.k8s.io/{}/namespaces/golden-ns/csistoragecapacities"


def made(**fields: object) -> Obj:
    return {
        "metadata": {"name": "c", "namespace": "n", "resourceVersion": "1"},
        "storageClassName": "s",
        **fields,
    }


def test_create_of_storage_capacity_lists_each_error_twice():
    errors = validate_create(RESOURCE, made(capacity="-1"))
    assert [error.field for error in errors] == ["capacity", "capacity"]
    assert errors[0].message == 'Invalid value: "-1": must be greater than or equal to 0'


def test_class_and_topology_of_storage_capacity_do_not_change():
    errors = validate_update(RESOURCE, made(storageClassName="t", nodeTopology={}), made())
    assert [error.field for error in errors] == ["nodeTopology", "storageClassName"]
    same = made(nodeTopology={"matchLabels": {}})
    assert validate_update(RESOURCE, same, made(nodeTopology={})) == []
    assert validate_update(RESOURCE, made(capacity="1Gi"), made()) == []


def test_storage_capacity_is_served_in_both_versions():
    api = Api()
    body = {"metadata": {"name": "c"}, "storageClassName": "s", "capacity": "1024Mi"}
    assert api.ask("POST", PATH.format("v1beta1"), body).obj["apiVersion"] == "storage.k8s.io/v1beta1"
    stored = api.ask("GET", PATH.format("v1") + "/c").obj
    assert stored["apiVersion"] == "storage.k8s.io/v1"
    assert stored["capacity"] == "1Gi"


def test_storage_capacity_warns_of_replaced_node_labels():
    old = "beta.kubernetes.io/os"
    warn = RESOURCE.behavior.client_warnings
    assert warn is not None
    text = 'deprecated since v1.14; use "kubernetes.io/os" instead'
    expression = {"key": old, "operator": "Exists"}
    topology = {"matchLabels": {old: "linux"}, "matchExpressions": [expression]}
    assert list(warn(made(nodeTopology=topology), None, N)) == [
        f"nodeTopology.matchExpressions[0].key: {old} is {text}",
        f"nodeTopology.matchLabels.{old}: {text}",
    ]
