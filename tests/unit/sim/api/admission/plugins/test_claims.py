"""Admission of claims and volumes: default class, protection, growth."""

from __future__ import annotations

import pytest

from sim.api.admission.base import Denial
from sim.api.admission.plugins.claims import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from sim.api.types import Obj
from tests.unit.sim.api.admission.test_chain import NAMES_, FakeView, asks

CLAIMS = "persistentvolumeclaims"
MARK = NAMES_.annotation_default_storage_class


def storage_class(name: str, expands: bool | None = None, default: str = "") -> Obj:
    marks = {MARK: "true"} if default else {}
    made = {"metadata": {"name": name, "annotations": marks}, "provisioner": "p"}
    return made if expands is None else {**made, "allowVolumeExpansion": expands}


# --- DefaultStorageClass --------------------------------------------------------------------------


def with_default(claim: Obj, *classes: Obj) -> Obj | Denial:
    plugin = DefaultStorageClass(NAMES_)
    assert plugin.concerns("create", CLAIMS, "")
    return plugin.mutate(asks(CLAIMS, name="c"), claim, FakeView(storageclasses=list(classes)))


def test_claim_without_a_class_gets_the_default_class():
    claim = {"metadata": {"name": "c"}, "spec": {"volumeName": "v"}}
    changed = with_default(claim, storage_class("a"), storage_class("b", default="yes"))
    assert isinstance(changed, dict)
    assert changed["spec"] == {"volumeName": "v", "storageClassName": "b"}
    assert with_default(claim, storage_class("a")) is claim


@pytest.mark.parametrize(
    "claim",
    [
        {"metadata": {"name": "c"}, "spec": {"storageClassName": ""}},
        {"metadata": {"name": "c"}, "spec": {"storageClassName": "x"}},
        {"metadata": {"name": "c", "annotations": {NAMES_.annotation_beta_storage_class: ""}}, "spec": {}},
    ],
)
def test_claim_with_a_class_keeps_it(claim: Obj):
    assert with_default(claim, storage_class("b", default="yes")) is claim


def test_two_default_classes_refuse_a_claim_without_one():
    claim = {"metadata": {"name": "c"}, "spec": {}}
    denial = with_default(claim, storage_class("a", default="yes"), storage_class("b", default="yes"))
    assert isinstance(denial, Denial)
    assert (denial.code, denial.message) == (
        403,
        'persistentvolumeclaims "c" is forbidden: Internal error occurred: '
        "2 default StorageClasses were found",
    )


# --- StorageObjectInUseProtection -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("plural", "finalizer"),
    [
        (CLAIMS, NAMES_.finalizer_claim_protection),
        ("persistentvolumes", NAMES_.finalizer_volume_protection),
    ],
)
def test_created_claim_or_volume_gets_its_finalizer_once(plural: str, finalizer: str):
    plugin = StorageObjectInUseProtection(NAMES_)
    assert plugin.concerns("create", plural, "")
    assert not plugin.concerns("update", plural, "")
    given = {"metadata": {"name": "x", "finalizers": ["example.com/f"]}}
    changed = plugin.mutate(asks(plural, name="x"), given, FakeView())
    assert isinstance(changed, dict)
    assert changed["metadata"]["finalizers"] == ["example.com/f", finalizer]
    assert plugin.mutate(asks(plural, name="x"), changed, FakeView()) is changed


# --- PersistentVolumeClaimResize ------------------------------------------------------------------

UNBOUND = "Only bound persistent volume claims can be expanded"
NO_CLASS = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must"
    " support resize"
)


@pytest.mark.parametrize(
    ("size", "phase", "name", "text"),
    [
        ("1Gi", "Pending", "", ""),
        ("1024Mi", "Pending", "", ""),
        ("2Gi", "Pending", "grows", UNBOUND),
        ("2Gi", "Bound", "", NO_CLASS),
        ("2Gi", "Bound", "missing", NO_CLASS),
        ("2Gi", "Bound", "fixed", NO_CLASS),
        ("2Gi", "Bound", "silent", NO_CLASS),
        ("2Gi", "Bound", "grows", ""),
    ],
)
def test_claim_grows_only_if_its_class_allows_it(size: str, phase: str, name: str, text: str):
    def claim(storage: str) -> Obj:
        spec = {"resources": {"requests": {"storage": storage}}, "storageClassName": name}
        return {"metadata": {"name": "c"}, "spec": spec, "status": {"phase": phase}}

    classes = [storage_class("grows", True), storage_class("fixed", False), storage_class("silent")]
    asked = asks(CLAIMS, "update", name="c", old=claim("1Gi"))
    plugin = PersistentVolumeClaimResize(NAMES_)
    denial = plugin.validate(asked, claim(size), FakeView(storageclasses=classes))
    assert ("" if denial is None else denial.message.partition(": ")[2]) == text
