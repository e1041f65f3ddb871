"""What the API server counts of the requests that came from outside, as Prometheus reads it.

Turns answered requests into the lines of `apiserver_request_total`, and of `apiserver_requested_deprecated_apis` for those of
versions on their way out.

Holds: a series has one line, and the lines are in one order; only what there is makes a series, so a client that
asks for nonsense makes none.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/metrics/metrics.go (MonitorRequest, RecordDeprecatedRequest, CleanScope).
Differs  requests of the cluster's own parts, which come by no socket, are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sim.machinery.kinds import Lifecycle
from sim.wire.http.routing import Attributes

COMPONENT = "apiserver"
REQUESTS, DEPRECATED = "apiserver_request_total", "apiserver_requested_deprecated_apis"
METHODS = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
}
Labels = tuple[tuple[str, str], ...]


def scope(asked: Attributes) -> str:
    """How much a request is about."""
    if asked.name or asked.verb == "create":
        return "resource"
    return "namespace" if asked.namespace else "cluster" if asked.is_resource else ""


def verb(asked: Attributes, content: str) -> str:
    if asked.verb == "patch" and "apply-patch" in content:
        return "APPLY"
    return METHODS.get(asked.verb, asked.verb.upper())


class Counts:
    """Since the server's start."""

    def __init__(self) -> None:
        self._requests: dict[Labels, int] = {}
        self._deprecated: dict[Labels, None] = {}

    def answered(self, asked: Attributes, code: int, content: str, options: Mapping[str, str]) -> None:
        """A request for something that there is has got its answer."""
        # what is no resource goes by its path
        subresource = asked.subresource if asked.is_resource else asked.path
        labels = (
            ("code", str(code)),
            ("component", COMPONENT),
            ("dry_run", options.get("dryRun", "")),
            ("group", asked.group),
            ("resource", asked.resource),
            ("scope", scope(asked)),
            ("subresource", subresource),
            ("verb", verb(asked, content)),
            ("version", asked.version),
        )
        self._requests[labels] = self._requests.get(labels, 0) + 1

    def deprecated(self, asked: Attributes, lifecycle: Lifecycle) -> None:
        """A version that goes with a later release was asked for."""
        labels = (
            ("group", asked.group),
            ("removed_release", f"1.{lifecycle.removed}"),
            ("resource", asked.resource),
            ("subresource", asked.subresource),
            ("version", asked.version),
        )
        self._deprecated[labels] = None

    def lines(self) -> Iterator[str]:
        """In the text format."""
        yield f"# HELP {REQUESTS} [STABLE] Counter of apiserver requests broken out for each verb, dry run value, \
group, version, resource, scope, component, and HTTP response code."
        yield f"# TYPE {REQUESTS} counter"
        for labels, count in sorted(self._requests.items()):
            yield f"{REQUESTS}{{{_written(labels)}}} {count}"
        yield f"# HELP {DEPRECATED} [STABLE] Gauge of deprecated APIs that have been requested, broken out by API \
group, version, resource, subresource, and removed_release."
        yield f"# TYPE {DEPRECATED} gauge"
        for labels in sorted(self._deprecated):
            yield f"{DEPRECATED}{{{_written(labels)}}} 1"


def _written(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
