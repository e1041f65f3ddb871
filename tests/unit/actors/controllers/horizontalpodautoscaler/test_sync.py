"""The steps of a sync: which scale and status are written, and what follows a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors.controllers.horizontalpodautoscaler.decide import History, Moment
from actors.controllers.horizontalpodautoscaler.metrics_apis import Answered
from actors.controllers.horizontalpodautoscaler.sync import (
    Action,
    Answer,
    GetScale,
    Outcome,
    ReadMetric,
    Seen,
    SetScale,
    reconcile,
)
from actors.controllers.shared.steps import Event, Update
from sim.api.status import status
from sim.api.types import Obj, Reply
from tests.actor.apiserver.cluster import SCHEME
from tests.unit.actors.controllers.horizontalpodautoscaler.test_decide import NOW, PERIODS

AWAY = Reply(503, body=status(503, "ServiceUnavailable", "away"))
ABLE, ACTIVE = "AbleToScale", "ScalingActive"


def hpa(**spec: Any) -> Obj:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    given = {"minReplicas": 2, "maxReplicas": 5, "metrics": [], "scaleTargetRef": target, **spec}
    return {"metadata": {"name": "h", "namespace": "default"}, "spec": given}


def drive(
    obj: Obj,
    replicas: int = 3,
    selector: str = "app=web",
    history: History | None = None,
    refuse: Callable[[Action], bool] = lambda _: False,
    source: Reply = AWAY,
) -> tuple[list[Action], Outcome]:
    """All actions of a sync of a target of this size, and its end."""
    scale = {"spec": {"replicas": replicas}, "status": {"replicas": replicas, "selector": selector}}
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    pods = [{"metadata": {"name": str(number)}, "status": ready} for number in range(replicas)]
    seen = Seen(SCHEME.resources, lambda *_: pods, PERIODS, history, 0, NOW)
    actions: list[Action] = []
    steps = reconcile(obj, seen)
    try:
        action = next(steps)
        while True:
            actions.append(action)
            reply = AWAY if refuse(action) else Reply(200, body=scale)
            action = steps.send(Answer(reply, Answered("group", source), 0, NOW))
    except StopIteration as end:
        return actions, end.value


def conditions(action: Action) -> dict[str, tuple[str, str]]:
    assert isinstance(action, Update) and action.subresource == "status"
    return {each["type"]: (each["status"], each["reason"]) for each in action.obj["status"]["conditions"]}


@pytest.mark.parametrize(("size", "wanted"), [(1, 2), (9, 5)])
def test_size_outside_of_the_bounds_is_written_before_the_status(size: int, wanted: int) -> None:
    (_, scaled, event, written), outcome = drive(hpa(), size)
    assert isinstance(scaled, SetScale) and scaled.scale["spec"]["replicas"] == wanted
    assert scaled.target == "deployments/default/web"
    assert isinstance(event, Event) and event.reason == "SuccessfulRescale"
    assert conditions(written) == {ABLE: ("True", "SucceededRescale")}
    assert isinstance(written, Update) and written.obj["status"]["desiredReplicas"] == wanted
    assert outcome == Outcome(None, History((Moment(size, 0),)))


def test_target_of_size_zero_is_left_alone() -> None:
    (_, written), outcome = drive(hpa(), 0)
    assert conditions(written)[ACTIVE] == ("False", "ScalingDisabled") and outcome.error is None


def test_unreadable_scale_is_written_to_the_status_and_nothing_is_remembered() -> None:
    (_, event, written), outcome = drive(hpa(), refuse=lambda action: isinstance(action, GetScale))
    assert isinstance(event, Event) and event.reason == "FailedGetScale"
    assert conditions(written) == {ABLE: ("False", "FailedGetScale")}
    assert outcome == Outcome("away", None)


def test_unknown_kind_of_target_fails_without_a_read() -> None:
    target = {"apiVersion": "apps/v1", "kind": "Robot", "name": "web"}
    actions, outcome = drive(hpa(scaleTargetRef=target))
    assert not [action for action in actions if isinstance(action, GetScale)]
    assert outcome.error == 'no matches for kind "Robot" in group "apps"'


def test_refused_scale_keeps_the_desired_size_of_the_status() -> None:
    (_, _, event, written), outcome = drive(hpa(), 9, refuse=lambda action: isinstance(action, SetScale))
    assert isinstance(event, Event) and event.reason == "FailedRescale"
    assert conditions(written)[ABLE] == ("False", "FailedUpdateScale")
    assert isinstance(written, Update) and written.obj["status"]["desiredReplicas"] == 0
    assert outcome.error == "failed to rescale: away"


def test_missing_selector_is_an_error_of_the_metrics() -> None:
    (_, first, written, second), outcome = drive(hpa(), selector="")
    assert isinstance(first, Event) and first.reason == "SelectorRequired"
    assert conditions(written)[ACTIVE] == ("False", "InvalidSelector")
    assert isinstance(second, Event) and second.reason == "FailedComputeMetricsReplicas"
    assert outcome.error == "failed to compute desired number of replicas: selector is required"


def test_metric_without_an_answer_changes_no_size() -> None:
    metric = {"type": "Pods", "pods": {"metric": {"name": "load"}, "target": {"averageValue": "1"}}}
    actions, outcome = drive(hpa(metrics=[metric]))
    assert [type(action) for action in actions] == [GetScale, ReadMetric, Event, Update, Event]
    assert conditions(actions[3])[ACTIVE] == ("False", "FailedGetPodsMetric")
    assert outcome.error is not None and "invalid metrics (1 invalid out of 1)" in outcome.error


def test_refused_status_is_the_error_of_the_sync_and_history_stays() -> None:
    known = History((Moment(7, 1),))
    actions, outcome = drive(hpa(), 0, history=known, refuse=lambda action: isinstance(action, Update))
    last = actions[-1]
    assert isinstance(last, Event) and last.reason == "FailedUpdateStatus"
    assert outcome == Outcome("failed to update status: away", known)


def test_target_of_a_wrong_api_version_is_not_looked_for() -> None:
    for text in ("a/b/c", "/v1", "apps/"):
        target = {"apiVersion": text, "kind": "Deployment", "name": "web"}
        assert drive(hpa(scaleTargetRef=target))[1].error == f"unexpected GroupVersion string: {text}"


def test_invalid_selector_of_a_custom_scale_is_an_error_of_the_metrics() -> None:
    (_, first, written, _), outcome = drive(hpa(), selector="in in in")
    assert isinstance(first, Event) and first.reason == "InvalidSelector"
    assert conditions(written)[ACTIVE] == ("False", "InvalidSelector")
    assert outcome.error is not None and "internal selector object" in outcome.error


def test_unwritten_status_of_failed_metrics_is_the_error_of_the_sync() -> None:
    actions, outcome = drive(hpa(), selector="", refuse=lambda action: isinstance(action, Update))
    reasons = [action.reason for action in actions if isinstance(action, Event)]
    assert reasons == ["SelectorRequired", "FailedUpdateStatus", "FailedComputeMetricsReplicas"]
    assert outcome.error == "failed to update status: away"


EXTERNAL = {
    "type": "External",
    "external": {"metric": {"name": "load"}, "target": {"type": "Value", "value": "10"}},
}


@pytest.mark.parametrize(
    ("value", "size", "why"),
    [
        ("20", 4, "external metric load(nil) above target"),
        ("10", 3, ""),
        ("1", 2, "All metrics below target"),
    ],
)
def test_metric_changes_the_size_and_says_why(value: str, size: int, why: str) -> None:
    values = Reply(200, body={"items": [{"value": value}]})
    actions, outcome = drive(hpa(metrics=[EXTERNAL], maxReplicas=4), history=History(), source=values)
    written = actions[-1]
    assert isinstance(written, Update) and written.obj["status"]["desiredReplicas"] == size
    assert conditions(written)[ACTIVE] == ("True", "ValidMetricFound") and outcome.error is None
    told = [action.message for action in actions if isinstance(action, Event)]
    assert told == ([f"New size: {size}; reason: {why}"] if why else [])
