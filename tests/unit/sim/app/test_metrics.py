"""Metrics that steps state, as autoscaling reads them."""

from __future__ import annotations

from actors.controllers.shared.metrics_api import Metric, Value
from sim.api.scheme.scheme import Scheme
from sim.api.selectors import parse_labels
from sim.app.metrics import MetricsServer, StatedMetrics
from sim.faults.surroundings.metric import TellMetric
from sim.ident import NAMES
from sim.kernel import Kernel

ALL = Metric("default", "m", parse_labels(""))
MAIL = Metric("default", "m", parse_labels("queue=mail"))


def server(stated: StatedMetrics) -> MetricsServer:
    return MetricsServer(Kernel(seed=1), {}, stated, Scheme(NAMES["kubernetes"]))


def series(milli: int, queue: str, kind: str = "", about: str = "", namespace: str = "default") -> TellMetric:
    return TellMetric("m", milli, namespace, {"queue": queue}, kind, about)


def test_newest_active_step_of_a_series_counts() -> None:
    stated = StatedMetrics()
    asked = server(stated)
    assert asked.external(MAIL) == "no metrics returned from external metrics API"
    stated.set("calm", series(10, "mail"), 1)
    stated.set("news", series(500, "news"), 2)
    stated.set("rush", series(70, "mail"), 3)
    assert (asked.external(MAIL), asked.external(ALL)) == (Value(70, 3), Value(570, 3))
    stated.remove("rush", 4)
    assert (asked.external(MAIL), asked.external(ALL)) == (Value(10, 4), Value(510, 4))
    stated.remove("calm", 5)
    stated.remove("news", 6)
    assert asked.external(ALL) == "no metrics returned from external metrics API"


def test_metric_of_an_object_counts_for_its_namespace_only() -> None:
    stated = StatedMetrics()
    asked = server(stated)
    stated.set("web", series(10, "mail", "Deployment.apps", "web"), 1)
    stated.set("other", series(20, "mail", "Deployment.apps", "web", "shop"), 2)
    about = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    assert asked.of_object(about, MAIL) == Value(10, 1)
    assert asked.of_object({**about, "name": "db"}, MAIL) == (
        "unable to fetch metrics from custom metrics API: "
        "the server could not find the metric m for deployments.apps db"
    )


def test_metric_of_a_namespace_counts_for_the_autoscalers_own_namespace() -> None:
    stated = StatedMetrics()
    stated.set("whole", series(10, "mail", "Namespace", "default"), 1)
    about = {"apiVersion": "v1", "kind": "Namespace", "name": "another"}
    assert server(stated).of_object(about, MAIL) == Value(10, 1)
