"""Disks that pods name themselves become volumes of drivers."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.common.volumes.translation import translated, uses_disks
from sim.api.types import Obj

ONCE = ["ReadWriteOnce"]


def csi(driver: str, handle: str, **more: Any) -> Obj:
    return {"driver": driver, "volumeHandle": handle, **more}


@pytest.mark.parametrize(
    ("volume", "name", "wanted"),
    [
        (
            {"awsElasticBlockStore": {"volumeID": "aws://zone-a/vol-1", "fsType": "ext4", "partition": 2}},
            "ebs.csi.aws.com-vol-1",
            csi("ebs.csi.aws.com", "vol-1", fsType="ext4", volumeAttributes={"partition": "2"}),
        ),
        (
            {"gcePersistentDisk": {"pdName": "data", "readOnly": True}},
            "pd.csi.storage.gke.io-data",
            csi(
                "pd.csi.storage.gke.io",
                "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/data",
                readOnly=True,
                volumeAttributes={"partition": ""},
            ),
        ),
        (
            {"azureDisk": {"diskURI": "/d/1", "kind": "managed", "cachingMode": "None", "fsType": "xfs"}},
            "/d/1",
            csi(
                "disk.csi.azure.com",
                "/d/1",
                fsType="xfs",
                volumeAttributes={"kind": "Managed", "cachingmode": "None", "fstype": "xfs"},
            ),
        ),
        (
            {"cinder": {"volumeID": "v"}},
            "cinder.csi.openstack.org-v",
            csi("cinder.csi.openstack.org", "v"),
        ),
        (
            {"vsphereVolume": {"volumePath": "[d] p"}},
            "csi.vsphere.vmware.com-[d] p",
            csi("csi.vsphere.vmware.com", "[d] p"),
        ),
    ],
)
def test_disk_becomes_the_volume_of_its_driver(volume: Obj, name: str, wanted: Obj) -> None:
    found = translated({"name": "v", **volume})
    assert found is not None
    assert (found["metadata"]["name"], found["spec"]["csi"]) == (name, wanted)
    shared = "gcePersistentDisk" in volume
    assert found["spec"]["accessModes"] == (["ReadOnlyMany"] if shared else ONCE)
    assert uses_disks({"spec": {"volumes": [{"name": "x"}, volume]}})


@pytest.mark.parametrize(
    "volume",
    [
        {"awsElasticBlockStore": {"volumeID": "aws://zone-a/disk"}},
        {"azureDisk": {"diskURI": "/d", "kind": "Shared"}},
        {"azureFile": {"secretName": "s", "shareName": "x"}},
        {"emptyDir": {}},
        {"nfs": {"server": "s", "path": "/"}},
    ],
)
def test_other_sources_are_not_translated(volume: Obj) -> None:
    assert translated({"name": "v", **volume}) is None
