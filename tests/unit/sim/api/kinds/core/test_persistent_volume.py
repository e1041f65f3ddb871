"""Defaults, validation, warnings and tables of PersistentVolumes."""

from __future__ import annotations

import pytest

from sim.api.kinds.common.persistent_volumes import SOURCES
from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.strategies import for_create, for_update
from sim.api.kinds.tables import cells
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.schema.field_schemas import schema_of
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES

N = NAMES["kubernetes"]
RESOURCE = Scheme(N).resource("persistentvolumes")
AFFINITY = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}


def made(name: str = "v", **spec: object) -> Obj:
    given = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **spec}
    return apply_defaults(RESOURCE, {"metadata": {"name": name, "resourceVersion": "1"}, "spec": given})


def messages(obj: Obj) -> list[str]:
    return [f"{error.field}: {error.message}" for error in validate_create(RESOURCE, obj)]


def changed(new: Obj, old: Obj) -> list[str]:
    return [error.field for error in validate_update(RESOURCE, new, old)]


def test_volume_sources_are_those_of_the_schema():
    fields = {"accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "volumeMode"}
    fields |= {"persistentVolumeReclaimPolicy", "storageClassName"}
    schema = schema_of("io.k8s.api.core.v1.PersistentVolumeSpec")
    assert set(SOURCES) == schema.properties.keys() - fields


def test_persistent_volume_gets_policy_mode_and_phase():
    volume = made(hostPath={"path": "/a"}, capacity={"storage": "1.5Gi"})
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["volumeMode"] == "Filesystem"
    assert volume["spec"]["hostPath"] == {"path": "/a", "type": ""}
    assert volume["spec"]["capacity"] == {"storage": "1536Mi"}
    assert volume["status"] == {"phase": "Pending"}


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({"hostPath": {}}, ["spec.hostPath.path: Required value"]),
        ({"gcePersistentDisk": {}}, ["spec.persistentDisk.pdName: Required value"]),
        (
            {"local": {"path": "/a"}},
            ["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        ),
        (
            {"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}},
            [
                'spec.glusterfs.endpointsNamespace: Invalid value: "": '
                "if the endpointnamespace is set, it must be a valid namespace name"
            ],
        ),
        (
            {"iscsi": {"targetPortal": "p", "iqn": "x"}},
            ['spec.iscsi.iqn: Invalid value: "x": must be valid format'],
        ),
        (
            {"cinder": {"volumeID": "v", "secretRef": {"name": "s"}}},
            ["spec.cinder.secretRef.namespace: Required value"],
        ),
        (
            {"storageos": {"volumeName": "v", "secretRef": {"name": "s"}}},
            ["spec.storageos.secretRef.namespace: Required value"],
        ),
        (
            {"azureFile": {"secretName": "s", "shareName": "s", "secretNamespace": ""}},
            ["spec.azureFile.secretNamespace: Required value"],
        ),
        ({"csi": {"driver": "d"}}, ["spec.csi.volumeHandle: Required value"]),
        (
            {"csi": {"driver": "d", "volumeHandle": "h", "controllerPublishSecretRef": {"name": "s"}}},
            ["spec.csi.controllerPublishSecretRef.namespace: Required value"],
        ),
        ({}, ["spec: Required value: must specify a volume type"]),
        (
            {"nfs": {"server": "s", "path": "/"}, "cephfs": {}},
            ["spec.cephFS: Forbidden: may not specify more than 1 volume type"],
        ),
        ({"nfs": {"server": "s", "path": "/"}, "flexVolume": {"driver": "d"}}, []),
        ({"local": {"path": "/a"}, "nodeAffinity": AFFINITY}, []),
    ],
)
def test_persistent_volume_source_is_checked(source: Obj, wanted: list[str]):
    assert messages(made(**source)) == wanted


def test_iscsi_volume_and_portal_name_have_a_common_limit():
    source = {"targetPortal": "p" * 60, "iqn": "iqn.2000-01.x:y", "initiatorName": "iqn.2000-01.x:y"}
    assert messages(made("abc", iscsi=source)) == []
    assert [m.partition(":")[0] for m in messages(made("abcd", iscsi=source))] == ["spec.iscsi.targetportal"]


def test_persistent_volume_capacity_is_storage_alone():
    shown = (
        'core.ResourceList{"cpu":resource.Quantity{i:resource.int64Amount{value:1, scale:0}, '
        'd:resource.infDecAmount{Dec:(*inf.Dec)(nil)}, s:"1", Format:"DecimalSI"}}'
    )
    assert messages(made(hostPath={"path": "/a"}, capacity={"cpu": "1"})) == [
        f'spec.capacity: Unsupported value: {shown}: supported values: "storage"'
    ]
    assert messages(made(hostPath={"path": "/a"}, capacity={"storage": "-1"})) == [
        "spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
        'spec.capacity[storage]: Invalid value: "-1": must be greater than zero',
    ]


def test_recycling_the_root_of_a_node_is_forbidden():
    at = "spec.persistentVolumeReclaimPolicy"
    wanted = f"{at}: Forbidden: may not be 'recycle' for a hostPath mount of '/'"
    assert messages(made(hostPath={"path": "//"}, persistentVolumeReclaimPolicy="Recycle")) == [wanted]
    assert messages(made(hostPath={"path": "/a"}, persistentVolumeReclaimPolicy="Recycle")) == []


def test_persistent_volume_source_mode_and_affinity_do_not_change():
    before = made(hostPath={"path": "/a"}, nodeAffinity=AFFINITY)
    assert changed(made(hostPath={"path": "/b"}, nodeAffinity=AFFINITY), before) == [
        "spec.persistentvolumesource"
    ]
    block = made(hostPath={"path": "/a"}, nodeAffinity=AFFINITY, volumeMode="Block")
    assert changed(block, before) == ["volumeMode"]
    assert changed(made(hostPath={"path": "/a"}), before) == ["nodeAffinity"]
    assert changed(before, made(hostPath={"path": "/a"})) == []
    assert changed(made(hostPath={"path": "/a"}, nodeAffinity=AFFINITY, storageClassName="x"), before) == []


def test_secret_for_the_growth_of_a_csi_volume_is_set_once():
    plain = made(csi={"driver": "d", "volumeHandle": "h"})
    secret = {"name": "s", "namespace": "n"}
    grown = made(csi={"driver": "d", "volumeHandle": "h", "controllerExpandSecretRef": secret})
    other = made(
        csi={"driver": "d", "volumeHandle": "h", "controllerExpandSecretRef": {"name": "t", "namespace": "n"}}
    )
    assert changed(grown, plain) == []
    assert changed(other, grown) == ["spec.persistentvolumesource"]
    assert changed(plain, grown) == ["spec.persistentvolumesource"]


def test_node_expand_secret_is_dropped_while_its_gate_is_off():
    secret = {"name": "s", "namespace": "n"}
    volume = made(csi={"driver": "d", "volumeHandle": "h", "nodeExpandSecretRef": secret})
    plain = {"driver": "d", "volumeHandle": "h"}
    assert for_create(RESOURCE, volume, N)["spec"]["csi"] == plain
    assert for_create(RESOURCE, volume, N, ("CSINodeExpandSecret",))["spec"]["csi"] != plain
    assert for_update(RESOURCE, volume, volume, N)["spec"]["csi"] != plain


def test_table_of_persistent_volumes_names_claim_and_class():
    volume = made(hostPath={"path": "/a"}, claimRef={"namespace": "n", "name": "c"}, storageClassName="s")
    assert cells(RESOURCE, volume, 0, N)[:8] == ["v", "1Gi", "RWO", "Retain", "Pending", "n/c", "s", ""]
    leaving = {**volume, "metadata": {"name": "v", "deletionTimestamp": "2020-01-01T00:00:00Z"}}
    assert cells(RESOURCE, leaving, 0, N)[4] == "Terminating"


def test_persistent_volume_warns_of_replaced_node_labels():
    old = "beta.kubernetes.io/arch"
    term = {"matchExpressions": [{"key": old, "operator": "Exists"}]}
    volume = made(hostPath={"path": "/a"}, nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
    warn = RESOURCE.behavior.client_warnings
    assert warn is not None
    assert list(warn(volume, None, N)) == [
        f"spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: {old} is deprecated "
        'since v1.14; use "kubernetes.io/arch" instead'
    ]
