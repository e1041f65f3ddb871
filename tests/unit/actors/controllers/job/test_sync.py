"""The steps of a sync of a Job: which writes follow each other, and what follows a refused one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actors.controllers.job.decide import INDEX_VARIABLE, Tracking, is_finished
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


# --- indexes, policies, bounds --------------------------------------------------------------------


def indexed(**spec: Any) -> Obj:
    template = {"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}}
    return named(completionMode="Indexed", **{"template": template, **spec})


def test_indexed_job_makes_a_pod_for_each_missing_index() -> None:
    (create, *_), _ = drive(indexed(completions=3, parallelism=3), [pod("a", index=1)])
    assert isinstance(create, CreatePods)
    assert [made["metadata"]["annotations"][INDEX] for made in create.pods] == ["0", "2"]
    assert [made["metadata"]["generateName"] for made in create.pods] == ["j-0-", "j-2-"]
    assert [made["spec"]["hostname"] for made in create.pods] == ["j-0", "j-2"]
    made = create.pods[0]["spec"]
    for container in (*made["containers"], *made["initContainers"]):
        assert [variable["name"] for variable in container["env"]] == [INDEX_VARIABLE]


def test_container_that_sets_its_index_keeps_its_own_value() -> None:
    own = {"name": "c", "env": [{"name": INDEX_VARIABLE, "value": "7"}]}
    template = {"spec": {"containers": [own]}}
    (create, *_), _ = drive(indexed(completions=1, parallelism=1, template=template), [])
    assert isinstance(create, CreatePods) and create.pods[0]["spec"]["containers"] == [own]


def test_succeeded_index_is_written_as_completed() -> None:
    ended = pod("a", "Succeeded", index=2)
    actions, _ = drive(indexed(completions=3, parallelism=1), [ended, pod("b", index=0)])
    written = [action.obj["status"] for action in actions if isinstance(action, Update)]
    assert written[0]["completedIndexes"] == "2" and written[0]["succeeded"] == 1
    untracked, _ = drive(indexed(completions=3, parallelism=1), [ended], seen(by_finalizer=False))
    (update,) = [action for action in untracked if isinstance(action, Update)]
    assert update.obj["status"]["completedIndexes"] == "2"


def test_target_of_failure_is_announced_before_the_job_fails() -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    code = {"name": "c", "state": {"terminated": {"exitCode": 42}}}
    failing = pod("a", "Failed", containerStatuses=[code])
    failing["metadata"]["namespace"] = "default"
    tracking = Tracking(FINALIZER, INDEX, {}, {"rules": [rule]})
    actions, _ = drive(named(completions=1), [failing], seen()._replace(tracking=tracking))
    first, last = [action.obj for action in actions if isinstance(action, Update)]
    assert [each["type"] for each in first["status"]["conditions"]] == ["FailureTarget"]
    assert [each["type"] for each in last["status"]["conditions"]] == ["FailureTarget", "Failed"]
    known = {**named(completions=1), "status": first["status"]}
    again, _ = drive(known, [failing], seen()._replace(tracking=tracking))
    assert is_finished([action.obj for action in again if isinstance(action, Update)][-1])


def test_untracked_job_that_fails_counts_its_active_pods() -> None:
    failing = [pod("a", "Failed"), pod("b", "Failed"), pod("c", "Failed"), pod("d")]
    actions, _ = drive(named(backoffLimit=2), failing, seen(by_finalizer=False))
    written = [action.obj for action in actions if isinstance(action, Update)][-1]
    assert is_finished(written) and written["status"]["failed"] == 4
    refused, outcome = drive(named(), failing[:1], seen(by_finalizer=False), only(FreePods))
    assert outcome.error is not None and outcome.error.endswith("finalizers from job pods default/j: away")
    assert not [action for action in refused if isinstance(action, Update)]


def test_refused_list_of_finished_pods_frees_none() -> None:
    actions, outcome = drive(named(completions=1), [pod("a", "Succeeded")], refuse=only(Update))
    assert outcome.error == "tracking status: away"
    assert not [action for action in actions if isinstance(action, FreePods)]


def test_more_successes_than_completions_are_warned_about() -> None:
    ended = [pod("a", "Succeeded"), pod("b", "Succeeded")]
    actions, _ = drive(named(completions=1), ended)
    assert [action.reason for action in actions if isinstance(action, Event)] == [
        "TooManySucceededPods",
        "Completed",
    ]


def test_resumed_job_starts_its_time_again() -> None:
    held = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
    obj = named({"conditions": [held], "startTime": format_time(NOW - 90 * SECOND)}, parallelism=1)
    actions, _ = drive(obj, [pod("a")])
    (event,) = [action for action in actions if isinstance(action, Event)]
    written = [action.obj["status"] for action in actions if isinstance(action, Update)][-1]
    assert event.reason == "Resumed" and written["startTime"] == format_time(NOW)


def test_job_with_containers_that_restart_too_often_fails() -> None:
    template = {"spec": {"restartPolicy": "OnFailure"}}
    for limit, restarts, fails in ((2, 1, False), (2, 2, True), (0, 0, False), (0, 1, True)):
        restarted = pod("a", containerStatuses=[{"name": "c", "restartCount": restarts}])
        actions, _ = drive(named(template=template, backoffLimit=limit, parallelism=1), [restarted])
        assert (DeletePods in [type(action) for action in actions]) is fails


def test_pods_ready_are_left_out_of_the_status_without_their_gate() -> None:
    for reports in (True, False):
        actions, _ = drive(named(completions=3), [], seen()._replace(reports_ready=reports))
        (update,) = [action for action in actions if isinstance(action, Update)]
        assert ("ready" in update.obj["status"]) is reports
