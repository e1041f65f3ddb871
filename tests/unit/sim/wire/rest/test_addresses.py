"""Requests as HTTP requests."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.types import Request, UserInfo
from sim.wire.rest.addresses import target_of

USER = UserInfo("system:kube-scheduler")


def request_of(verb: Any, resource: str, **more: Any) -> Request:
    return Request(verb=verb, resource=resource, user=USER, **more)


@pytest.mark.parametrize(
    ("request_", "method", "path"),
    [
        (
            request_of("get", "pods", namespace="default", name="web-1"),
            "GET",
            "/api/v1/namespaces/default/pods/web-1",
        ),
        (request_of("list", "nodes"), "GET", "/api/v1/nodes"),
        (
            request_of("create", "pods", namespace="default", name="web-1", body={}),
            "POST",
            "/api/v1/namespaces/default/pods",
        ),
        (
            request_of("create", "pods", namespace="default", name="web-1", subresource="binding", body={}),
            "POST",
            "/api/v1/namespaces/default/pods/web-1/binding",
        ),
        (
            request_of(
                "update",
                "deployments",
                group="apps",
                namespace="a",
                name="web",
                subresource="status",
                body={},
            ),
            "PUT",
            "/apis/apps/v1/namespaces/a/deployments/web/status",
        ),
        (
            request_of("watch", "leases", group="coordination.k8s.io", options={"resourceVersion": "7"}),
            "GET",
            "/apis/coordination.k8s.io/v1/leases?resourceVersion=7&watch=true",
        ),
        (request_of("deletecollection", "pods", namespace="a"), "DELETE", "/api/v1/namespaces/a/pods"),
        (
            request_of("get", "", group="metrics.k8s.io", version="v1beta1"),
            "GET",
            "/apis/metrics.k8s.io/v1beta1",
        ),
    ],
)
def test_requests_have_the_paths_of_upstream(request_: Request, method: str, path: str) -> None:
    target = target_of(request_)
    assert (target.method, target.path) == (method, path)


def test_names_lead_to_no_other_path() -> None:
    request = request_of("get", "secrets", namespace="a/../b", name="x?y=z")
    assert target_of(request).path == "/api/v1/namespaces/a%2F..%2Fb/secrets/x%3Fy%3Dz"


def test_bodies_are_json_with_their_type() -> None:
    request = request_of(
        "patch", "pods", namespace="a", name="b", body=[1], content_type="application/json-patch+json"
    )
    assert target_of(request)[2:] == ("application/json-patch+json", b"[1]")
    assert target_of(request_of("delete", "pods", namespace="a", name="b"))[2:] == ("", b"")
