"""Metrics from the servers of the metrics APIs, through the API server.

Turns a metric of an autoscaler into a request of one of the groups metrics, custom.metrics and
external.metrics, and its answer into a source of metrics.

Holds: the decoding is pure; one request is sent for each metric.

Mirrors  kubernetes v1.25 pkg/controller/podautoscaler/metrics/client.go; k8s.io/metrics v0.25
         pkg/client/{custom_metrics,external_metrics}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actors.controllers.shared.metrics_api import (
    CUSTOM,
    EXTERNAL,
    RESOURCE,
    Metric,
    Metrics,
    Sample,
    Value,
    none_returned,
    not_fetched,
)
from sim.api.scheme.scheme import Scheme
from sim.api.selectors import format_selector
from sim.api.types import Obj, Reply, Request, Verb
from sim.client import Client
from sim.dataclass import dataclass
from sim.units import SECOND, parse_duration_us, parse_time, quantity_milli

CUSTOM_WINDOW_US = 60 * SECOND  # metricServerDefaultMetricWindow
_GROUPS = {
    "Resource": RESOURCE,
    "ContainerResource": RESOURCE,
    "Pods": CUSTOM,
    "Object": CUSTOM,
    "External": EXTERNAL,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What an autoscaler asks for.

    metric: of its spec
    selector: of its pods, as text
    """

    metric: Obj
    namespace: str
    selector: str


async def source_of(known: Metrics, client: Client, scheme: Scheme, asked: Asked) -> Metrics:
    """The source of a metric: the one that is known, or the answer of the server of its API."""
    group = _GROUPS.get(asked.metric["type"], "")
    version = known.elsewhere(group) if group else ""
    if not version:
        return known
    request = _request(client, scheme, asked, group, version)
    if isinstance(request, str):
        return Answered(group, Reply(404, body={"message": request, "reason": "NotFound"}))
    return Answered(group, await client.ask(request))


def _request(client: Client, scheme: Scheme, asked: Asked, group: str, version: str) -> Request | str:
    """The request for a metric, or why there is none."""
    metric, options = asked.metric, dict[str, str]()
    verb: Verb = "get"
    resource = name = subresource = ""
    match metric["type"]:
        case "Resource" | "ContainerResource":
            verb, resource, options = "list", "pods", {"labelSelector": asked.selector}
        case "Pods":
            named = metric["pods"]["metric"]
            resource, name, subresource = "pods", "*", named["name"]
            options = {"labelSelector": asked.selector, **_of_series(named, "metricLabelSelector")}
        case "Object":
            named, about = metric["object"]["metric"], metric["object"]["describedObject"]
            options = _of_series(named, "metricLabelSelector")
            found = _plural(scheme, about)
            if found is None:
                return f'no matches for kind "{about["kind"]}" in group "{_group(about)}"'
            resource, name, subresource = found, about["name"], named["name"]
            if found == "namespaces":  # Quirk: always the namespace of the autoscaler
                resource, name, subresource = "metrics", named["name"], ""
        case _:
            named = metric["external"]["metric"]
            resource, options = named["name"], _of_series(named, "labelSelector")
    return Request(
        verb=verb,
        resource=resource,
        group=scheme.names.group(group),
        version=version,
        namespace=asked.namespace,
        name=name,
        subresource=subresource,
        options={key: value for key, value in options.items() if value},
        user=client.user,
        manager=client.manager,
    )


def _of_series(named: Obj, parameter: str) -> dict[str, str]:
    selector = named.get("selector")
    return {parameter: format_selector(selector)} if selector else {}


def _group(about: Obj) -> str:
    group, slash, _ = str(about.get("apiVersion") or "").rpartition("/")
    return group if slash else ""


def _plural(scheme: Scheme, about: Obj) -> str | None:
    """The resource of a kind; None if it is not served."""
    known = (*scheme.resources, *scheme.more.served.resources)
    found = (r.plural for r in known if (r.group, r.kind) == (_group(about), about["kind"]))
    return next(found, None)


