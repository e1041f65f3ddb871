"""Which claims and volumes keep their protection finalizer."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.shared.pods_by_claim import claim_keys
from actors.controllers.volume_protection import decide
from sim.api.types import Obj

F = "x/protection"


def obj(*finalizers: str, deleting: bool = False, **more: Any) -> Obj:
    metadata: Obj = {"name": "c", "namespace": "n", "finalizers": list(finalizers)}
    if deleting:
        metadata["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    return {"metadata": metadata, **more}


def pod(node: str = "n1", phase: str = "Running", **more: Any) -> Obj:
    metadata = {"name": "p", "namespace": "n", "uid": "u", **more.pop("metadata", {})}
    volumes = more.pop("volumes", [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}])
    return {
        "metadata": metadata,
        "spec": {"nodeName": node, "volumes": volumes},
        "status": {"phase": phase, **more},
    }


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (obj(F), False),
        (obj(), True),
        (obj(F, deleting=True), True),
        (obj(deleting=True), False),
    ],
)
def test_object_is_synced_to_gain_or_lose_its_finalizer(given: Obj, wanted: bool):
    assert decide.needs_sync(given, F) is wanted


def test_finalizer_is_added_last_and_removed_alone():
    assert decide.protected(obj("a"), F)["metadata"]["finalizers"] == ["a", F]
    assert decide.released(obj("a", F, "b"), F)["metadata"]["finalizers"] == ["a", "b"]


def test_volume_is_in_use_while_it_is_bound():
    assert decide.is_bound(obj(status={"phase": "Bound"}))
    assert not decide.is_bound(obj(status={"phase": "Released"}))


def test_claim_is_used_by_pods_that_are_bound_to_a_node():
    assert decide.is_used(obj(F), [pod()])
    assert decide.is_used(obj(F), [pod(phase="Succeeded")])
    assert not decide.is_used(obj(F), [pod(node="")])
    assert not decide.is_used(obj(F), [pod(volumes=[])])


def test_claim_of_an_ephemeral_volume_is_used_by_its_own_pod_until_that_is_shut_down():
    claim = obj(F)
    owner = {"kind": "Pod", "name": "p", "uid": "u", "controller": True}
    claim["metadata"] |= {"name": "p-d", "ownerReferences": [owner]}
    volumes = [{"name": "d", "ephemeral": {}}]
    assert decide.is_used(claim, [pod(volumes=volumes)])
    other = pod(volumes=volumes, metadata={"uid": "v"})
    assert not decide.is_used(claim, [other])
    gone = {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    assert not decide.is_used(claim, [pod(volumes=volumes, metadata=gone)])


GOING = {"deletionTimestamp": "2020-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pod(), False),
        (pod(node=""), True),
        (pod(phase="Failed"), True),
        (pod(metadata=GOING, containerStatuses=[{"state": {"running": {}}}]), False),
        (pod(metadata=GOING, containerStatuses=[{"state": {"terminated": {}}}]), True),
        (pod(metadata=GOING), True),
    ],
)
def test_pod_that_runs_on_no_node_may_release_its_claims(given: Obj, wanted: bool):
    assert decide.may_release(given) is wanted


def test_claims_of_a_pod_are_named_by_its_volumes():
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "b", "ephemeral": {}},
        {"name": "d", "emptyDir": {}},
    ]
    assert claim_keys(pod(volumes=volumes)) == ("n/c", "n/p-b")
    assert claim_keys(pod(volumes=volumes[2:])) == ()


def test_finalizers_may_be_missing():
    bare = {"metadata": {"name": "c"}}
    assert decide.needs_sync(bare, F)
    assert decide.protected(bare, F)["metadata"]["finalizers"] == [F]
    assert decide.needs_sync({"metadata": {"name": "c", "finalizers": None}}, F)


ANOTHER = {"name": "e", "emptyDir": {}}
OWNER = {"kind": "Pod", "name": "p", "uid": "u", "controller": True}
EPHEMERAL = {"name": "d", "ephemeral": {}}
SHUT = {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


@pytest.mark.parametrize(
    ("name", "owners", "volumes", "meta", "wanted"),
    [
        ("c", [], [ANOTHER, {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}], {}, True),
        ("c", [], [{"name": "d", "persistentVolumeClaim": {"claimName": "other"}}], {}, False),
        ("c", [], None, {}, False),
        ("p-d", [OWNER], [ANOTHER, EPHEMERAL], {}, True),
        ("p-e", [OWNER], [ANOTHER, EPHEMERAL], {}, False),
        ("p-d", [], [EPHEMERAL], {}, False),
        ("p-d", [OWNER], [EPHEMERAL], SHUT, False),
        ("p-d", [OWNER], [EPHEMERAL], {**SHUT, "deletionGracePeriodSeconds": 1}, True),
        ("p-d", [OWNER], [EPHEMERAL], {"deletionGracePeriodSeconds": 0}, True),
        # one that is shut down uses a claim that it names all the same
        ("c", [], [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}], SHUT, True),
    ],
)
def test_a_claim_is_used_by_name_or_by_the_pod_that_owns_it(name, owners, volumes, meta, wanted):
    claim = obj(F)
    claim["metadata"] |= {"name": name, "ownerReferences": owners}
    found = pod(metadata=meta, volumes=volumes)
    assert decide.is_used(claim, [pod(volumes=[]), found]) is wanted
