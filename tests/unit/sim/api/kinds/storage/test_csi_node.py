"""Validation and tables of CSINodes."""

from __future__ import annotations

from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.tables import cells
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api, whole

N = NAMES["kubernetes"]
RESOURCE = Scheme(N).resource("csinodes")


def made(*drivers: Obj) -> Obj:
    given = {"metadata": {"name": "n", "resourceVersion": "1"}, "spec": {"drivers": list(drivers)}}
    return apply_defaults(RESOURCE, given)


def fields(obj: Obj) -> list[str]:
    return [error.field for error in validate_create(RESOURCE, obj)]


def test_lists_of_csi_node_are_always_written():
    assert apply_defaults(RESOURCE, {"metadata": {"name": "n"}})["spec"] == {"drivers": None}
    assert made({"name": "d", "nodeID": "i"})["spec"]["drivers"][0]["topologyKeys"] is None


def test_csi_node_drivers_have_names_ids_and_distinct_keys():
    keys = {"name": "d", "nodeID": "i", "topologyKeys": ["a", "a"]}
    assert fields(made(keys, {"name": "d", "nodeID": "i"})) == ["spec.drivers[0]", "spec.drivers[1].name"]
    assert fields(made({"name": "d"})) == ["spec.drivers[0].nodeID"]
    limit = {"name": "d", "nodeID": "i", "allocatable": {"count": -1}}
    assert fields(made(limit)) == ["spec.drivers[0].allocatable.count"]


def test_csi_node_id_has_at_most_256_bytes():
    assert fields(made({"name": "d", "nodeID": "i" * 256})) == []
    assert fields(made({"name": "d", "nodeID": "i" * 257})) == ["spec.drivers[0].nodeID"]


def test_csi_node_driver_is_replaced_but_not_changed():
    before = made({"name": "d", "nodeID": "i"})
    (error,) = validate_update(RESOURCE, made({"name": "d", "nodeID": "j"}), before)
    assert error.field == "CSINodeDriver"
    assert error.message == (
        'Invalid value: storage.CSINodeDriver{Name:"d", NodeID:"j", TopologyKeys:[]string(nil), '
        "Allocatable:(*storage.VolumeNodeResources)(nil)}: field is immutable"
    )
    assert validate_update(RESOURCE, made({"name": "e", "nodeID": "j"}), before) == []


def test_table_of_csi_node_counts_drivers():
    assert cells(RESOURCE, made({"name": "d", "nodeID": "i"}), 0, N)[:2] == ["n", 1]


def test_creator_of_csi_node_owns_drivers_but_not_their_list():
    drivers = [{"name": "d", "nodeID": "i", "topologyKeys": ["k"]}]
    body = {"metadata": {"name": "n"}, "spec": {"drivers": drivers}}
    reply = Api().ask("POST", "/apis/storage.k8s.io/v1/csinodes", body)
    (entry,) = whole(reply)["metadata"]["managedFields"]
    owned = {".": {}, "f:name": {}, "f:nodeID": {}, "f:topologyKeys": {}}
    assert entry["fieldsV1"] == {"f:spec": {"f:drivers": {'k:{"name":"d"}': owned}}}