class Answered:
    """The answer of a server of a metrics API, as a source of the one metric that was asked for."""

    def __init__(self, group: str, reply: Reply) -> None:
        self._api = "resource" if group == RESOURCE else group.partition(".")[0]
        self._reply = reply

    def elsewhere(self, group: str) -> str:
        """Always "": the answer is here."""
        return ""

    def _items(self) -> list[Obj] | str:
        """The items of the answer, or an error."""
        reply = self._reply
        if not reply.ok:
            return not_fetched(self._api, reply.message)
        body = {"items": [item.obj for item in reply.items]} if reply.items is not None else reply.body
        items = body.get("items") if isinstance(body, dict) else None
        found = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
        return found or none_returned(self._api)

    def resource(
        self, pods: Sequence[Obj], name: str, container: str, wall_us: int
    ) -> Mapping[str, Sample] | str:
        """Usage of a resource by pod name."""
        items = self._items()
        if isinstance(items, str):
            return items
        found: dict[str, Sample] = {}
        for each in items:
            used = _used(each, name, container)
            if isinstance(used, str):
                return f"failed to get container metrics: {used}"
            if used is not None:
                window_us = _duration(each.get("window"))
                found[each["metadata"]["name"]] = Sample(used, _time(each, wall_us), window_us)
        return found

    def of_pods(self, pods: Sequence[Obj], metric: Metric, wall_us: int) -> Mapping[str, Sample] | str:
        """Values of a custom metric by pod name."""
        items = self._items()
        if isinstance(items, str):
            return items
        return {
            str((each.get("describedObject") or {}).get("name", "")): Sample(
                _milli(each), _time(each, wall_us), _window(each)
            )
            for each in items
        }

    def of_object(self, about: Obj, metric: Metric) -> Value | str:
        """The value of a metric of one object."""
        items = self._items()
        if isinstance(items, str) and not self._reply.ok:
            return items
        if isinstance(items, str) or len(items) != 1:
            count = 0 if isinstance(items, str) else len(items)
            text = f"the custom metrics API server returned {count} results when we asked for exactly one"
            return not_fetched("custom", text)
        return Value(_milli(items[0]))

    def external(self, metric: Metric) -> Value | str:
        """The sum of the series of an external metric."""
        items = self._items()
        return items if isinstance(items, str) else Value(sum(map(_milli, items)))


def _used(of_pod: Obj, name: str, container: str) -> int | str | None:
    """What a pod or one of its containers uses, in milli units; None without data, or an error."""
    containers = list(_containers(of_pod))
    if container:
        usage = next((usage for each, usage in containers if each == container), None)
        if usage is None:
            metadata = of_pod["metadata"]
            place = f"{metadata.get('namespace', '')}/{metadata['name']}"
            return f"container {container} not present in metrics for pod {place}"
        return quantity_milli(usage[name]) if name in usage else None
    if not containers or any(name not in usage for _, usage in containers):
        return None
    return sum(quantity_milli(usage[name]) for _, usage in containers)


def _containers(of_pod: Obj) -> Iterator[tuple[str, Obj]]:
    for each in of_pod.get("containers") or ():
        yield each.get("name", ""), each.get("usage") or {}


def _milli(item: Obj) -> int:
    return quantity_milli(item.get("value") or "0")


def _window(item: Obj) -> int:
    seconds = item.get("windowSeconds", item.get("window"))
    return int(seconds) * SECOND if isinstance(seconds, int) else CUSTOM_WINDOW_US


def _time(item: Obj, wall_us: int) -> int:
    """The time of a measurement; now, if it states none that can be read."""
    try:
        return parse_time(str(item.get("timestamp") or ""))
    except ValueError:
        return wall_us


def _duration(text: Any) -> int:
    try:
        return parse_duration_us(str(text or "0"))
    except ValueError:
        return 0
