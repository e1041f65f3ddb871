"""The steps of the syncs of claims and volumes, and of the operations that they begin."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from actors.controllers.persistentvolume_binder.actions import Begin, QueueClaim, Seen, Steps
from actors.controllers.persistentvolume_binder.binding import Binding
from actors.controllers.persistentvolume_binder.provision import CREATE_TRIES, provision_here
from actors.controllers.persistentvolume_binder.reclaim import delete, recycle
from actors.controllers.shared.steps import (
    Action,
    Answer,
    Create,
    Delete,
    Event,
    Get,
    Sleep,
    SyncFailed,
    Update,
)
from sim.api.status import status
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.ident import NAMES
from sim.options.controllers.manager import ControllerManagerOptions

N = NAMES["orch"]
AWAY = Reply(503, body=status(503, "ServiceUnavailable", "away"))
MISSING = Reply(404, body=status(404, "NotFound", "missing"))
REFERENCE = {"namespace": "default", "name": "c", "uid": "uc"}
Any_ = Action | Begin | QueueClaim


def claim(volume: str = "", marks: Obj | None = None, **more: Any) -> Obj:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
        "volumeName": volume,
        **more,
    }
    meta = {
        "name": "c",
        "namespace": "default",
        "uid": "uc",
        "resourceVersion": "1",
        "annotations": marks or {},
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def volume(name: str = "v", phase: str = "Available", marks: Obj | None = None, **more: Any) -> Obj:
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "", **more}
    meta = {"name": name, "uid": f"u{name}", "annotations": marks or {}}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def seen(*objects: Obj, storage_class: Obj | None = None, honors: bool = False) -> Seen:
    claims = {f"default/{one['metadata']['name']}": one for one in objects if "namespace" in one["metadata"]}
    volumes = {one["metadata"]["name"]: one for one in objects if "namespace" not in one["metadata"]}
    options = ControllerManagerOptions(enable_hostpath_provisioner=True)
    return Seen(
        N,
        options,
        True,
        honors,
        claims.get,
        volumes.get,
        lambda _: storage_class,
        lambda _: None,
        volumes.values,
        lambda: (),
        lambda _: (),
        lambda: "uid",
    )


def stored(action: Any_) -> Reply:
    """Every write is stored unchanged, and nothing else exists."""
    if isinstance(action, Create | Update):
        return Reply(200, item=Item("k", action.obj, 1, 1))
    return MISSING if isinstance(action, Get) else Reply(200)


def drive(steps: Steps[None], answer: Callable[[Any_], Reply] = stored) -> tuple[list[Any_], str | None]:
    """All actions with the answers of a function, and the error text."""
    actions: list[Any_] = []
    generator: Generator[Any_, Answer, None] = steps
    try:
        action = next(generator)
        while True:
            actions.append(action)
            action = generator.send(Answer(answer(action), 0))
    except StopIteration:
        return actions, None
    except SyncFailed as failure:
        return actions, str(failure)


def refusing(index: int) -> Callable[[Any_], Reply]:
    """Refuses the write of this number."""
    count = iter(range(100))
    return lambda action: AWAY if isinstance(action, Update) and next(count) == index else stored(action)


def writes(actions: list[Any_]) -> list[tuple[str, str]]:
    return [(action.resource, action.subresource) for action in actions if isinstance(action, Update)]


BINDING = [
    ("persistentvolumes", ""),
    ("persistentvolumes", "status"),
    ("persistentvolumeclaims", ""),
    ("persistentvolumeclaims", "status"),
]


def test_binding_is_four_writes_in_order() -> None:
    actions, error = drive(Binding(seen(volume())).sync_claim(claim()))
    assert writes(actions) == BINDING and error is None
    assert isinstance(actions[-1], Update) and actions[-1].obj["status"]["phase"] == "Bound"


@pytest.mark.parametrize("refused", range(4))
def test_refused_write_ends_the_binding_with_its_error(refused: int) -> None:
    actions, error = drive(Binding(seen(volume())).sync_claim(claim()), refusing(refused))
    assert writes(actions) == BINDING[: refused + 1] and error == "away"


def test_claim_without_volume_and_class_stays_pending_with_an_event() -> None:
    actions, error = drive(Binding(seen()).sync_claim(claim()))
    assert [action.reason for action in actions if isinstance(action, Event)] == ["FailedBinding"]
    assert writes(actions) == [] and error is None


def test_bound_claim_is_lost_with_its_volume() -> None:
    bound = claim("v", {N.annotation_bind_completed: "yes"})
    write, event = drive(Binding(seen()).sync_claim(bound))[0]
    assert isinstance(write, Update) and write.obj["status"]["phase"] == "Lost"
    assert isinstance(event, Event) and event.reason == "ClaimLost"
    actions, error = drive(Binding(seen()).sync_claim(bound), refusing(0))
    assert len(actions) == 1 and error == "away"  # no event about what is not written


def test_claim_of_a_taken_volume_fails_only_if_the_controller_has_bound_it() -> None:
    taken = volume(claimRef={"namespace": "default", "name": "other", "uid": "o"})
    actions, error = drive(Binding(seen(taken)).sync_claim(claim("v")))
    assert error is None and [type(action) for action in actions] == [Event]
    by_controller = claim("v", {N.annotation_bound_by_controller: "yes"})
    text = 'invalid binding of claim "default/c" to volume "v": volume already claimed by "default/other"'
    assert drive(Binding(seen(taken)).sync_claim(by_controller))[1] == text


def test_volume_of_an_ended_claim_is_released_and_reclaimed() -> None:
    bound = volume(phase="Bound", claimRef=REFERENCE, persistentVolumeReclaimPolicy="Delete")
    look, write, begin = drive(Binding(seen(bound)).sync_volume(bound))[0]
    assert look == Get("persistentvolumeclaims", "default", "c")
    assert isinstance(write, Update) and write.obj["status"]["phase"] == "Released"
    assert isinstance(begin, Begin) and begin.name == "delete-v[uv]"
    actions, error = drive(Binding(seen(bound)).sync_volume(bound), lambda _: AWAY)
    assert actions == [look] and error == "away"  # the claim may still exist


def test_volume_of_an_unbound_claim_queues_the_claim() -> None:
    reserved = volume(claimRef=REFERENCE)
    assert drive(Binding(seen(reserved, claim())).sync_volume(reserved))[0] == [QueueClaim("default/c")]


def test_volume_of_a_claim_with_another_volume_is_unbound() -> None:
    reserved = volume(phase="Bound", claimRef=REFERENCE)
    actions, _ = drive(Binding(seen(reserved, claim("w"))).sync_volume(reserved))
    assert writes(actions) == BINDING[:2]
    assert isinstance(actions[0], Update) and "uid" not in actions[0].obj["spec"]["claimRef"]


def test_claim_of_a_class_begins_to_provision_and_writes_nothing() -> None:
    outside = {"metadata": {"name": "fast"}, "provisioner": "disk.example.com"}
    actions, _ = drive(Binding(seen(storage_class=outside)).sync_claim(claim(storageClassName="fast")))
    assert [action.name for action in actions if isinstance(action, Begin)] == ["provision-default/c[uc]"]
    assert writes(actions) == []


def test_create_of_a_provisioned_volume_is_tried_five_times() -> None:
    here = {
        "metadata": {"name": "fast"},
        "provisioner": f"{N.volume_plugin_prefix}host-path",
        "reclaimPolicy": "Delete",
    }
    view = seen(storage_class=here)
    actions, error = drive(
        provision_here(claim(storageClassName="fast"), here, view),
        lambda action: AWAY if isinstance(action, Create) else stored(action),
    )
    assert sum(isinstance(action, Create) for action in actions) == CREATE_TRIES
    assert sum(isinstance(action, Sleep) for action in actions) == CREATE_TRIES
    last = actions[-1]
    assert isinstance(last, Event) and last.reason == "ProvisioningFailed" and error is None


def live(obj: Obj) -> Callable[[Any_], Reply]:
    """The API server has this volume."""
    found = Reply(200, item=Item("k", obj, 1, 1))
    return lambda action: found if isinstance(action, Get) else stored(action)


def test_released_volume_in_tmp_is_deleted_and_another_one_fails() -> None:
    gone = volume(phase="Released", claimRef=REFERENCE, hostPath={"path": "/tmp/hostpath_pv/x"})
    assert drive(delete(gone, seen(gone)), live(gone))[0][-1] == Delete("persistentvolumes", "", "v")
    kept = volume(phase="Released", claimRef=REFERENCE, hostPath={"path": "/srv"})
    actions, error = drive(delete(kept, seen(kept)), live(kept))
    assert error == "host_path deleter only supports /tmp/.+ but received provided /srv"
    assert [action.reason for action in actions if isinstance(action, Event)] == ["VolumeFailedDelete"]
    assert not [action for action in actions if isinstance(action, Delete)]


def test_operation_ends_if_the_volume_is_bound_again() -> None:
    again = volume(phase="Released", claimRef=REFERENCE, hostPath={"path": "/tmp/hostpath_pv/x"})
    view = seen(again, claim())
    for steps in (delete(again, view), recycle(again, view)):
        assert drive(steps, live(again)) == ([Get("persistentvolumes", "", "v")], None)


def test_volume_that_is_being_deleted_is_touched_only_to_take_its_finalizer() -> None:
    gone = volume(phase="Released", claimRef=REFERENCE, hostPath={"path": "/tmp/hostpath_pv/x"})
    gone["metadata"] |= {"deletionTimestamp": "t", "finalizers": [N.finalizer_volume_data]}
    assert [type(action) for action in drive(delete(gone, seen(gone)), live(gone))[0]] == [Get]
    actions, _ = drive(delete(gone, seen(gone, honors=True)), live(gone))
    assert [type(action) for action in actions] == [Get, Get, Update, Delete]


def test_recycling_waits_for_its_pod_and_unbinds_the_volume() -> None:
    gone = volume(phase="Released", claimRef=REFERENCE, hostPath={"path": "/tmp/hostpath_pv/x"})
    ended = Reply(200, item=Item("k", {"status": {"phase": "Succeeded"}}, 1, 1))

    def answer(action: Any_) -> Reply:
        if isinstance(action, Get):
            return ended if action.resource == "pods" else live(gone)(action)
        return stored(action)

    actions, error = drive(recycle(gone, seen(gone)), answer)
    kinds = [type(action) for action in actions]
    assert kinds == [Get, Create, Sleep, Get, Delete, Event, Update, Update] and error is None
    unbound = actions[-1]
    assert isinstance(unbound, Update) and unbound.obj["status"]["phase"] == "Available"


# --- claims that wait -----------------------------------------------------------------------------


def waiting_for(*pods: Obj) -> tuple[str, str]:
    """Reason and message of the event about a claim of a class that delays, with these pods."""
    later: Obj = {
        "metadata": {"name": "late"},
        "provisioner": "x",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    view = seen(storage_class=later)._replace(pods_of=lambda _: pods)
    event, *rest = drive(Binding(view).sync_claim(claim(storageClassName="late")))[0]
    assert isinstance(event, Event) and rest == []
    return event.reason, event.message


def user(name: str, phase: str = "Pending", node: str = "") -> Obj:
    return {"metadata": {"name": name}, "spec": {"nodeName": node}, "status": {"phase": phase}}


def test_delayed_claim_names_the_pods_that_it_waits_for() -> None:
    first = "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
    assert waiting_for() == waiting_for(user("a", "Succeeded"), user("b", node="n")) == first
    assert waiting_for(user("a"))[1] == "waiting for pod a to be scheduled"
    assert waiting_for(user("a"), user("b")) == (
        "WaitForPodScheduled",
        "waiting for pods a,b to be scheduled",
    )


def test_claim_without_a_class_gets_the_only_default_one() -> None:
    marked = {"metadata": {"name": "fast", "annotations": {N.annotation_default_storage_class: "true"}}}
    outside = {"metadata": {"name": "fast"}, "provisioner": "disk.example.com"}
    bare = claim(storageClassName="")
    for classes, names in (((marked,), ["fast"]), ((marked, marked), [])):
        view = seen(storage_class=outside)._replace(classes=lambda given=classes: given)
        actions, _ = drive(Binding(view).sync_claim(bare))
        written = [a.obj["spec"]["storageClassName"] for a in actions if isinstance(a, Update)]
        assert written == names
    view = seen(storage_class=outside)._replace(classes=lambda: (marked,))
    text = 'can\'t update PersistentVolumeClaim["default/c"]: away'
    assert drive(Binding(view).sync_claim(bare), refusing(0))[1] == text


def test_claim_that_names_its_volume_waits_for_a_fitting_one() -> None:
    assert drive(Binding(seen()).sync_claim(claim("v"))) == ([], None)
    small = volume(capacity={"storage": "1Mi"})
    (event,), _ = drive(Binding(seen(small)).sync_claim(claim("v")))
    assert isinstance(event, Event) and event.reason == "VolumeMismatch"
    for fitting in (volume(), volume(claimRef=REFERENCE)):
        written = writes(drive(Binding(seen(fitting)).sync_claim(claim("v")))[0])
        assert written[-2:] == BINDING[2:]


def test_bound_claim_is_checked_against_its_volume() -> None:
    bound = claim("v", {N.annotation_bind_completed: "yes"})
    other = volume(claimRef={**REFERENCE, "uid": "other"})
    _, event = drive(Binding(seen(other)).sync_claim(bound))[0]
    assert isinstance(event, Event) and event.reason == "ClaimMisbound"
    lost = {**bound, "status": {"phase": "Lost"}}
    assert drive(Binding(seen()).sync_claim(lost)) == ([], None)
    without = claim("", {N.annotation_bind_completed: "yes"})
    _, event = drive(Binding(seen()).sync_claim(without))[0]
    assert isinstance(event, Event) and "lost reference" in event.message
    assert writes(drive(Binding(seen(volume())).sync_claim(bound))[0])[0] == BINDING[0]


# --- volumes --------------------------------------------------------------------------------------


def test_volume_without_a_claim_is_available() -> None:
    new = volume(phase="Pending")
    (write,), _ = drive(Binding(seen(new)).sync_volume(new))
    assert isinstance(write, Update) and write.obj["status"]["phase"] == "Available"


def test_volume_of_another_mode_than_its_claim_warns_both() -> None:
    block = volume(claimRef=REFERENCE, volumeMode="Block")
    actions, _ = drive(Binding(seen(block, claim())).sync_volume(block))
    assert [action.obj["metadata"]["name"] for action in actions if isinstance(action, Event)] == ["v", "c"]


def test_volume_of_its_claim_is_bound_and_a_provisioned_one_of_another_released() -> None:
    reserved = volume(claimRef=REFERENCE)
    (write,), _ = drive(Binding(seen(reserved, claim("v"))).sync_volume(reserved))
    assert isinstance(write, Update) and write.obj["status"]["phase"] == "Bound"
    made = volume(
        marks={N.annotation_provisioned_by: "x"}, claimRef=REFERENCE, persistentVolumeReclaimPolicy="Delete"
    )
    write, begin = drive(Binding(seen(made, claim("w"))).sync_volume(made))[0]
    assert isinstance(write, Update) and write.obj["status"]["phase"] == "Released"
    assert isinstance(begin, Begin)


def test_volume_gets_its_migration_and_finalizer_before_anything_else() -> None:
    old = volume(marks={N.annotation_provisioned_by: f"{N.volume_plugin_prefix}aws-ebs"}, claimRef=REFERENCE)
    released = {**old, "status": {"phase": "Released"}}
    actions, _ = drive(Binding(seen(released)).sync_volume(released))
    (write,) = actions  # a migrated volume is reclaimed by its driver
    assert isinstance(write, Update) and N.annotation_migrated_to in write.obj["metadata"]["annotations"]
    assert drive(Binding(seen(old)).sync_volume(old), refusing(0))[1] == "away"
    moved = claim("v", {N.annotation_storage_provisioner: f"{N.volume_plugin_prefix}aws-ebs"})
    (write,) = drive(Binding(seen()).sync_claim(moved))[0]
    assert isinstance(write, Update) and N.annotation_migrated_to in write.obj["metadata"]["annotations"]
    here = volume(
        phase="Released",
        marks={N.annotation_provisioned_by: f"{N.volume_plugin_prefix}host-path"},
        hostPath={"path": "/data"},
        claimRef=REFERENCE,
        persistentVolumeReclaimPolicy="Delete",
    )
    first = drive(Binding(seen(here, honors=True)).sync_volume(here))[0][0]
    assert isinstance(first, Update) and first.obj["metadata"]["finalizers"] == [N.finalizer_volume_data]


def test_volume_that_is_kept_is_only_released() -> None:
    kept = volume(phase="Failed", claimRef=REFERENCE, persistentVolumeReclaimPolicy="Retain")
    assert drive(Binding(seen(kept)).sync_volume(kept)) == ([], None)
