"""Claims that grow are left to the drivers of their volumes."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.types import Obj
from tests.actor.apiserver.cluster import SCHEME
from tests.actor.controllers.workload import world

NAMES = SCHEME.names
IGNORED = (
    "Ignoring the PVC: didn't find a plugin capable of expanding the volume; "
    "waiting for an external controller to process this PVC."
)
MOVED = f"CSI migration enabled for {NAMES.volume_plugin_prefix}aws-ebs; waiting for external resizer to expand the pvc"


@pytest.mark.parametrize(
    ("source", "kind", "text", "resizer"),
    [
        ({"nfs": {"server": "a", "path": "/b"}}, "Warning", IGNORED, None),
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, "Warning", IGNORED, None),
        ({"fc": {"targetWWNs": ["500a0982991b8dc5"], "lun": 1}}, "Normal", IGNORED, None),
        ({"awsElasticBlockStore": {"volumeID": "v"}}, "Normal", MOVED, "ebs.csi.aws.com"),
    ],
)
async def test_claim_that_grows_is_left_to_its_driver(
    source: dict[str, Any], kind: str, text: str, resizer: str | None
) -> None:
    async with world(["persistentvolume-expander"]) as w:
        wanted = {"accessModes": ["ReadWriteOnce"], "volumeName": "v", "storageClassName": "fast"}
        claim: Obj = {
            "metadata": {"name": "c"},
            "spec": {**wanted, "resources": {"requests": {"storage": "1Gi"}}},
        }
        made = await w.create("persistentvolumeclaims", claim)
        reference = {"namespace": "default", "name": "c", "uid": made["metadata"]["uid"]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": reference,
            **source,
        }
        await w.create("persistentvolumes", {"metadata": {"name": "v"}, "spec": spec}, "")
        bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
        await w.patch("persistentvolumeclaims", "c", bound, "status")
        await w.create(
            "storageclasses",
            {"metadata": {"name": "fast"}, "provisioner": "p.example", "allowVolumeExpansion": True},
            "",
        )
        await w.settle()
        assert await w.events("c") == []
        grown = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        await w.patch("persistentvolumeclaims", "c", grown)
        await w.settle()
        (event,) = [one for one in await w.stored("events") if one["involvedObject"]["name"] == "c"]
        assert (event["type"], event["reason"], event["message"]) == (kind, "ExternalExpanding", text)
        annotations = (await w.get("persistentvolumeclaims", "c"))["metadata"].get("annotations") or {}
        assert annotations.get(NAMES.annotation_storage_resizer) == resizer
