"""The steps of a sync of a Job: which writes follow each other, and what follows a refused one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actors.controllers.job.decide import Tracking, is_finished
from actors.controllers.job.sync import (
    Action,
    Answer,
    Count,
    CreatePods,
    DeletePods,
    FreePods,
    Outcome,
    Seen,
    sync_job,
)
from actors.controllers.shared.steps import Event, Requeue, Update
from sim.api.status import status as refusal
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.units import SECOND, format_time
from tests.unit.actors.controllers.job.test_decide import FINALIZER, INDEX, NOW, job, pod

CONFLICT = Reply(409, body=refusal(409, "Conflict", "changed"))
AWAY = Reply(503, body=refusal(503, "ServiceUnavailable", "away"))
OK = Reply(200)
Replies = Callable[[Action], Reply]


def named(status: Obj | None = None, **spec: Any) -> Obj:
    made = job({"startTime": format_time(NOW), **(status or {})}, **spec)
    return {**made, "metadata": {**made["metadata"], "namespace": "default"}}


def seen(satisfied: bool = True, by_finalizer: bool = True) -> Seen:
    tracking = Tracking(FINALIZER, INDEX, {}, by_finalizer=by_finalizer)
    return Seen("default/j", tracking, {"uid": "j"}, satisfied, 20 * SECOND, True, True, NOW)


def drive(
    obj: Obj, pods: Sequence[Obj], view: Seen | None = None, refuse: Replies = lambda _: OK
) -> tuple[list[Action], Outcome]:
    """All actions of a sync but those for metrics, and its end.

    refuse: the reply to an action; an update that is not refused is stored unchanged
    """

    def answer(action: Action) -> Answer:
        reply = refuse(action)
        match action:
            case CreatePods():
                made = len(action.pods) if reply.ok else 0
                return Answer(NOW, made=made, error=None if reply.ok else reply.message)
            case DeletePods() | FreePods():
                return Answer(NOW, [reply] * len(action.pods))
            case Update():
                stored = Reply(200, item=Item("k", action.obj, 1, 1))
                return Answer(NOW, [stored if reply.ok else reply])
            case _:
                return Answer(NOW)

    actions: list[Action] = []
    steps = sync_job(obj, pods, view or seen())
    try:
        action = next(steps)
        while True:
            if not isinstance(action, Count):
                actions.append(action)
            action = steps.send(answer(action))
    except StopIteration as end:
        return actions, end.value


def only(kind: type[Action]) -> Replies:
    """Refuses actions of one kind."""
    return lambda action: AWAY if isinstance(action, kind) else OK


def test_missing_pods_are_created_before_the_status_is_written() -> None:
    (create, update, freed), outcome = drive(named(completions=3), [])
    assert isinstance(create, CreatePods) and len(create.pods) == 2
    assert create.pods[0]["metadata"]["finalizers"] == [FINALIZER]
    assert freed == FreePods("default/j", [])
    assert isinstance(update, Update) and update.obj["status"]["active"] == 2
    assert outcome == Outcome(None, False, "pods_created")


def test_no_pod_is_created_while_the_cache_does_not_show_earlier_ones() -> None:
    actions, outcome = drive(named(completions=3), [], seen(satisfied=False))
    assert not [action for action in actions if isinstance(action, CreatePods | DeletePods)]
    assert outcome.work == "reconciling"


def test_refused_create_fails_the_sync_and_writes_what_was_made() -> None:
    actions, outcome = drive(named(completions=3), [pod("a")], refuse=only(CreatePods))
    (update,) = [action for action in actions if isinstance(action, Update)]
    assert update.obj["status"]["active"] == 1 and outcome.error == "away"


def test_finished_pod_is_listed_then_freed_then_counted() -> None:
    ended = pod("a", "Succeeded")
    actions, outcome = drive(named({"active": 1}, completions=1), [ended])
    listed, freed, event, counted = actions
    assert isinstance(listed, Update) and listed.subresource == "status"
    assert listed.obj["status"]["uncountedTerminatedPods"] == {"succeeded": ["a"]}
    assert freed == FreePods("default/j", [ended])
    assert isinstance(event, Event) and event.reason == "Completed"
    assert isinstance(counted, Update) and is_finished(counted.obj)
    assert counted.obj["status"]["uncountedTerminatedPods"] == {}
    assert counted.obj["status"]["succeeded"] == 1 and outcome == Outcome(None, True, "tracking")


def test_job_does_not_finish_while_a_pod_keeps_its_finalizer() -> None:
    actions, outcome = drive(named(completions=1), [pod("a", "Succeeded")], refuse=only(FreePods))
    assert outcome.error == "tracking status: away"
    assert not [action for action in actions if isinstance(action, Event)]
    assert not is_finished(next(action.obj for action in actions if isinstance(action, Update)))


def test_conflict_queues_the_job_after_its_backoff_without_an_error() -> None:
    actions, outcome = drive(
        named(completions=1),
        [pod("a", "Succeeded")],
        refuse=lambda action: CONFLICT if isinstance(action, Update) else OK,
    )
    assert actions[-1] == Requeue("default/j", 20 * SECOND)
    assert outcome == Outcome(None, False, "tracking")


def test_new_failure_ends_the_sync_with_an_error_that_delays_the_replacement() -> None:
    actions, outcome = drive(named(completions=1, parallelism=1), [pod("a", "Failed")])
    assert isinstance(actions[0], CreatePods)
    assert outcome.error == 'failed pod(s) detected for job key "default/j"'


def test_failed_job_deletes_its_active_pods_uncounted_only_if_all_are_gone() -> None:
    failing = [pod("a", "Failed"), pod("b", "Failed"), pod("c", "Failed"), pod("d")]
    stopped, *_ = drive(named(backoffLimit=2), failing)[0]
    assert isinstance(stopped, DeletePods) and stopped.pods == [failing[3]] and not stopped.uncounted
    for view, refuse in ((seen(), only(DeletePods)), (seen(satisfied=False), lambda _: OK)):
        actions, _ = drive(named(backoffLimit=2), failing, view, refuse)
        assert not [action for action in actions if isinstance(action, Event)]


def test_suspended_job_deletes_its_pods_and_says_so() -> None:
    actions, outcome = drive(named(suspend=True), [pod("a")])
    assert isinstance(actions[0], DeletePods)
    assert actions[0].pods == [pod("a")] and actions[0].uncounted
    (event,) = [action for action in actions if isinstance(action, Event)]
    assert event.reason == "Suspended" and outcome == Outcome(None, True, "pods_deleted")


def test_job_with_a_deadline_is_queued_for_it() -> None:
    actions, _ = drive(named(activeDeadlineSeconds=30), [pod("a"), pod("b")])
    assert actions[0] == Requeue("default/j", 30 * SECOND)


def test_untracked_job_loses_finalizers_and_counts_the_pods_that_are_there() -> None:
    ended = pod("a", "Succeeded")
    actions, _ = drive(named({"succeeded": 7}, completions=2), [ended], seen(by_finalizer=False))
    create, freed, update = actions
    assert isinstance(create, CreatePods) and "finalizers" not in create.pods[0]["metadata"]
    assert freed == FreePods("default/j", [ended])
    assert isinstance(update, Update) and update.obj["status"]["succeeded"] == 1
