"""The steps of a sync: which writes follow each other, and what follows a refused one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from actors.controllers.deployment.rollout import Seen, refuse, roll_out
from actors.controllers.shared.steps import (
    Action,
    Answer,
    Create,
    Delete,
    Event,
    Requeue,
    Steps,
    SyncFailed,
    Update,
)
from sim.api.status import status
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.ident import NAMES

N = NAMES["orch"]
REFERENCE = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}}
DAY_US = 86_400_000_000
Answers = Callable[[Action], Reply]


def deployment(**spec: object) -> Obj:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": TEMPLATE,
            "strategy": strategy,
            "progressDeadlineSeconds": 600,
            **spec,
        },
        "status": {},
    }


def accept(action: Action) -> Reply:
    """Every write is stored unchanged."""
    obj = action.obj if isinstance(action, Create | Update) else {}
    return Reply(code=200, item=Item("k", obj, 1, 1))


def refuse_with(code: int, reason: str, message: str) -> Reply:
    return Reply(code=code, body=status(code, reason, message))


def drive(steps: Steps[bool], answer: Answers = accept) -> tuple[list[Action], bool]:
    """All actions of a sync, with the answers of a function, and its result."""
    actions = []
    try:
        action = next(steps)
        while True:
            actions.append(action)
            action = steps.send(Answer(answer(action), DAY_US))
    except StopIteration as end:
        return actions, end.value


def seen(sets: Sequence[Obj] = (), pods: Sequence[Obj] = ()) -> Seen:
    by_key = {f"default/{rs['metadata']['name']}": rs for rs in sets}
    return Seen(N, REFERENCE, by_key.get, lambda uid: pods, DAY_US)


def stored_set(d: Obj) -> Obj:
    """The ReplicaSet that a first sync creates, once it is stored."""
    actions, _ = drive(roll_out(d, (), seen()))
    (create,) = [action for action in actions if isinstance(action, Create)]
    made = create.obj
    return {**made, "metadata": {**made["metadata"], "uid": "r", "creationTimestamp": "2026-01-01T00:00:00Z"}}


def old_set(size: int, pods: int) -> Obj:
    template = {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": "web:0"}]}}
    meta = {
        "name": "web-old",
        "namespace": "default",
        "uid": "o",
        "creationTimestamp": "2025-01-01T00:00:00Z",
    }
    return {
        "metadata": {**meta, "annotations": {N.annotation_revision: "1"}},
        "spec": {"replicas": size, "template": template},
        "status": {"replicas": pods, "availableReplicas": pods},
    }


def short(action: Action) -> str:
    match action:
        case Create():
            return f"create {action.resource} of {action.obj['spec']['replicas']}"
        case Update():
            size = action.obj["spec"]["replicas"]
            return f"update {action.resource} {action.subresource or size}"
        case Delete():
            return f"delete {action.name}"
        case Event():
            return action.reason
        case Requeue():
            return "requeue"


def test_first_sync_creates_the_set_then_writes_revision_and_status() -> None:
    actions, overdue = drive(roll_out(deployment(), (), seen()))
    assert [short(action) for action in actions] == [
        "create replicasets of 2",
        "ScalingReplicaSet",
        "update deployments status",
        "update deployments status",
    ]
    revision = actions[2]
    assert isinstance(revision, Update)
    assert revision.obj["metadata"]["annotations"] == {N.annotation_revision: "1"}
    assert not overdue


def test_sync_that_has_scaled_writes_the_status_and_ends() -> None:
    actions, _ = drive(roll_out(deployment(replicas=3), [old_set(3, 3)], seen()))
    assert [short(action) for action in actions] == [
        "create replicasets of 1",
        "ScalingReplicaSet",
        "update deployments status",
        "update deployments status",
    ]


def test_recreate_scales_old_sets_to_zero_and_waits_for_their_pods() -> None:
    d = deployment(strategy={"type": "Recreate"})
    actions, _ = drive(roll_out(d, [old_set(2, 2)], seen()))
    assert [short(action) for action in actions] == [
        "update replicasets 0",
        "ScalingReplicaSet",
        "update deployments status",
    ]
    pod = {"metadata": {"labels": {"app": "web"}}, "status": {"phase": "Running"}}
    actions, _ = drive(roll_out(d, [old_set(0, 0)], seen(pods=[pod])))
    assert [short(action) for action in actions] == ["update deployments status"]
    actions, _ = drive(roll_out(d, [old_set(0, 0)], seen()))
    assert short(actions[0]) == "create replicasets of 2"


def test_refused_create_is_an_event_and_a_condition_and_fails_the_sync() -> None:
    def full(action: Action) -> Reply:
        return refuse_with(403, "Forbidden", "no room") if isinstance(action, Create) else accept(action)

    actions: list[Action] = []

    def noted(action: Action) -> Reply:
        actions.append(action)
        return full(action)

    with pytest.raises(SyncFailed, match="no room"):
        drive(roll_out(deployment(), (), seen()), noted)
    assert [short(action) for action in actions] == [
        "create replicasets of 2",
        "update deployments status",
        "ReplicaSetCreateError",
    ]


@pytest.mark.parametrize(("mine", "collides"), [(True, False), (False, True)])
def test_name_in_use_is_taken_over_or_counted_as_a_collision(mine: bool, collides: bool) -> None:
    found = stored_set(deployment())
    if not mine:
        found["spec"] = {**found["spec"], "template": old_set(1, 1)["spec"]["template"]}
    actions: list[Action] = []

    def taken(action: Action) -> Reply:
        actions.append(action)
        if isinstance(action, Create):
            return refuse_with(409, "AlreadyExists", "in use")
        return accept(action)

    steps = roll_out(deployment(), (), seen([found]))
    if collides:
        with pytest.raises(SyncFailed, match="in use"):
            drive(steps, taken)
        assert isinstance(actions[-1], Update)
        assert actions[-1].obj["status"]["collisionCount"] == 1
        return
    drive(steps, taken)
    assert "ScalingReplicaSet" not in [short(action) for action in actions]


def test_deployment_that_selects_all_pods_is_refused_with_an_event() -> None:
    actions, _ = drive(refuse(deployment(), seen()))
    assert [short(action) for action in actions] == ["SelectingAll", "update deployments status"]
    observed = {**deployment(), "status": {"observedGeneration": 1}}
    actions, _ = drive(refuse(observed, seen()))
    assert [short(action) for action in actions] == ["SelectingAll"]


def test_paused_deployment_scales_and_starts_no_rollout() -> None:
    actions, _ = drive(roll_out(deployment(paused=True), [old_set(1, 1)], seen()))
    assert [short(action) for action in actions] == [
        "update deployments status",
        "update replicasets 2",
        "ScalingReplicaSet",
        "update deployments status",
    ]


def test_rollback_to_a_missing_revision_only_clears_the_request() -> None:
    d = deployment()
    d["metadata"]["annotations"] = {N.annotation_rollback_to: "7"}
    actions, _ = drive(roll_out(d, [stored_set(deployment())], seen()))
    last = actions[-1]
    assert [short(action) for action in actions[-2:]] == [
        "DeploymentRollbackRevisionNotFound",
        "update deployments 2",
    ]
    assert isinstance(last, Update)
    assert N.annotation_rollback_to not in last.obj["metadata"]["annotations"]


def test_key_returns_a_second_after_the_progress_deadline() -> None:
    first = deployment()
    rs = stored_set(first)
    at = "1970-01-02T00:00:00Z"
    condition = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "message": ""}
    d = {**first, "status": {"conditions": [{**condition, "lastUpdateTime": at, "lastTransitionTime": at}]}}
    actions, _ = drive(roll_out(d, [rs], seen()))
    written = next(a for a in reversed(actions) if isinstance(a, Update) and a.subresource == "status")
    actions, overdue = drive(roll_out(written.obj, [rs], seen()))
    assert actions == [Requeue("default/web", 601_000_000)]
    assert not overdue
