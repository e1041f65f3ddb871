"""Labels of a request in the metrics of an API server, the same for each transport.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/metrics/metrics.go: CleanScope, CanonicalVerb.
"""

from __future__ import annotations

COMPONENT = "apiserver"
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
FILTER = "apiserver_request_filter_duration_seconds"
FAIRNESS_FILTER = "priorityandfairness"
# The filters that upstream measures (pkg/server/config.go, DefaultBuildHandlerChain); only this one
# takes virtual time.
FILTERS = ("authentication", "audit", "impersonation", FAIRNESS_FILTER, "authorization")


def scope(verb: str, name: str, namespace: str) -> str:
    """The value of the label `scope`: what a request for resources addresses."""
    if name or verb == "create":
        return "resource"
    return "namespace" if namespace else "cluster"


def method(verb: str, content_type: str) -> str:
    """The value of the label `verb`: APPLY for a server-side apply, otherwise the HTTP method."""
    if verb == "patch" and "apply-patch" in content_type:
        return "APPLY"
    return METHODS.get(verb, verb.upper())


def durations(component: str, dry_run: str, place: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The labels of an answered request in each family of durations.

    place: group, resource, scope, subresource, method and version
    """
    return {
        "apiserver_request_duration_seconds": (component, dry_run, *place),
        "apiserver_request_slo_duration_seconds": (component, *place),
    }
