"""Answers of the metrics APIs."""

from typing import Any

import pytest

from actors.controllers.horizontalpodautoscaler.metrics_apis import Answered
from actors.controllers.shared.metrics_api import CUSTOM, EXTERNAL, RESOURCE, Metric, NoMetrics, Sample, Value
from sim.api.selectors import LabelSelector
from sim.api.types import Obj, Reply
from sim.ident import NAMES
from sim.units import SECOND, parse_time

TIME = "2022-01-01T00:00:00Z"
AT_US = parse_time(TIME)
METRIC = Metric("a", "m", LabelSelector(()))


def answered(group: str, *items: Obj, **more: Any) -> Answered:
    return Answered(group, Reply(200, body={"items": list(items), **more}))


def of_pod(*containers: tuple[str, Obj]) -> Obj:
    listed = [{"name": name, "usage": usage} for name, usage in containers]
    head = {"metadata": {"name": "p", "namespace": "a"}, "timestamp": TIME, "window": "30s"}
    return {**head, "containers": listed}


def test_usage_of_a_pod_is_the_sum_of_its_containers() -> None:
    source = answered(RESOURCE, of_pod(("x", {"cpu": "100m"}), ("y", {"cpu": "1"})))
    assert source.resource((), "cpu", "", 0) == {"p": Sample(1100, AT_US, 30 * SECOND)}
    assert source.resource((), "cpu", "y", 0) == {"p": Sample(1000, AT_US, 30 * SECOND)}


def test_pod_with_a_container_without_data_is_left_out() -> None:
    source = answered(RESOURCE, of_pod(("x", {"cpu": "100m"}), ("y", {})))
    assert source.resource((), "cpu", "", 0) == {}
    assert source.resource((), "cpu", "y", 0) == {}
    text = "failed to get container metrics: container z not present in metrics for pod a/p"
    assert source.resource((), "cpu", "z", 0) == text


def test_custom_metrics_have_a_window_of_a_minute_unless_they_state_one() -> None:
    first = {"describedObject": {"name": "p"}, "value": "7", "timestamp": TIME}
    second = {"describedObject": {"name": "q"}, "value": "500m", "timestamp": "x", "windowSeconds": 5}
    assert answered(CUSTOM, first, second).of_pods((), METRIC, 9) == {
        "p": Sample(7000, AT_US, 60 * SECOND),
        "q": Sample(500, 9, 5 * SECOND),
    }


def test_metric_of_an_object_has_exactly_one_value() -> None:
    one = {"value": "3"}
    assert answered(CUSTOM, one).of_object({}, METRIC) == Value(3000)
    for count, source in ((2, answered(CUSTOM, one, one)), (0, answered(CUSTOM))):
        assert source.of_object({}, METRIC) == (
            "unable to fetch metrics from custom metrics API: the custom metrics API server returned "
            f"{count} results when we asked for exactly one"
        )


def test_external_metric_is_the_sum_of_its_series() -> None:
    assert answered(EXTERNAL, {"value": "3"}, {"value": "250m"}).external(METRIC) == Value(3250)


@pytest.mark.parametrize("body", [None, [], {"items": 1}, {"items": [1]}, {}])
def test_answers_without_items_are_errors(body: Any) -> None:
    source = Answered(EXTERNAL, Reply(200, body=body))
    assert source.external(METRIC) == "no metrics returned from external metrics API"


def test_refusals_are_reported_with_their_api() -> None:
    source = Answered(RESOURCE, Reply(503, body={"message": "away", "code": 503}))
    assert source.resource((), "cpu", "", 0) == "unable to fetch metrics from resource metrics API: away"


def test_an_api_service_leads_to_the_server_of_the_preferred_version() -> None:
    names = NAMES["kubernetes"]
    found = {"v1beta1.custom.metrics.k8s.io": {}, "v1beta2.custom.metrics.k8s.io": {}}
    source = NoMetrics(names, found.get)
    assert [source.elsewhere(group) for group in (RESOURCE, CUSTOM, EXTERNAL)] == ["", "v1beta2", ""]
