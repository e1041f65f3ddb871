"""The metrics APIs of a cluster with a metrics server, which `kubectl top` reads, as an aggregated
API.

Turns requests for the groups metrics, custom.metrics and external.metrics into the measurements of
the metrics server of autoscaling, and gives the objects by which API servers delegate the groups.

Holds: autoscaling and these APIs read one source (`sim.app.metrics`); while an APIService is not
available, autoscaling gets the error that a request for it would get.

Mirrors  kubernetes-sigs/metrics-server v0.6 pkg/api/{node,pod}.go, kubernetes-sigs/
         custom-metrics-apiserver pkg/registry; k8s.io/metrics pkg/apis.
Differs  The server runs outside of the nodes: its Service is of type ExternalName. A group of
         custom or external metrics without a metric lists one resource without a meaning, since
         clients report an error for an empty group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actors.controllers.shared.metrics_api import (
    CUSTOM,
    EXTERNAL,
    RESOURCE,
    VERSIONS,
    Metric,
    Sample,
    Value,
    not_fetched,
)
from actors.storage import MemoryStore
from sim.api import status
from sim.api.aggregation.availability import is_available
from sim.api.scheme.scheme import Scheme
from sim.api.selectors import LabelSelector, SelectorError, parse_labels
from sim.api.types import Obj
from sim.app.metrics import MetricsServer
from sim.app.parts.api_services import ApiRequest, resource_list
from sim.app.parts.metrics.openapi import metrics_document
from sim.ident import Names
from sim.units import (
    BINARY_SI,
    MS,
    format_duration,
    format_quantity,
    format_quantity_milli,
    format_time,
)

if TYPE_CHECKING:
    from sim.app.scrapes import Usage

LATENCY_US = 5 * MS
SERVICE, HOST = "metrics-server", "metrics-server.invalid"
UNHANDLED = "the server is currently unable to handle the request"
Answer = tuple[int, Obj]


def objects(names: Names) -> Iterator[tuple[str, Obj]]:
    """The Service and the APIServices, each with its plural."""
    place = {"name": SERVICE, "namespace": names.system_namespace}
    yield "services", {"metadata": place, "spec": {"type": "ExternalName", "externalName": HOST}}
    for short, versions in VERSIONS.items():
        for number, version in enumerate(versions):
            group = names.group(short)
            spec = {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 200 - number,
                "insecureSkipTLSVerify": True,
                "service": place,
            }
            yield "apiservices", {"metadata": {"name": f"{version}.{group}"}, "spec": spec}


class MetricsApis:
    """The answers of one metrics server."""

    def __init__(
        self, server: MetricsServer, scheme: Scheme, store: MemoryStore, wall_us: Callable[[], int]
    ) -> None:
        self._server, self._scheme, self._store, self._wall_us = server, scheme, store, wall_us
        names = scheme.names
        self._groups = {names.group(short): short for short in VERSIONS}

    def serve(self, request: ApiRequest) -> Answer:
        """Answer a request."""
        if request.path == "/openapi/v2":
            return 200, metrics_document(self._scheme.names)
        parts = request.path.strip("/").split("/")
        if len(parts) < 3 or parts[0] != "apis":
            return 404, status.unknown_resource()
        _, group, version, *rest = parts
        short = self._groups.get(group, "")
        if request.method != "GET":
            return 405, status.method_not_allowed()
        if version not in VERSIONS.get(short, ()):
            return 404, status.unknown_resource()
        name = f"{group}/{version}"
        if not rest:
            return 200, resource_list(name, *self._resources(short))
        try:
            if short == RESOURCE:
                return self._usage(name, rest, request.query)
            if short == CUSTOM:
                return self._custom(name, rest, request.query)
            return self._external(name, rest, request.query)
        except SelectorError as error:
            return 400, status.bad_request(str(error))

    def _resources(self, short: str) -> list[Obj]:
        if short == RESOURCE:
            verbs = {"singularName": "", "verbs": ["get", "list"]}
            return [
                {"name": "nodes", "namespaced": False, "kind": "NodeMetrics", **verbs},
                {"name": "pods", "namespaced": True, "kind": "PodMetrics", **verbs},
            ]
        kind = "MetricValueList" if short == CUSTOM else "ExternalMetricValueList"
        row = {"singularName": "", "namespaced": True, "kind": kind, "verbs": ["get"]}
        names = self._server.stated_names(external=short == EXTERNAL)
        # Clients report an error for a group version without resources.
        return [{"name": name, **row} for name in names or (short.replace(".", ""),)]

    # --- usage of resources -----------------------------------------------------------------------

    def _usage(self, group_version: str, rest: list[str], query: Mapping[str, str]) -> Answer:
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        if rest[0] not in ("nodes", "pods") or len(rest) > 2:
            return 404, status.unknown_resource()
        of_nodes = rest[0] == "nodes"
        matches = parse_labels(query.get("labelSelector", "")).matches
        result = [
            obj
            for obj in self._all(rest[0], namespace)
            if (rest[1:] in ([], [obj["metadata"]["name"]])) and matches(obj["metadata"].get("labels") or {})
        ]
        shown = [self._of_node(obj) if of_nodes else self._of_pod(obj) for obj in result]
        kind = "NodeMetrics" if of_nodes else "PodMetrics"
        items = [each for each in shown if each is not None]
        if len(rest) == 1:
            return 200, _list(f"{kind}List", group_version, items)
        if items:
            return 200, {"kind": kind, "apiVersion": group_version, **items[0]}
        named = rest[1] if of_nodes else f"{namespace}/{rest[1]}"
        plural, group = kind.lower(), group_version.partition("/")[0]
        text = f'{plural}.{group} "{named}" not found'
        return 404, status.status(404, "NotFound", text, {"name": named, "group": group, "kind": plural})

    def _of_pod(self, pod: Obj) -> Obj | None:
        """The measurements of a pod; None if there are none yet."""
        used = self._server.pod_usage(pod)
        if used is None:
            return None
        containers = [{"name": name, "usage": _usage(*part)} for name, part in used.parts.items()]
        return {**self._head(pod, used, namespace=pod["metadata"]["namespace"]), "containers": containers}

    def _of_node(self, node: Obj) -> Obj | None:
        name = node["metadata"]["name"]
        used = self._server.node_usage(name)
        if used is None:
            return None
        return {**self._head(node, used), "usage": _usage(*used.parts[name])}

    def _head(self, obj: Obj, used: Usage, **more: str) -> Obj:
        now = format_time(self._wall_us())
        metadata: Obj = {"name": obj["metadata"]["name"], **more, "creationTimestamp": now}
        if obj["metadata"].get("labels"):
            metadata["labels"] = obj["metadata"]["labels"]
        shown_us = self._server.wall_us(used.at_us)
        return {
            "metadata": metadata, "timestamp": format_time(shown_us), "window": format_duration(used.window_us),
        }  # fmt: skip

    # --- stated metrics ---------------------------------------------------------------------------

    def _custom(self, group_version: str, rest: list[str], query: Mapping[str, str]) -> Answer:
        if len(rest) == 4 and rest[0] == "namespaces" and rest[2] == "metrics":
            rest = [*rest[:2], "namespaces", rest[1], rest[3]]
        if len(rest) != 5 or rest[0] != "namespaces":
            return 404, status.unknown_resource()
        _, namespace, plural, name, metric_name = rest
        metric = Metric(namespace, metric_name, _selector(query, "metricLabelSelector"))
        values: list[tuple[Obj, int]] = []
        resource = self._scheme.named(plural)
        if resource is None:
            return 404, status.unknown_resource()
        if resource.rule == "pods":
            matches = parse_labels(query.get("labelSelector", "")).matches
            pods = [
                pod for pod in self._all("pods", namespace) if matches(pod["metadata"].get("labels") or {})
            ]
            samples = self._server.of_pods(pods, metric, self._wall_us())
            assert not isinstance(samples, str)
            values = [
                (_about("v1", "Pod", namespace, pod), sample.milli)
                for pod, sample in samples.items()
                if name in ("*", pod)
            ]
        else:
            about = {"apiVersion": resource.api_version, "kind": resource.kind, "name": name}
            value = self._server.of_object(about, metric)
            if isinstance(value, Value):
                current = namespace if resource.namespaced else ""
                values = [(_about(resource.api_version, resource.kind, current, name), value.milli)]
        if not values:
            what = f"{resource.group_resource} {name}" if name != "*" else resource.group_resource
            text = f"the server could not find the metric {metric_name} for {what}"
            return 404, status.status(404, "NotFound", text, {})
        now = format_time(self._wall_us())
        new = group_version.endswith("/v1beta2")
        key: Obj = {"metric": {"name": metric_name}} if new else {"metricName": metric_name}
        items = [
            {"describedObject": about, **key, "timestamp": now, "value": format_quantity_milli(milli)}
            for about, milli in values
        ]
        return 200, _list("MetricValueList", group_version, items)

    def _external(self, group_version: str, rest: list[str], query: Mapping[str, str]) -> Answer:
        if len(rest) != 3 or rest[0] != "namespaces":
            return 404, status.unknown_resource()
        metric = Metric(rest[1], rest[2], _selector(query, "labelSelector"))
        value = self._server.external(metric)
        items: list[Obj] = []
        if isinstance(value, Value):
            items.append(
                {
                    "metricName": rest[2],
                    "metricLabels": {},
                    "timestamp": format_time(self._wall_us()),
                    "value": format_quantity_milli(value.milli),
                }
            )
        return 200, _list("ExternalMetricValueList", group_version, items)

    def _all(self, plural: str, namespace: str) -> list[Obj]:
        bucket = self._store.bucket(self._scheme.resource(plural).prefix)
        result = [bucket.items[key].obj for key in sorted(bucket.items)]
        return [obj for obj in result if not namespace or obj["metadata"].get("namespace") == namespace]


class DelegatedMetrics:
    """The metrics server as autoscaling reads it: through the APIServices of the groups."""

    def __init__(self, server: MetricsServer, names: Names, find: Callable[[str], Obj | None]) -> None:
        self._server, self._names, self._find = server, names, find

    def elsewhere(self, group: str) -> str:
        """The version of the API, if an APIService leads to another server than this one."""
        own = {"name": SERVICE, "namespace": self._names.system_namespace}
        for version in VERSIONS[group]:
            result = self._find(f"{version}.{self._names.group(group)}")
            if result is not None:
                service = result["spec"].get("service") or {}
                place = {key: service.get(key) for key in own}
                return "" if place == own else version
        return ""

    def resource(
        self, pods: Sequence[Obj], name: str, container: str, wall_us: int
    ) -> Mapping[str, Sample] | str:
        """Samples of a resource by pod, or an error."""
        problem = self._problem(RESOURCE, "pods")
        return problem or self._server.resource(pods, name, container, wall_us)

    def of_pods(self, pods: Sequence[Obj], metric: Metric, wall_us: int) -> Mapping[str, Sample] | str:
        """Values of a custom metric by pod name, or an error."""
        return self._problem(CUSTOM, "pods") or self._server.of_pods(pods, metric, wall_us)

    def of_object(self, about: Obj, metric: Metric) -> Value | str:
        """The value of a metric of one object, or an error."""
        return self._problem(CUSTOM, about["kind"]) or self._server.of_object(about, metric)

    def external(self, metric: Metric) -> Value | str:
        """The sum of the series of an external metric, or an error."""
        return self._problem(EXTERNAL, metric.name) or self._server.external(metric)

    def _problem(self, short: str, what: str) -> str:
        """The error of a request for a group, "" if its server answers."""
        group, api = self._names.group(short), "resource" if short == RESOURCE else short.partition(".")[0]
        result = [self._find(f"{version}.{group}") for version in VERSIONS[short]]
        present = [each for each in result if each is not None]
        if any(is_available(each) for each in present):
            return ""
        if not present and short == CUSTOM:
            return not_fetched(api, f"no custom metrics API ({group}) registered")
        missing = "the server could not find the requested resource"
        return not_fetched(api, f"{UNHANDLED if present else missing} (get {what}.{group})")


def _selector(query: Mapping[str, str], name: str) -> LabelSelector:
    return parse_labels(query.get(name, ""))


def _list(kind: str, group_version: str, items: list[Any]) -> Obj:
    return {"kind": kind, "apiVersion": group_version, "metadata": {}, "items": items}


def _about(api_version: str, kind: str, namespace: str, name: str) -> Obj:
    about = {"kind": kind, "namespace": namespace, "name": name, "apiVersion": f"/{api_version}"}
    if "/" in api_version:
        about["apiVersion"] = api_version
    return {key: value for key, value in about.items() if value}


def _usage(cpu_nano: int, memory: int) -> Obj:
    memory_text = format_quantity(memory // 1024 * 1024, BINARY_SI)
    cpu = f"{cpu_nano}n" if cpu_nano % 1000 else f"{cpu_nano // 1000}u"
    return {
        "cpu": cpu if cpu_nano % 1_000_000 else format_quantity_milli(cpu_nano // 1_000_000),
        "memory": memory_text,
    }
