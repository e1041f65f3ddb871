"""Accessors and path copies."""

from sim.api import objects as o
from sim.ident import NAMES

POD = {
    "metadata": {
        "name": "a",
        "namespace": "ns",
        "uid": "u",
        "labels": {"app": "x"},
        "ownerReferences": [{"uid": "w"}, {"uid": "c", "controller": True}],
    },
    "spec": {"nodeName": "n1", "containers": []},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "t0"}],
    },
}


def test_accessors_read_what_is_there_and_nothing_where_it_is_missing():
    assert (o.key_of(POD), o.uid_of(POD), o.labels_of(POD)) == ("ns/a", "u", {"app": "x"})
    assert o.key_of({"metadata": {"name": "n1"}}) == "n1"
    assert (o.name_of({}), o.labels_of({})) == ("", {})
    assert not o.is_deleting(POD) and o.is_deleting({"metadata": {"deletionTimestamp": "t"}})
    assert o.split_key("ns/a") == ("ns", "a") and o.split_key("n1") == ("", "n1")
    controller = o.controller_of(POD)
    assert controller is not None and controller["uid"] == "c"
    assert o.controller_of({"metadata": {"ownerReferences": [{"uid": "w"}]}}) is None


def test_a_path_copy_shares_what_it_does_not_touch():
    new = o.replace_in(POD, ("spec", "nodeName"), "n2")
    assert new["spec"]["nodeName"] == "n2" and POD["spec"]["nodeName"] == "n1"
    assert new["metadata"] is POD["metadata"] and new["spec"]["containers"] is POD["spec"]["containers"]
    assert o.replace_in({}, ("a", "b"), 1) == {"a": {"b": 1}}


def test_a_change_that_changes_nothing_returns_the_object():
    assert o.replace_in(POD, ("spec", "nodeName"), POD["spec"]["nodeName"]) is POD
    assert o.remove_in(POD, ("spec", "missing")) is POD
    assert o.with_condition(POD, {"type": "Ready", "status": "True", "lastTransitionTime": "t9"}) is POD


def test_removing_leaves_the_rest():
    assert o.remove_in(POD, ("spec", "nodeName"))["spec"] == {"containers": []}


def test_a_condition_keeps_its_transition_time_until_its_status_changes():
    same = o.with_condition(
        POD, {"type": "Ready", "status": "True", "reason": "r", "lastTransitionTime": "t1"}
    )
    assert same["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "reason": "r", "lastTransitionTime": "t0"}
    ]
    changed = o.with_condition(POD, {"type": "Ready", "status": "False", "lastTransitionTime": "t1"})
    assert o.condition_of(changed, "Ready") == {
        "type": "Ready",
        "status": "False",
        "lastTransitionTime": "t1",
    }
    added = o.with_condition(POD, {"type": "New", "status": "True"})
    assert [c["type"] for c in added["status"]["conditions"]] == ["Ready", "New"]


def test_an_active_pod_neither_ended_nor_is_leaving():
    assert o.is_active(POD) and o.is_ready(POD)
    assert not o.is_active(o.replace_in(POD, ("status", "phase"), "Failed"))
    assert not o.is_active(o.replace_in(POD, ("metadata", "deletionTimestamp"), "t"))
    assert not o.is_ready({})


def test_the_beta_labels_of_a_zone_win_also_where_they_are_empty():
    names = NAMES["orch"]
    labels = {names.label_region: "r", names.label_zone: "z"}
    assert o.zone_key({}, names) == ""
    assert o.zone_key({**labels, names.label_beta_zone: "y"}, names) == "r:\0:y"
    assert o.zone_key({**labels, names.label_beta_zone: ""}, names) == "r:\0:"
