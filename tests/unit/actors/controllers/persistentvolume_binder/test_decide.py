"""What becomes of claims and volumes."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.persistentvolume_binder import decide
from sim.api.types import Obj
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]
BOUND = {NAMING.annotation_bound_by_controller: "yes"}


def volume(name: str, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Obj:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"capacity": {"storage": size}, "accessModes": [*modes], **spec},
        "status": {"phase": "Available"},
    }


def claim(name: str = "c", size: str = "1Gi", **spec: Any) -> Obj:
    requests = {"resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"]}
    meta = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {"metadata": meta, "spec": {**requests, **spec}, "status": {"phase": "Pending"}}


def matched(*volumes: Obj, delays: bool = False) -> str:
    found = decide.best_match(claim(size="2Gi"), volumes, NAMING, delays)
    return "" if found is None else found["metadata"]["name"]


def test_volume_with_fewest_modes_precedes_a_smaller_one() -> None:
    both = ("ReadWriteOnce", "ReadWriteMany")
    assert matched(volume("many", "2Gi", both), volume("one", "9Gi"), volume("tiny", "1Gi")) == "one"
    assert matched(volume("b", "4Gi"), volume("a", "3Gi")) == "a"
    assert matched(volume("other", "9Gi", ("ReadOnlyMany",))) == ""


def test_delayed_claim_gets_only_the_volume_reserved_for_it() -> None:
    reserved = volume("r", "9Gi", claimRef={"name": "c", "namespace": "n"})
    assert matched(volume("free", "2Gi"), delays=True) == ""
    assert matched(volume("free", "2Gi"), reserved, delays=True) == "r"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"capacity": {"storage": "1Mi"}}, "requested PV is too small"),
        ({"storageClassName": "fast"}, "storageClassName does not match"),
        ({"volumeMode": "Block"}, "incompatible volumeMode"),
        ({"accessModes": ["ReadOnlyMany"]}, "incompatible accessMode"),
    ],
)
def test_requested_volume_is_checked_in_order(changes: dict[str, Any], problem: str) -> None:
    assert decide.volume_problem(volume("v", **changes) if "capacity" not in changes else
                                 volume("v", "1Mi"), claim(), NAMING) == problem  # fmt: skip


def test_bound_claim_gets_name_marks_and_capacity_of_its_volume() -> None:
    new = decide.claim_bound_to(claim(), volume("v", "3Gi"), NAMING)
    assert new["spec"]["volumeName"] == "v"
    assert new["metadata"]["annotations"] == {NAMING.annotation_bind_completed: "yes", **BOUND}
    assert decide.claim_bound_to(new, volume("v", "3Gi"), NAMING) is new
    status = decide.claim_in_phase(new, "Bound", volume("v", "3Gi"), NAMING)["status"]
    assert status == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "3Gi"}}


@pytest.mark.parametrize(("before", "after"), [("1Gi", "3Gi"), ("3072Mi", "3072Mi")])
def test_claim_that_is_bound_gets_the_capacity_of_its_volume_if_it_differs(before: str, after: str) -> None:
    had = {**claim(), "status": {"phase": "Pending", "capacity": {"storage": before}}}
    status = decide.claim_in_phase(had, "Bound", volume("v", "3Gi"), NAMING)["status"]
    assert status["capacity"] == {"storage": after}


def test_claim_that_named_its_volume_is_not_marked_as_bound_by_the_controller() -> None:
    new = decide.claim_bound_to(claim(volumeName="v"), volume("v"), NAMING)
    assert new["metadata"]["annotations"] == {NAMING.annotation_bind_completed: "yes"}


def test_unbound_volume_keeps_the_reservation_of_a_user() -> None:
    reference = {"name": "c", "namespace": "n", "uid": "u"}
    by_user = volume("v", claimRef=reference)
    assert decide.released_from_claim(by_user, NAMING)["spec"]["claimRef"] == {"name": "c", "namespace": "n"}
    by_controller = {**by_user, "metadata": {**by_user["metadata"], "annotations": BOUND}}
    new = decide.released_from_claim(by_controller, NAMING)
    assert "claimRef" not in new["spec"] and not new["metadata"].get("annotations")


def test_volume_is_released_when_its_claim_is_another_or_elsewhere() -> None:
    bound = volume("v", claimRef={"name": "c", "namespace": "n", "uid": "uid-c"})
    assert decide.is_released(bound, None)
    assert decide.is_released(bound, {**claim(), "metadata": {**claim()["metadata"], "uid": "new"}})
    assert decide.is_released(bound, claim(volumeName="w"))
    assert not decide.is_released(bound, claim(volumeName="v"))
    assert not decide.is_released(volume("v"), None)


def test_recycler_pod_mounts_the_volume_and_has_a_deadline_by_size() -> None:
    one = volume("v", "10Gi", hostPath={"path": "/tmp/hostpath_pv/d", "type": ""})
    deadline_s = decide.recycler_deadline_s(one, 60, 30)
    pod = decide.recycler_pod(one, decide.RECYCLER, deadline_s)
    assert (pod["metadata"]["name"], pod["spec"]["activeDeadlineSeconds"]) == ("recycler-for-v", 300)
    assert pod["spec"]["volumes"] == [{"name": "vol", "hostPath": {"path": "/tmp/hostpath_pv/d"}}]
    assert decide.recycler_deadline_s(volume("w", "1Gi"), 60, 30) == 60


def test_recycler_pod_keeps_all_of_its_template_but_the_generated_name() -> None:
    meta = {"generateName": "recycle-", "namespace": "tools", "labels": {"a": "b"}}
    pod = decide.recycler_pod(volume("v", nfs={"path": "/d"}), {**decide.RECYCLER, "metadata": meta}, 60)
    assert pod["metadata"] == {"name": "recycler-for-v", "namespace": "tools", "labels": {"a": "b"}}


def test_plugin_that_has_migrated_is_annotated_with_its_driver() -> None:
    keys = (NAMING.annotation_provisioned_by,)
    drivers = {"gce-pd": "pd.csi.example.com"}

    def marked(provisioner: str, **marks: str) -> dict[str, str]:
        obj = {"metadata": {"annotations": {keys[0]: provisioner, **marks}}}
        new = decide.with_migration(obj, keys, drivers, NAMING)
        return {k: v for k, v in new["metadata"]["annotations"].items() if k != keys[0]}

    migrated = {NAMING.annotation_migrated_to: "pd.csi.example.com"}
    assert marked("kubernetes.io/gce-pd") == migrated
    assert marked("kubernetes.io/host-path") == {}
    assert marked("own.example.com", **migrated) == {}


def test_only_one_default_class_is_the_default() -> None:
    def made(name: str, **marks: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "annotations": marks}}

    old = {NAMING.annotation_beta_default_storage_class: "true"}
    new = {NAMING.annotation_default_storage_class: "true"}
    plain = made("plain", **{NAMING.annotation_default_storage_class: "false"})
    assert decide.default_class([plain, made("old", **old)], NAMING) == "old"
    assert decide.default_class([made("old", **old), made("new", **new)], NAMING) == ""
    assert decide.default_class([plain], NAMING) == ""


@pytest.mark.parametrize(
    ("provisioner", "policy", "before", "after"),
    [
        (None, "Delete", [], []),
        ("disk.example.com", "Delete", [], []),
        ("kubernetes.io/host-path", "Delete", ["a/b"], ["a/b", NAMING.finalizer_volume_data]),
        ("kubernetes.io/host-path", "Delete", [NAMING.finalizer_volume_data], None),
        ("kubernetes.io/host-path", "Retain", [NAMING.finalizer_volume_data, "a/b"], ["a/b"]),
        ("kubernetes.io/host-path", "Retain", [NAMING.finalizer_external_volume], []),
        ("kubernetes.io/moved", "Delete", [NAMING.finalizer_volume_data], []),
        ("kubernetes.io/moved", "Delete", ["a/b"], None),
    ],
)
def test_finalizer_keeps_volumes_until_their_plugin_has_deleted_the_data(
    provisioner: str | None, policy: str, before: list[str], after: list[str] | None
) -> None:
    """after: None if the volume itself is returned"""
    given = volume("v", persistentVolumeReclaimPolicy=policy)
    marks = {} if provisioner is None else {NAMING.annotation_provisioned_by: provisioner}
    given["metadata"] |= {"annotations": marks, "finalizers": before}
    found = decide.with_deletion_finalizers(given, ("moved",), NAMING)
    assert (found is given) is (after is None or after == before)
    assert (found["metadata"]["finalizers"] or []) == (before if after is None else after)


def test_capacity_before_a_resize_counts_only_if_it_is_a_quantity() -> None:
    bound = volume("v", "3Gi")
    for written, wanted in (("1Gi", "1Gi"), ("much", "3Gi")):
        bound["metadata"]["annotations"] = {NAMING.annotation_pre_resize_capacity: written}
        found = decide.claim_in_phase(claim(), "Bound", bound, NAMING)
        assert found["status"]["capacity"] == {"storage": wanted}
