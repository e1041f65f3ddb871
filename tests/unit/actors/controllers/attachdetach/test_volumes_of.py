"""Which volumes of a pod a driver attaches, by the objects behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.controllers.attachdetach.decide import Objects
from sim.api.types import Obj
from sim.ident import NAMES

N = NAMES["orch"]
POD: Obj = {"metadata": {"namespace": "default", "name": "p", "uid": "up"}, "spec": {}}
OWNER: Obj = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "up", "controller": True}


def claim(volume: str = "v", phase: str = "Bound", *owners: Obj) -> Obj:
    meta = {"namespace": "default", "name": "c", "uid": "uc", "ownerReferences": [*owners]}
    return {"metadata": meta, "spec": {"volumeName": volume}, "status": {"phase": phase}}


def disk(uid: str = "uc", **source: Any) -> Obj:
    csi = {"csi": {"driver": "disk.example.com", "volumeHandle": "h"}}
    return {"metadata": {"name": "v"}, "spec": {"claimRef": {"uid": uid}, **(source or csi)}}


def of(value: Obj | None, *keys: str) -> Callable[[str], Obj | None]:
    return lambda key: value if key in keys else None


def volumes_of(source: Obj, owned: Obj | None, volume: Obj | None, driver: Obj | None = None) -> list[Obj]:
    objects = Objects(
        N, of(owned, "default/c", "default/p-e"), of(volume, "v"), of(driver, "disk.example.com")
    )
    return [*objects.volumes_of({**POD, "spec": {"volumes": [source]}})]


PVC: Obj = {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}
EPHEMERAL: Obj = {"name": "e", "ephemeral": {}}


def test_disk_behind_a_bound_claim_is_attached() -> None:
    assert volumes_of(PVC, claim(), disk()) == [disk()]
    objects = Objects(N, of(None), of(None), of(None))
    assert "disk.example.com" in objects.unique_name(disk())


@pytest.mark.parametrize(
    ("owned", "volume"),
    [
        (None, disk()),
        (claim(phase="Pending"), disk()),
        (claim(""), disk()),
        (claim(), None),
        (claim(), disk("of another claim")),
        (claim(), {"metadata": {"name": "v"}, "spec": {"csi": {"driver": "d", "volumeHandle": "h"}}}),
        (claim(), disk(hostPath={"path": "/"})),
    ],
)
def test_claim_that_leads_to_no_disk_of_its_own_needs_nothing(owned: Obj | None, volume: Obj | None) -> None:
    if volume is not None and "hostPath" in volume["spec"]:
        volume["spec"]["claimRef"] = {"uid": "uc"}
    assert volumes_of(PVC, owned, volume) == []


def test_ephemeral_volume_needs_the_claim_of_its_own_pod() -> None:
    assert volumes_of(EPHEMERAL, claim("v", "Bound", OWNER), disk()) == [disk()]
    assert volumes_of(EPHEMERAL, claim(), disk()) == []


@pytest.mark.parametrize(("required", "attached"), [(None, True), (True, True), (False, False)])
def test_driver_says_that_its_volumes_need_no_attachment(required: bool | None, attached: bool) -> None:
    driver: Obj = {"spec": {} if required is None else {"attachRequired": required}}
    assert (volumes_of(PVC, claim(), disk(), driver) != []) is attached


def test_disk_that_a_pod_names_itself_is_attached_by_the_driver_of_its_plugin() -> None:
    (one,) = volumes_of({"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1"}}, None, None)
    assert one["spec"]["csi"]["volumeHandle"] == "vol-1"
    assert volumes_of({"name": "d", "emptyDir": {}}, None, None) == []
