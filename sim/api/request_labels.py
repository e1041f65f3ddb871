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
