"""The steps that recycle and delete volumes: what follows each refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.controllers.persistentvolume_binder.reclaim import delete, recycle
from actors.controllers.shared.steps import Create, Delete, Event, Get, Update
from sim.api.status import status
from sim.api.store import Item
from sim.api.types import Obj, Reply
from tests.unit.actors.controllers.persistentvolume_binder.test_binding import (
    AWAY,
    MISSING,
    REFERENCE,
    Any_,
    N,
    drive,
    live,
    seen,
    stored,
    volume,
)

PREFIX = N.volume_plugin_prefix
PATH = {"path": "/tmp/hostpath_pv/x"}
GONE = volume(phase="Released", claimRef=REFERENCE, hostPath=PATH)
EXISTS = Reply(409, body=status(409, "AlreadyExists", "there"))


def ended(phase: str, message: str = "") -> Reply:
    return Reply(200, item=Item("k", {"status": {"phase": phase, "message": message}}, 1, 1))


def recycled(pod: Reply, create: Reply | None = None, removed: Reply | None = None) -> str:
    """The text of the failure of a volume, if its recycler gets these answers."""

    def answer(action: Any_) -> Reply:
        match action:
            case Get(resource="pods"):
                return pod
            case Create() if create is not None:
                return create
            case Delete() if removed is not None:
                return removed
            case Get():
                return live(GONE)(action)
            case _:
                return stored(action)

    actions, error = drive(recycle(GONE, seen(GONE)), answer)
    written, event = actions[-2:]
    assert error is None and isinstance(written, Update) and isinstance(event, Event)
    assert written.obj["status"] == {"phase": "Failed", "message": event.message}
    assert event.reason == "VolumeFailedRecycle"
    return event.message.removeprefix("Recycle failed: ")


@pytest.mark.parametrize(
    ("pod", "create", "removed", "text"),
    [
        (MISSING, None, None, "failed to recycle volume: recycler pod was deleted"),
        (ended("Failed", "no space"), None, None, "failed to recycle volume: no space"),
        (ended("Failed"), None, None, "failed to recycle volume: pod failed, pod.Status.Message unknown"),
        (ended("Succeeded"), None, AWAY, "failed to delete recycler pod: away"),
        (MISSING, AWAY, None, "unexpected error creating recycler pod:  away"),
        (MISSING, EXISTS, None, "old recycler pod found, will retry later"),
        (MISSING, EXISTS, AWAY, "failed to delete old recycler pod default/recycler-for-v: away"),
    ],
)
def test_failed_recycling_is_shown_by_status_and_event(
    pod: Reply, create: Reply | None, removed: Reply | None, text: str
) -> None:
    assert recycled(pod, create, removed) == text


def test_recycler_of_a_template_without_a_namespace_is_refused() -> None:
    share = volume(phase="Released", claimRef=REFERENCE, nfs={"server": "s", "path": "/"})
    template = {"metadata": {"name": "r"}, "spec": {"volumes": [{"name": "v"}]}}
    options = replace(seen().options, recycler_template_nfs=template)
    actions, _ = drive(recycle(share, seen(share)._replace(options=options)), live(share))
    event = actions[-1]
    assert isinstance(event, Event) and not [a for a in actions if isinstance(a, Create)]
    assert event.message.endswith("an empty namespace may not be set during creation")


def test_recycler_is_looked_at_until_it_ends() -> None:
    answers = iter([AWAY, ended("Running"), ended("Succeeded")])

    def answer(action: Any_) -> Reply:
        if isinstance(action, Get):
            return next(answers) if action.resource == "pods" else live(GONE)(action)
        return stored(action)

    actions, _ = drive(recycle(GONE, seen(GONE)), answer)
    assert sum(isinstance(action, Get) and action.resource == "pods" for action in actions) == 3


def test_volume_in_use_by_pods_of_a_gone_claim_is_not_recycled() -> None:
    user: Obj = {"metadata": {"namespace": "default", "name": "p"}, "status": {"phase": "Running"}}
    view = seen(GONE)._replace(pods_of=lambda _: [user])
    _, event = drive(recycle(GONE, view), live(GONE))[0]
    assert isinstance(event, Event) and event.message == "Volume is used by pods: default/p"


def test_volume_that_no_plugin_recycles_fails_and_one_that_failed_is_left() -> None:
    block = volume(phase="Released", claimRef=REFERENCE, local={})
    assert [type(action) for action in drive(recycle(block, seen(block)), live(block))[0]] == [
        Get,
        Update,
        Event,
    ]
    failed = {**block, "status": {"phase": "Failed"}}
    assert [type(action) for action in drive(recycle(failed, seen(failed)), live(failed))[0]] == [Get]


def test_unwritten_failure_has_no_event() -> None:
    block = volume(phase="Released", claimRef=REFERENCE, local={})
    actions, _ = drive(
        recycle(block, seen(block)), lambda a: AWAY if isinstance(a, Update) else live(block)(a)
    )
    assert [type(action) for action in actions] == [Get, Update]


def test_volume_that_is_gone_or_has_no_claim_is_not_reclaimed() -> None:
    for reply in (MISSING, Reply(200, item=Item("k", volume(), 1, 1))):
        for steps in (delete(GONE, seen(GONE)), recycle(GONE, seen(GONE))):
            assert drive(steps, lambda _, r=reply: r) == ([Get("persistentvolumes", "", "v")], None)


@pytest.mark.parametrize(
    ("provisioner", "source", "text"),
    [
        (f"{PREFIX}tape", {"hostPath": PATH}, f"no volume plugin matched name: {PREFIX}tape"),
        (
            f"{PREFIX}host-path",
            {},
            'failed to create deleter for volume "v": spec.PersistentVolumeSource.HostPath is nil',
        ),
        ("", {}, 'error getting deleter volume plugin for volume "v": no deletable volume plugin matched'),
    ],
)
def test_volume_that_cannot_be_deleted_fails_with_the_reason(
    provisioner: str, source: Obj, text: str
) -> None:
    marks = {N.annotation_provisioned_by: provisioner} if provisioner else {}
    one = volume(phase="Released", claimRef=REFERENCE, marks=marks, **source)
    actions, error = drive(delete(one, seen(one)), live(one))
    assert error == text and [type(action) for action in actions] == [Get, Update, Event]


def test_volume_of_a_driver_is_left_to_it() -> None:
    one = volume(
        phase="Released", claimRef=REFERENCE, marks={N.annotation_provisioned_by: "disk.example.com"}
    )
    assert [type(action) for action in drive(delete(one, seen(one)), live(one))[0]] == [Get]


def test_deleted_volume_loses_the_data_finalizer_and_no_other() -> None:
    held = {**GONE, "metadata": {**GONE["metadata"], "finalizers": ["mine", N.finalizer_volume_data]}}
    actions, _ = drive(delete(held, seen(held, honors=True)), live(held))
    assert [one.obj["metadata"]["finalizers"] for one in actions if isinstance(one, Update)] == [["mine"]]


def test_data_finalizer_that_cannot_be_taken_keeps_the_volume() -> None:
    held = {**GONE, "metadata": {**GONE["metadata"], "finalizers": [N.finalizer_volume_data]}}
    first = iter([True])

    def read_once(action: Any_) -> Reply:
        return live(held)(action) if not isinstance(action, Get) or next(first, False) else AWAY

    assert drive(delete(held, seen(held, honors=True)), read_once)[1] == "away"
    actions, error = drive(
        delete(held, seen(held, honors=True)), lambda a: AWAY if isinstance(a, Update) else live(held)(a)
    )
    assert error == "persistent volume controller can't update finalizer: away"
    assert not [action for action in actions if isinstance(action, Delete)]
