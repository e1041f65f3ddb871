"""Strategy, validation and tables of VolumeAttachments."""

from __future__ import annotations

from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.tables import cells, columns
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api

N = NAMES["kubernetes"]
RESOURCE = Scheme(N).resource("volumeattachments")
PATH = "/apis/storage.k8s.io/v1/volumeattachments"
MERGE = "application/merge-patch+json"


def made(source: Obj, **fields: object) -> Obj:
    spec = {"attacher": "d", "nodeName": "n", "source": source}
    given = {"metadata": {"name": "a", "resourceVersion": "1"}, "spec": spec, **fields}
    return apply_defaults(RESOURCE, given)


def messages(obj: Obj) -> list[str]:
    return [f"{error.field}: {error.message}" for error in validate_create(RESOURCE, obj)]


def test_volume_attachment_has_exactly_one_source():
    one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    assert messages(made({})) == [f"spec.source: Required value: {one}"]
    both = {"inlineVolumeSpec": {}, "persistentVolumeName": "v"}
    assert messages(made(both)) == [f"spec.source: Forbidden: {one}"]
    assert messages(made({"persistentVolumeName": "v"})) == []


def test_inline_volume_is_of_a_csi_driver_and_has_no_place_of_its_own():
    csi = {"driver": "d", "volumeHandle": "h"}
    spec = {"accessModes": ["ReadWriteOnce"], "csi": csi}
    assert messages(made({"inlineVolumeSpec": spec})) == []
    wrong = {
        **spec,
        "claimRef": {"name": "c"},
        "capacity": {"storage": "1Gi"},
        "persistentVolumeReclaimPolicy": "Delete",
        "nodeAffinity": {},
        "storageClassName": "s",
        "volumeMode": "Block",
    }
    del wrong["csi"]
    wrong["hostPath"] = {"path": "/a"}
    assert [
        m.removeprefix("spec.source.inlineVolumeSpec.") for m in messages(made({"inlineVolumeSpec": wrong}))
    ] == [
        "claimRef: Forbidden: may not be specified in the context of inline volumes",
        "capacity: Forbidden: may not be specified in the context of inline volumes",
        "csi: Required value: has to be specified in the context of inline volumes",
        "persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes",
        "nodeAffinity: Forbidden: may not be specified in the context of inline volumes",
        "storageClassName: Forbidden: may not be specified in the context of inline volumes",
        "volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes",
    ]


def test_volume_attachment_limits_what_its_driver_reports():
    source = {"persistentVolumeName": "v"}
    status = {"attachmentMetadata": {"k": "v" * 262_144}, "attachError": {"message": "m" * 1025}}
    assert messages(made(source, status=status)) == [
        "status.attachmentMetadata: Too long: must have at most 262144 bytes",
        "status.attachError.message: Too long: must have at most 262144 bytes",
    ]


def test_spec_of_volume_attachment_does_not_change():
    before = made({"persistentVolumeName": "v"})
    errors = validate_update(RESOURCE, made({"persistentVolumeName": "w"}), before)
    assert [error.field for error in errors] == ["spec"]


def test_status_write_of_volume_attachment_changes_no_metadata():
    api = Api()
    body = {
        "metadata": {"name": "a"},
        "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
        "status": {"attached": True},
    }
    assert api.ask("POST", PATH, body).obj["status"] == {"attached": False}
    patch = {
        "metadata": {"labels": {"x": "y"}},
        "status": {"attached": True, "detachError": {"message": "m"}},
    }
    written = api.ask("PATCH", f"{PATH}/a/status", patch, MERGE).obj
    assert "labels" not in written["metadata"]
    assert written["status"] == {"attached": True, "detachError": {"message": "m", "time": None}}
    assert api.ask("DELETE", f"{PATH}/a").obj["kind"] == "VolumeAttachment"


def test_table_of_volume_attachments_has_the_attacher_as_a_name():
    attacher = columns(RESOURCE)[1]
    assert (attacher["type"], attacher["format"]) == ("string", "name")
    assert cells(RESOURCE, made({"persistentVolumeName": "v"}), 0, N)[:5] == ["a", "d", "v", "n", False]
