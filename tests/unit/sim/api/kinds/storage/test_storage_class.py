"""Validation, warnings and tables of StorageClasses."""

from __future__ import annotations

from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.tables import cells
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES

N = NAMES["kubernetes"]
RESOURCE = Scheme(N).resource("storageclasses")


def made(**fields: object) -> Obj:
    obj = {"metadata": {"name": "c", "resourceVersion": "1"}, "provisioner": "example.com/x", **fields}
    return apply_defaults(RESOURCE, obj)


def messages(obj: Obj) -> list[str]:
    return [f"{error.field}: {error.message}" for error in validate_create(RESOURCE, obj)]


def test_storage_class_gets_policy_and_binding_mode():
    assert made()["reclaimPolicy"] == "Delete"
    assert made()["volumeBindingMode"] == "Immediate"
    assert messages(made(reclaimPolicy="")) == []  # as upstream, which stores it


def test_storage_class_errors_come_in_upstream_order():
    wrong = made(
        provisioner="",
        parameters={"": "x"},
        reclaimPolicy="Recycle",
        volumeBindingMode="Later",
        allowedTopologies=[{"matchLabelExpressions": [{"key": "a", "values": ["b", "b"]}]}],
    )
    assert messages(wrong) == [
        "provisioner: Required value",
        'parameters: Invalid value: "": field can not be empty.',
        'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
        'volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"',
        'allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "b"',
    ]


def test_storage_class_limits_number_and_size_of_parameters():
    assert messages(made(parameters={str(i): "" for i in range(513)})) == [
        "parameters: Too long: must have at most 512 bytes"
    ]
    assert messages(made(parameters={"a": "x" * 262_143})) == []
    assert messages(made(parameters={"a": "x" * 262_144})) == [
        "parameters: Too long: must have at most 262144 bytes"
    ]


def test_storage_class_topology_terms_do_not_repeat():
    term = {"matchLabelExpressions": [{"key": "a", "values": ["b", "c"]}]}
    same = {"matchLabelExpressions": [{"key": "a", "values": ["c", "b"]}]}
    at = 'allowedTopologies[1].matchLabelExpressions: Duplicate value: ""'
    assert messages(made(allowedTopologies=[term, same])) == [at]


def test_empty_topology_term_of_storage_class_repeats_for_each_term():
    term = {"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}
    at = 'allowedTopologies[0].matchLabelExpressions: Duplicate value: ""'
    assert messages(made(allowedTopologies=[{}, term])) == [at, at]


def test_storage_class_update_keeps_what_made_its_volumes():
    changed = made(
        parameters={"a": "b"},
        provisioner="x",
        reclaimPolicy="Retain",
        volumeBindingMode="WaitForFirstConsumer",
    )
    errors = validate_update(RESOURCE, changed, made())
    assert [error.field for error in errors] == [
        "parameters",
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
    ]
    assert validate_update(RESOURCE, made(allowVolumeExpansion=True, mountOptions=["x"]), made()) == []


def test_table_of_storage_class_marks_the_default_one():
    for key in (
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ):
        obj = made(metadata={"name": "c", "annotations": {key: "true"}})
        assert cells(RESOURCE, obj, 0, N)[0] == "c (default)"
    assert cells(RESOURCE, made(), 0, N)[:5] == ["c", "example.com/x", "Delete", "Immediate", False]


def test_storage_class_warns_of_replaced_node_labels():
    old = "failure-domain.beta.kubernetes.io/zone"
    term = {"matchLabelExpressions": [{"key": old, "values": ["b"]}]}
    warn = RESOURCE.behavior.client_warnings
    assert warn is not None
    assert list(warn(made(allowedTopologies=[term]), None, N)) == [
        "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; "
        'use "topology.kubernetes.io/zone" instead'
    ]
