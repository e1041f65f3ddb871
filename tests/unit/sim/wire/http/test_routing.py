"""Paths: what they ask for, and the refusals of those that lead nowhere."""

from __future__ import annotations

import pytest

from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES
from sim.wire.http.routing import NoRoute, attributes, decode_path, parse_query, route

SCHEME = Scheme(NAMES["kubernetes"])


def routed(method: str, path: str, query: str = "") -> tuple[str, str, str, str, str]:
    decoded = decode_path(path)
    assert decoded is not None
    target = route(SCHEME, method, decoded, parse_query(query))
    return target.verb, target.resource.plural, target.namespace, target.name, target.subresource


@pytest.mark.parametrize(
    ("method", "path", "query", "wanted"),
    [
        ("GET", "/api/v1/pods", "", ("list", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/n/pods", "watch=1", ("watch", "pods", "n", "", "")),
        ("GET", "/api/v1/namespaces/n/pods", "watch=0", ("list", "pods", "n", "", "")),
        ("GET", "/api/v1/watch/namespaces/n/pods/p", "", ("watch", "pods", "n", "p", "")),
        ("GET", "/api/v1/namespaces/n/pods/p", "watch=1", ("get", "pods", "n", "p", "")),
        ("GET", "/api/v1/namespaces//pods", "", ("list", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces//pods", "watch=1", ("watch", "pods", "", "", "")),
        ("POST", "/api/v1/namespaces//pods", "", ("create", "pods", "", "", "")),
        ("DELETE", "/api/v1/namespaces//pods", "", ("deletecollection", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/n/pods/p/", "", ("get", "pods", "n", "p", "")),
        ("GET", "/api/v1/namespaces/n/pods/%61", "", ("get", "pods", "n", "a", "")),
        ("GET", "/api/v1/namespaces/n", "", ("get", "namespaces", "", "n", "")),
        ("PUT", "/api/v1/namespaces/n/finalize", "", ("update", "namespaces", "", "n", "finalize")),
        ("PATCH", "/api/v1/namespaces/n/status", "", ("patch", "namespaces", "", "n", "status")),
        ("POST", "/api/v1/namespaces/n/pods/p/eviction", "", ("create", "pods", "n", "p", "eviction")),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/n/deployments",
            "",
            ("deletecollection", "deployments", "n", "", ""),
        ),
        (
            "GET",
            "/apis/apps/v1/namespaces/n/deployments/d/scale",
            "",
            ("get", "deployments", "n", "d", "scale"),
        ),
    ],
)
def test_a_path_is_read_as_upstream_reads_it(
    method: str, path: str, query: str, wanted: tuple[str, str, str, str, str]
) -> None:
    assert routed(method, path, query) == wanted


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/nope", 404),
        ("GET", "/api/v1/Pods", 404),
        ("GET", "/api/v1/configmaps/a", 404),
        ("GET", "/api/v1/namespaces/n/nodes", 404),
        ("GET", "/api/v1/namespaces/n/configmaps/a/status", 404),
        ("GET", "/api/v1/namespaces/n/configmaps/a/b/c", 404),
        ("GET", "/api/v1/namespaces/n/configmaps//a", 404),
        ("GET", "/api/v1/namespaces/n/configmaps/a%2Fb", 404),
        ("GET", "/api/v1/namespaces//configmaps/a", 400),
        ("GET", "/api/v1/namespaces/n/pods//log", 400),
        ("PUT", "/api/v1/namespaces//status", 400),
        ("POST", "/api/v1/namespaces/n/pods//log", 405),
        ("PUT", "/api/v1/namespaces//pods", 405),
        ("GET", "/api/v1/namespaces/n/configmaps/..", 400),
        ("GET", "/api/v1/namespaces/n/configmaps/%2e", 400),
        ("GET", "/api/v1/namespaces/n/configmaps/%25", 400),
        ("POST", "/api/v1/pods", 405),
        ("POST", "/api/v1/namespaces/n/pods/p", 405),
        ("PUT", "/api/v1/namespaces/n/pods", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("OPTIONS", "/api/v1/pods", 405),
        ("HEAD", "/api/v1/pods", 405),
        ("TRACE", "/api/v1/namespaces/n/pods/p", 405),
        ("GET", "/api/v1/namespaces/n/bindings", 405),
        ("POST", "/api/v1/namespaces/n/bindings/x", 404),
        ("POST", "/api/v1/bindings", 404),
        ("PUT", "/api/v1/namespaces/n/pods/p/exec", 405),
        ("HEAD", "/api/v1/namespaces/n/pods/p/exec", 405),
        ("OPTIONS", "/api/v1/namespaces/n/pods/p/exec", 405),
        ("GET", "/api/v1/namespaces/n/pods/p/exec/x", 404),
        ("TRACE", "/api/v1/namespaces/n/pods/p/proxy", 405),
        ("GET", "/api/v1/namespaces/n/configmaps/p/proxy/x", 404),
        ("POST", "/api/v1/watch/namespaces/n/pods", 405),
        ("DELETE", "/api/v1/watch/namespaces/n/pods/p", 405),
        ("HEAD", "/api/v1/watch/pods", 405),
        ("GET", "/api/v1/watch/namespaces/n/pods/p/status", 404),
        ("GET", "/api/v1/watch/namespaces/n/bindings", 404),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(method: str, path: str, code: int) -> None:
    with pytest.raises(NoRoute) as caught:
        routed(method, path)
    assert caught.value.body is not None
    assert caught.value.body["code"] == code


def test_a_broken_escape_is_no_path() -> None:
    assert decode_path("/api/v1/namespaces/n/configmaps/a%zz") is None


def test_broken_parts_of_a_query_are_left_out_and_the_first_value_counts() -> None:
    assert parse_query("a=1&a=2&b=%zz&c;d=1&e=x+y&f") == {"a": "1", "e": "x y", "f": ""}


def test_authorization_sees_a_resource_whether_there_is_one_or_not() -> None:
    asked = attributes("GET", "/apis/nope.example.com/v1/namespaces/n/foos/f/bar", {})
    assert (asked.is_resource, asked.group, asked.resource, asked.subresource) == (
        True,
        "nope.example.com",
        "foos",
        "bar",
    )
    assert (asked.verb, asked.namespace, asked.name) == ("get", "n", "f")
    assert not attributes("GET", "/apis/apps/v1", {}).is_resource
    assert attributes("GET", "/api/v1/pods", {"fieldSelector": "metadata.name=p"}).name == "p"
    assert attributes("DELETE", "/api/v1/namespaces/n/pods", {}).verb == "deletecollection"
