"""Which volume a claim gets, and how a volume is reserved for it."""

import pytest

from sim.api.kinds.common.volumes.binding import (
    RESIZE_PENDING,
    RESIZING,
    class_of,
    delays_binding,
    find_matching_volume,
    foreign_claim_problem,
    is_bound_to,
    is_fully_bound,
    reaches,
    reserved_for,
    resize_conditions,
)
from sim.ident import NAMES

N = NAMES["orch"]


def claim(size="1Gi", name="c", **spec):
    requests = {"requests": {"storage": size}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": requests, **spec}
    return {
        "metadata": {"namespace": "d", "name": name, "uid": f"u-{name}", "resourceVersion": "7"},
        "spec": spec,
    }


def volume(name="v", size="1Gi", phase="Available", labels=None, **spec):
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **spec}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": {"phase": phase}}


def on(key, *values):
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    return {"required": {"nodeSelectorTerms": terms}}


def reference(name="c", uid=""):
    return {"namespace": "d", "name": name, "uid": uid}


@pytest.mark.parametrize(
    ("volumes", "found"),
    [
        ([volume("big", "3Gi"), volume("fits", "2Gi"), volume("small", "500Mi")], "fits"),
        ([volume("b"), volume("a")], "a"),
        ([volume(phase="Released")], None),
        ([volume(storageClassName="fast")], None),
        ([volume(volumeMode="Block")], None),
        ([volume("taken", claimRef=reference("other"))], None),
        ([volume("a"), volume("mine", "9Gi", "Pending", claimRef=reference())], "mine"),
        ([volume("others", claimRef=reference(uid="u-old"))], None),
        ([volume(labels={"tier": "slow"}), volume("quick", labels={"tier": "quick"})], "quick"),
    ],
)
def test_claim_gets_its_volume_or_the_smallest_suitable_one(volumes, found):
    wanted = claim(selector={"matchLabels": {"tier": "quick"}}) if found == "quick" else claim()
    chosen = find_matching_volume(wanted, volumes, N)
    assert (chosen and chosen["metadata"]["name"]) == found


def test_node_decides_which_volume_suits_a_waiting_claim():
    volumes = [volume("a", nodeAffinity=on("zone", "a")), volume("b", nodeAffinity=on("zone", "b"))]
    assert find_matching_volume(claim(), volumes, N, labels={"zone": "b"})["metadata"]["name"] == "b"
    assert find_matching_volume(claim(), volumes, N, labels={"zone": "c"}) is None
    assert find_matching_volume(claim(), volumes, N, labels={"zone": "b"}, chosen={"b": None}) is None
    assert find_matching_volume(claim(), volumes, N, delays=True) is None
    # Access modes count only for a node: without one the controller has an index of them.
    shared = claim(accessModes=["ReadWriteMany"])
    assert find_matching_volume(shared, volumes, N, labels={"zone": "a"}) is None
    # A volume that a user reserved is the only choice, even if the node cannot use it.
    mine = volume("mine", claimRef=reference(), nodeAffinity=on("zone", "a"))
    assert find_matching_volume(claim(), [mine, *volumes], N, labels={"zone": "b"}) is None


def test_volume_affinity_matches_labels_and_never_fields():
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    named = volume(nodeAffinity={"required": {"nodeSelectorTerms": [field, {}]}})
    assert not reaches(named, {"metadata.name": "n"})
    assert reaches(volume(), {})


def test_reservation_of_a_volume_marks_only_what_the_controller_chose():
    marked = reserved_for(volume(), claim(), N)
    assert marked["spec"]["claimRef"]["uid"] == "u-c"
    assert marked["metadata"]["annotations"] == {N.annotation_bound_by_controller: "yes"}
    assert reserved_for(marked, claim(), N) is marked
    by_user = reserved_for(volume(claimRef=reference()), claim(), N)
    assert by_user["spec"]["claimRef"]["uid"] == "u-c" and "annotations" not in by_user["metadata"]
    assert is_bound_to(by_user, claim()) and not is_bound_to(
        by_user, {**claim(), "metadata": {**claim()["metadata"], "uid": "x"}}
    )


def test_claim_states_are_read_from_its_annotations_and_owner():
    bound = claim(volumeName="v")
    assert not is_fully_bound(bound, N)
    bound["metadata"]["annotations"] = {
        N.annotation_bind_completed: "yes",
        N.annotation_beta_storage_class: "old",
    }
    assert is_fully_bound(bound, N) and class_of(bound, N) == "old"
    assert not delays_binding(None) and delays_binding({"volumeBindingMode": "WaitForFirstConsumer"})
    pod = {"metadata": {"namespace": "d", "name": "p", "uid": "u-p"}}
    text = "PVC d/c was not created for pod d/p (pod is not owner)"
    assert foreign_claim_problem(pod, claim()) == text


def test_conditions_of_an_expansion_replace_each_other_and_leave_the_others() -> None:
    other = {"type": "Other", "status": "True"}
    old = {"conditions": [other, {"type": RESIZING, "status": "True", "lastTransitionTime": "before"}]}
    assert resize_conditions(old, RESIZING, now="now") == old["conditions"]
    (kept, new) = resize_conditions(old, RESIZE_PENDING, "wait", "now")
    assert kept == other
    assert (new["type"], new["message"], new["lastTransitionTime"]) == (RESIZE_PENDING, "wait", "now")
    assert resize_conditions(old, "") == [other]
