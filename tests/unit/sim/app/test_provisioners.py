"""Claims that no process provisions are named before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.provisioners import driver_of, unprovisioned
from sim.ident import NAMES
from sim.scenario.compile import load

Value = dict[str, Any]


def storage_class(provisioner: str, name: str = "gp3", default: bool = False) -> Value:
    marks = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}} if default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, **marks},
        "provisioner": provisioner,
    }


def claim(name: str = "data", **spec: Any) -> Value:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": whole}


def stateful_set() -> Value:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {
        "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template,
        "volumeClaimTemplates": [{"metadata": {"name": "disk"}, "spec": claim(storageClassName="gp3")["spec"]}],
    }  # fmt: skip
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec}


def notes(folder: Path, *objects: Value, storage: tuple[Value, ...] = ()) -> list[str]:
    cluster = {"naming": "kubernetes", "nodes": [{"count": 1}], "storage": [*storage]}
    spec = {"duration": "1m", "cluster": cluster, "objects": [*objects]}
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"}}
    file = folder / "s.yaml"
    file.write_text(yaml.safe_dump({**head, "spec": spec}))
    return [note.removeprefix(f"{file}: ") for note in unprovisioned(load(file))]


def test_provisioner_that_no_process_plays_is_named_with_its_claims(tmp_path: Path) -> None:
    found = notes(tmp_path, storage_class("ebs.csi.aws.com"), claim(storageClassName="gp3"), stateful_set())
    assert found == [
        "no process provisions ebs.csi.aws.com: add {driver: ebs.csi.aws.com, class: NAME} to cluster.storage "
        "(PersistentVolumeClaim data, disk of StatefulSet db)"
    ]


def test_driver_of_the_cluster_leaves_nothing_to_say(tmp_path: Path) -> None:
    driver = {"driver": "ebs.csi.aws.com", "class": "ebs"}
    objects = (
        storage_class("kubernetes.io/aws-ebs"),
        claim(storageClassName="gp3"),
        claim("b", storageClassName="ebs"),
    )
    assert notes(tmp_path, *objects, storage=(driver,)) == []


def test_class_that_does_not_exist_and_a_missing_default_are_named(tmp_path: Path) -> None:
    found = notes(tmp_path, claim(storageClassName="gp3"), claim("plain"))
    assert [note.partition(":")[0] for note in found] == [
        "no process provisions the class gp3", "claims without a class wait, since no class is the default",
    ]  # fmt: skip


def test_default_class_decides_for_claims_without_a_class(tmp_path: Path) -> None:
    (found,) = notes(tmp_path, storage_class("rancher.io/local-path", default=True), claim())
    assert found.startswith(
        "no process provisions rancher.io/local-path: let a driver of cluster.storage have"
    )


def test_claims_with_volumes_that_are_objects_get_no_note(tmp_path: Path) -> None:
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, "storageClassName": "gp3"},
    }  # fmt: skip
    assert (
        notes(
            tmp_path, volume, claim(storageClassName="gp3"), claim("b", storageClassName="x", volumeName="pv")
        )
        == []
    )
    assert notes(tmp_path, claim(storageClassName="")) == []


@pytest.mark.parametrize(
    ("provisioner", "driver"),
    [
        ("ebs.csi.aws.com", "ebs.csi.aws.com"),
        ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
        ("kubernetes.io/no-provisioner", ""),
        ("kubernetes.io/host-path", ""),
        ("kubernetes.io/nfs", "kubernetes.io/nfs"),
        ("", ""),
    ],
)
def test_provisioner_leads_to_the_driver_that_plays_it(provisioner: str, driver: str) -> None:
    assert driver_of(provisioner, NAMES["kubernetes"]) == driver
