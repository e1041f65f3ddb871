"""The autoscaler against the real API server, with a metrics source that the tests control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from actors.controllers.shared.metrics_api import Metric, NoMetrics, Sample, Value, none_returned
from sim.api.store import Change
from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.apiserver.cluster import SCHEME
from tests.actor.controllers.workload import POD_SPEC, World, workload, world

LOOPS = ("horizontalpodautoscaling", "replicaset")


class Load(NoMetrics):
    """CPU usage in milli units: a total that is shared by the pods, or usage of each pod."""

    def __init__(self, total: int = 0, each: int = 0) -> None:
        super().__init__(SCHEME.names)
        self.total = total
        self.each = each

    def resource(
        self, pods: Sequence[Obj], name: str, container: str, wall_us: int
    ) -> Mapping[str, Sample] | str:
        return {
            pod["metadata"]["name"]: Sample(self.each or self.total // len(pods), wall_us, 15 * SECOND)
            for pod in pods
        }


def target(replicas: int) -> Obj:
    container = {**POD_SPEC["containers"][0], "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {**POD_SPEC, "containers": [container]}}
    return workload("ReplicaSet", "web", replicas=replicas, template=template)


def autoscaler(low: int = 1, high: int = 100, **spec: Any) -> Obj:
    ref = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
    use = {"type": "Utilization", "averageUtilization": 50}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": use}}]
    spec = {"scaleTargetRef": ref, "minReplicas": low, "maxReplicas": high, "metrics": metrics, **spec}
    return {"metadata": {"name": "web"}, "spec": spec}


class Sizes:
    """Sizes of the target with their times, in seconds since the autoscaler was created."""

    def __init__(self, w: World) -> None:
        self._from_us = w.kernel.now_us
        self.seen: list[tuple[int, int]] = []
        w.plane.storage.store.subscribe(SCHEME.prefix("replicasets"), self._record)

    def _record(self, change: Change) -> None:
        size = change.item.obj["spec"]["replicas"]
        if change.prev is not None and change.prev.obj["spec"]["replicas"] != size:
            self.seen.append((round((change.at_us - self._from_us) / SECOND), size))


async def ready_on(w: World) -> None:
    """Make new pods ready at once, with old start times."""
    long_ago = "2020-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": long_ago}
    status = {"phase": "Running", "conditions": [ready], "startTime": long_ago}
    kind = SCHEME.names.media_merge_patch
    for pod in await w.stored("pods"):
        if pod["status"]["phase"] == "Pending":
            name, body = pod["metadata"]["name"], {"status": status}
            reply = await w.plane.ask(
                "patch", "pods", "default", name, body=body, subresource="status", content_type=kind
            )
            if not reply.ok:
                assert reply.code == 404


async def settle(w: World, seconds: int, step: int = 5) -> None:
    for _ in range(seconds // step):
        await w.settle(step * SECOND)
        await ready_on(w)


async def begun(w: World, replicas: int, hpa: Obj) -> Sizes:
    await w.create("replicasets", target(replicas))
    await settle(w, 5)
    sizes = Sizes(w)
    await w.create("horizontalpodautoscalers", hpa)
    return sizes


def condition(hpa: Obj, kind: str) -> tuple[str, str]:
    found = next(c for c in hpa["status"]["conditions"] if c["type"] == kind)
    return found["status"], found["reason"]


async def test_target_at_most_doubles_every_fifteen_seconds() -> None:
    async with world(LOOPS, metrics=Load(each=300)) as w:
        sizes = await begun(w, 1, autoscaler(high=20))
        await settle(w, 70)
        assert [size for _, size in sizes.seen] == [4, 8, 16, 20]
        times = [at for at, _ in sizes.seen]
        assert times[0] in (15, 16) and all(14 < b - a < 17 for a, b in pairwise(times))
        hpa = await w.get("horizontalpodautoscalers", "web")
        assert condition(hpa, "ScalingLimited") == ("True", "TooManyReplicas")
        reason = "reason: cpu resource utilization (percentage of request) above target"
        assert ("SuccessfulRescale", f"New size: 4; {reason}") in await w.events("web")


async def test_deviation_within_ten_percent_changes_nothing() -> None:
    async with world(LOOPS, metrics=Load(each=54)) as w:
        sizes = await begun(w, 5, autoscaler())
        await settle(w, 60)
        assert sizes.seen == []
        hpa = await w.get("horizontalpodautoscalers", "web")
        assert condition(hpa, "AbleToScale") == ("True", "ReadyForNewScale")
        current = hpa["status"]["currentMetrics"][0]["resource"]["current"]
        assert current == {"averageUtilization": 54, "averageValue": "54m"}


async def test_target_shrinks_five_minutes_after_the_last_higher_recommendation() -> None:
    load = Load(total=500)
    async with world(LOOPS, metrics=load) as w:
        sizes = await begun(w, 10, autoscaler())
        await settle(w, 60)
        assert sizes.seen == []
        load.total = 200
        lowered_s = 60
        await settle(w, 330)
        ((at, size),) = sizes.seen
        assert size == 4 and lowered_s + 285 <= at <= lowered_s + 316
        assert ("SuccessfulRescale", "New size: 4; reason: All metrics below target") in await w.events("web")


@pytest.mark.parametrize("offset_s", [600, -600])
async def test_setting_the_wall_clock_does_not_change_recommendations(offset_s: int) -> None:
    load = Load(total=500)
    async with world(LOOPS, metrics=load) as w:
        sizes = await begun(w, 10, autoscaler())
        await settle(w, 60)
        load.total = 200
        w.plane.supervisor["controller-manager-0"].clock.set(w.kernel.now_us, offset_us=offset_s * SECOND)
        await settle(w, 330)
        ((at, size),) = sizes.seen
        assert size == 4 and 60 + 285 <= at <= 60 + 316


async def test_policies_limit_the_rate_of_scaling() -> None:
    rules = {
        "scaleUp": {"policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}]},
        "scaleDown": {
            "stabilizationWindowSeconds": 0,
            "policies": [{"type": "Percent", "value": 50, "periodSeconds": 30}],
        },
    }
    load = Load(each=300)
    async with world(LOOPS, metrics=load) as w:
        sizes = await begun(w, 2, autoscaler(high=10, behavior=rules))
        await settle(w, 150)
        assert [size for _, size in sizes.seen][:3] == [5, 8, 10]
        assert [b - a for a, b in pairwise(at for at, _ in sizes.seen[:3])] == pytest.approx([60, 60], abs=16)
        up = len(sizes.seen)
        load.each = 1
        await settle(w, 100)
        assert [size for _, size in sizes.seen][up:][:3] == [5, 2, 1]


async def test_scale_up_window_uses_the_lowest_recommendation() -> None:
    rules = {"scaleUp": {"stabilizationWindowSeconds": 60}}
    load = Load(each=50)
    async with world(LOOPS, metrics=load) as w:
        sizes = await begun(w, 2, autoscaler(behavior=rules))
        await settle(w, 30)
        load.each = 100
        await settle(w, 45)
        assert sizes.seen == []
        hpa = await w.get("horizontalpodautoscalers", "web")
        assert condition(hpa, "AbleToScale") == ("True", "ScaleUpStabilized")
        await settle(w, 40)
        assert [size for _, size in sizes.seen][:1] == [4]


async def test_size_out_of_bounds_is_corrected_without_metrics() -> None:
    async with world(LOOPS) as w:
        sizes = await begun(w, 9, autoscaler(high=3))
        await settle(w, 20)
        assert [size for _, size in sizes.seen] == [3]
        assert (
            "SuccessfulRescale",
            "New size: 3; reason: Current number of replicas above Spec.MaxReplicas",
        ) in (await w.events("web"))


async def test_last_metric_is_reported_if_all_ask_for_zero_replicas() -> None:
    async with world(LOOPS, metrics=Load()) as w:
        metrics = [
            {"type": "Resource", "resource": {"name": "cpu", "target": target_of}}
            for target_of in (
                {"type": "AverageValue", "averageValue": "10m"},
                {"type": "Utilization", "averageUtilization": 50},  # stored last in any order
            )
        ]
        await begun(w, 3, autoscaler(metrics=metrics))
        await settle(w, 20)
        found = (await w.get("horizontalpodautoscalers", "web"))["status"]["conditions"]
        assert [c["message"] for c in found if c["type"] == "ScalingActive"] == [
            "the HPA was able to successfully calculate a replica count from "
            "cpu resource utilization (percentage of request)"
        ]


async def test_missing_metrics_source_is_reported_and_size_is_unchanged() -> None:
    async with world(LOOPS) as w:
        sizes = await begun(w, 2, autoscaler())
        await settle(w, 40)
        hpa = await w.get("horizontalpodautoscalers", "web")
        assert sizes.seen == [] and condition(hpa, "ScalingActive") == ("False", "FailedGetResourceMetric")
        assert hpa["status"]["currentReplicas"] == 2 and hpa["status"]["desiredReplicas"] == 0
        reasons = {reason for reason, _ in await w.events("web")}
        assert {"FailedGetResourceMetric", "FailedComputeMetricsReplicas"} <= reasons


async def test_new_pods_do_not_count_for_cpu_until_their_start_is_over() -> None:
    async with world(LOOPS, metrics=Load(each=100)) as w:
        await w.create("replicasets", target(2))
        await w.settle(5 * SECOND)
        sizes = Sizes(w)
        await w.create("horizontalpodautoscalers", autoscaler())
        await w.settle(40 * SECOND)  # the pods stay Pending
        assert sizes.seen == []
        hpa = await w.get("horizontalpodautoscalers", "web")
        assert "did not receive metrics for any ready pods" in hpa["status"]["conditions"][1]["message"]


async def test_missing_metrics_have_upstreams_messages() -> None:
    async with world(LOOPS, metrics=Load(each=50)) as w:
        await w.create("replicasets", target(2))
        about = {"kind": "Service", "name": "s", "apiVersion": "v1"}
        value = {"type": "Value", "value": "1"}
        metrics = [
            {
                "type": "Object",
                "object": {"metric": {"name": "m"}, "describedObject": about, "target": value},
            },
            {"type": "External", "external": {"metric": {"name": "x"}, "target": value}},
        ]
        await w.create("horizontalpodautoscalers", autoscaler(metrics=metrics))
        await settle(w, 20)
        messages = dict(await w.events("web"))
        domain = SCHEME.names.group_domain
        problem = (
            "unable to get metric m: Service on default s/unable to fetch metrics from custom metrics API: "
            f"no custom metrics API (custom.metrics.{domain}) registered"
        )
        assert messages["FailedGetObjectMetric"] == problem
        assert messages["FailedGetExternalMetric"].startswith("unable to get external metric default/x/nil: ")
        assert messages["FailedComputeMetricsReplicas"] == (
            f"invalid metrics (2 invalid out of 2), first error is: failed to get object metric value: {problem}"
        )


def conditions_of(hpa: Obj) -> list[tuple[str, str, str, str]]:
    """The conditions of an autoscaler without their times."""
    fields = ("type", "status", "reason", "message")
    return [
        (c[fields[0]], c[fields[1]], c[fields[2]], c[fields[3]])
        for c in hpa["status"].get("conditions") or ()
    ]


CAN_GET = "the HPA controller was able to get the target's current scale"
CANNOT_GET = "the HPA controller was unable to get the target's current scale"
USE = "cpu resource utilization (percentage of request)"
ACTIVE = (
    "ScalingActive", "True", "ValidMetricFound",
    f"the HPA was able to successfully calculate a replica count from {USE}",
)  # fmt: skip
WITHIN = (
    "ScalingLimited", "False", "DesiredWithinRange", "the desired count is within the acceptable range",
)  # fmt: skip


async def test_autoscaler_condition_shows_if_its_target_can_be_scaled() -> None:
    async with world(LOOPS, metrics=Load(each=50)) as w:
        await w.create("horizontalpodautoscalers", autoscaler())
        await w.settle(16 * SECOND)
        missing = 'replicasets/scale.apps "web" not found'
        lost = [("AbleToScale", "False", "FailedGetScale", f"{CANNOT_GET}: {missing}")]
        assert conditions_of(await w.get("horizontalpodautoscalers", "web")) == lost
        assert await w.events("web") == [("FailedGetScale", missing)]
        await w.create("replicasets", target(0))
        await settle(w, 30)
        none = "scaling is disabled since the replica count of the target is zero"
        hpa = await w.get("horizontalpodautoscalers", "web")
        assert conditions_of(hpa) == [
            ("AbleToScale", "True", "SucceededGetScale", CAN_GET),
            ("ScalingActive", "False", "ScalingDisabled", none),
        ]
        assert "currentReplicas" not in hpa["status"] and hpa["status"]["desiredReplicas"] == 0
        await w.patch("replicasets", "web", {"spec": {"replicas": 2}})
        await settle(w, 30)
        hpa = await w.get("horizontalpodautoscalers", "web")
        fits = "recommended size matches current size"
        assert conditions_of(hpa) == [("AbleToScale", "True", "ReadyForNewScale", fits), ACTIVE, WITHIN]
        (shown,) = hpa["status"]["currentMetrics"]
        assert shown["resource"]["current"] == {"averageUtilization": 50, "averageValue": "50m"}
        assert (hpa["status"]["currentReplicas"], hpa["status"]["desiredReplicas"]) == (2, 2)


async def test_rejected_scale_is_reported_and_retried_one_period_later() -> None:
    async with world(LOOPS, metrics=Load(each=150)) as w:
        request_times = w.quota.watch("update", "replicasets/scale")
        w.quota.refuse_once("update", "replicasets/scale", 403, "Forbidden", "no")
        sizes = await begun(w, 1, autoscaler())
        await settle(w, 20)
        wanted = f"New size: 3; reason: {USE} above target"
        cannot = "the HPA controller was unable to update the target scale: no"
        hpa = await w.get("horizontalpodautoscalers", "web")
        assert conditions_of(hpa)[0] == ("AbleToScale", "False", "FailedUpdateScale", cannot)
        assert "lastScaleTime" not in hpa["status"] and hpa["status"]["desiredReplicas"] == 0
        assert ("FailedRescale", f"{wanted}; error: no") in await w.events("web") and not sizes.seen
        await settle(w, 10)
        hpa = await w.get("horizontalpodautoscalers", "web")
        can = "the HPA controller was able to update the target scale to 3"
        assert conditions_of(hpa)[0] == ("AbleToScale", "True", "SucceededRescale", can)
        assert hpa["status"]["lastScaleTime"] and ("SuccessfulRescale", wanted) in await w.events("web")
        assert len(request_times) == 2 and round((request_times[1] - request_times[0]) / SECOND) == 15


class ValueMetrics(Load):
    """Custom and external metrics with one value, in milli units; for pods, the value of each."""

    def __init__(self, value: int) -> None:
        super().__init__(each=50)
        self.value: int | None = value
        self.metrics: list[Metric] = []

    def of_pods(self, pods: Sequence[Obj], metric: Metric, wall_us: int) -> Mapping[str, Sample] | str:
        self.metrics.append(metric)
        known = pods if self.value is not None else ()
        return {pod["metadata"]["name"]: Sample(self.value or 0, wall_us, 15 * SECOND) for pod in known}

    def of_object(self, about: Obj, metric: Metric) -> Value | str:
        self.metrics.append(metric)
        return none_returned("custom") if self.value is None else Value(self.value)

    def external(self, metric: Metric) -> Value | str:
        self.metrics.append(metric)
        return none_returned("external") if self.value is None else Value(self.value)


SELECTOR = {"matchLabels": {"queue": "mail"}}
SELECTED = "&LabelSelector{MatchLabels:map[string]string{queue: mail,},MatchExpressions:[]LabelSelectorRequirement{},}"
ABOUT = {"apiVersion": "v1", "kind": "Service", "name": "s"}
SHARE = {"type": "AverageValue", "averageValue": "100"}
WHOLE = {"type": "Value", "value": "100"}
NAMED = {"name": "m", "selector": SELECTOR}


@pytest.mark.parametrize(
    ("kind", "source", "called", "shown"),
    [
        ("pods", {"target": SHARE}, "pods metric m", {"current": {"averageValue": "400"}}),
        (
            "object", {"describedObject": ABOUT, "target": WHOLE}, "Service metric m",
            {"describedObject": ABOUT, "current": {"value": "400"}},
        ),
        (
            "object", {"describedObject": ABOUT, "target": SHARE}, f"external metric m({SELECTED})",
            {"describedObject": {"kind": "", "name": ""}, "current": {"averageValue": "200", "value": "0"}},
        ),
        ("external", {"target": WHOLE}, f"external metric m({SELECTED})", {"current": {"value": "400"}}),
        (
            "external", {"target": SHARE}, f"external metric m({SELECTED})",
            {"current": {"averageValue": "200", "value": "0"}},
        ),
    ],
)  # fmt: skip
async def test_pods_object_and_external_metrics_have_targets(
    kind: str, source: Obj, called: str, shown: Obj
) -> None:
    values = ValueMetrics(400_000)
    async with world(LOOPS, metrics=values) as w:
        metric = {"type": kind.capitalize(), kind: {"metric": NAMED, **source}}
        sizes = await begun(w, 2, autoscaler(metrics=[metric]))
        await settle(w, 18)
        wanted = 8 if kind == "pods" or source["target"] == WHOLE else 4
        assert sizes.seen[0][1] == min(wanted, 4)
        hpa = await w.get("horizontalpodautoscalers", "web")
        assert hpa["status"]["currentMetrics"] == [
            {"type": kind.capitalize(), kind: {"metric": NAMED, **shown}}
        ]
        assert ("SuccessfulRescale", f"New size: 4; reason: {called} above target") in await w.events("web")
        request = values.metrics[0]
        assert (request.namespace, request.name) == ("default", "m")
        assert request.series.matches({"queue": "mail"}) and not request.series.matches({})
        values.value = None
        await settle(w, 15)
        message = (await w.get("horizontalpodautoscalers", "web"))["status"]["conditions"][1]["message"]
        api = "external" if kind == "external" else "custom"
        assert message.endswith(f"no metrics returned from {api} metrics API")
