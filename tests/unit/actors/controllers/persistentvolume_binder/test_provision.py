"""The steps that provision a volume: what is refused, and what each refusal leaves behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.controllers.persistentvolume_binder.actions import Begin, Seen
from actors.controllers.persistentvolume_binder.provision import begin, provision_here, provision_outside
from actors.controllers.shared.steps import Create, Event, Get, Update
from sim.api.store import Item
from sim.api.types import Obj, Reply
from tests.unit.actors.controllers.persistentvolume_binder.test_binding import (
    AWAY,
    Any_,
    N,
    claim,
    drive,
    refusing,
    seen,
    stored,
)

PREFIX = N.volume_plugin_prefix


def storage_class(provisioner: str, **more: Any) -> Obj:
    return {"metadata": {"name": "fast"}, "provisioner": provisioner, "reclaimPolicy": "Delete", **more}


HERE = storage_class(f"{PREFIX}host-path")


def events(actions: list[Any_]) -> list[tuple[str, str]]:
    return [(action.reason, action.message) for action in actions if isinstance(action, Event)]


def failure(obj: Obj, given: Obj, view: Seen) -> str:
    """The error of a claim for which no volume is made, which its event shows too."""
    actions, error = drive(provision_here(obj, given, view))
    assert error is not None and events(actions) == [("ProvisioningFailed", error)]
    assert not [action for action in actions if isinstance(action, Create)]
    return error


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, f'storageclass.{N.group("storage")} "fast" not found'),
        (storage_class(f"{PREFIX}nfs"), "no provisionable volume plugin matched"),
        (storage_class(f"{PREFIX}tape"), f"no volume plugin matched name: {PREFIX}tape"),
    ],
)
def test_claim_without_a_provisioner_that_can_begin_gets_an_event(given: Obj | None, text: str) -> None:
    view = seen(storage_class=given)
    assert drive(begin(claim(), "fast", view)) == (
        [Event(claim(), "Warning", "ProvisioningFailed", text)],
        None,
    )


def test_nothing_begins_while_dynamic_provisioning_is_disabled() -> None:
    view = seen(storage_class=HERE)
    off = view._replace(options=replace(view.options, enable_dynamic_provisioning=False))
    assert drive(begin(claim(), "fast", off)) == ([], None)


@pytest.mark.parametrize(
    ("provisioner", "follows"),
    [(f"{PREFIX}host-path", Get), (f"{PREFIX}aws-ebs", Event), ("disk.example.com", Event)],
)
def test_operation_provisions_here_only_for_paths_of_hosts(provisioner: str, follows: type) -> None:
    view = seen(storage_class=storage_class(provisioner))
    (operation,), _ = drive(begin(claim(), "fast", view))
    assert isinstance(operation, Begin) and operation.name == "provision-default/c[uc]"
    actions, _ = drive(operation.steps())
    assert next(type(action) for action in actions if not isinstance(action, Update)) is follows


def test_outside_provisioner_is_named_by_the_driver_that_its_plugin_moved_to() -> None:
    given = storage_class(f"{PREFIX}aws-ebs")
    actions, error = drive(provision_outside(claim(), given, seen()))
    write, event = actions
    assert isinstance(write, Update) and isinstance(event, Event) and error is None
    marks = write.obj["metadata"]["annotations"]
    driver = marks[N.annotation_storage_provisioner]
    assert driver != given["provisioner"] and f'external provisioner "{driver}"' in event.message
    (again,), _ = drive(provision_outside(write.obj, given, seen()))
    assert isinstance(again, Event)  # the claim names it already
    assert drive(provision_outside(claim(), given, seen()), refusing(0))[1] == "away"


def test_claim_with_a_data_source_is_not_provisioned_here() -> None:
    assert "Only CSI plugin can provision" in failure(claim(dataSource={"name": "s"}), HERE, seen())


def test_disabled_plugin_mount_options_and_missing_node_refuse() -> None:
    view = seen()
    off = view._replace(options=replace(view.options, enable_hostpath_provisioner=False))
    assert failure(claim(), HERE, off).endswith("is disabled")
    mounts = {**HERE, "mountOptions": ["ro", "soft"]}
    assert failure(claim(), mounts, view).endswith("has mount options [ro soft]")
    chosen = claim(marks={N.annotation_selected_node: "n"})
    assert failure(chosen, HERE, view) == 'Failed to get target node: node "n" not found'


def test_block_volume_is_refused_and_the_scheduler_chooses_again() -> None:
    view = seen()._replace(node_of=lambda name: {"metadata": {"name": name}})
    chosen = claim(marks={N.annotation_selected_node: "n"}, volumeMode="Block")
    actions, error = drive(provision_here(chosen, HERE, view))
    assert error is not None and error.endswith("does not support block volume provisioning")
    written = [action.obj["metadata"]["annotations"] for action in actions if isinstance(action, Update)]
    assert N.annotation_selected_node in written[0] and N.annotation_selected_node not in written[-1]
    unscheduled, _ = drive(provision_here(claim(volumeMode="Block"), HERE, view))
    assert [type(action) for action in unscheduled] == [Update, Get, Event]


def test_volume_that_exists_is_not_made_again_and_an_unknown_one_not_either() -> None:
    there = Reply(200, item=Item("k", {}, 1, 1))
    for reply, error in ((there, None), (AWAY, "away")):
        actions, found = drive(
            provision_here(claim(), HERE, seen()), lambda a, r=reply: r if isinstance(a, Get) else stored(a)
        )
        assert isinstance(actions[-1], Get) and found == error


@pytest.mark.parametrize("honors", [True, False])
def test_new_volume_has_a_path_of_its_own_and_its_finalizer(honors: bool) -> None:
    actions, error = drive(provision_here(claim(), HERE, seen(honors=honors)))
    made = next(action.obj for action in actions if isinstance(action, Create))
    assert made["spec"]["hostPath"] == {"path": "/tmp/hostpath_pv/uid"} and error is None
    assert (N.finalizer_volume_data in (made["metadata"].get("finalizers") or ())) is honors
    text = f"Successfully provisioned volume pvc-uc using {PREFIX}host-path"
    assert events(actions) == [("ProvisioningSucceeded", text)]
