"""Requests of simulated clients for group versions that another server answers."""

from typing import Any

from sim.api.aggregation.delegation import Delegated
from sim.api.aggregation.requests import forwarded, in_order, path_of, reply_of, served
from sim.api.auth.attributes import AccessAttributes
from sim.api.auth.request_attributes import attributes_of
from sim.api.types import Request, UserInfo

USER = UserInfo("ann")


def request(verb: str, **given: Any) -> Request:
    return Request(verb=verb, **{"resource": "flunders", "group": "g", "user": USER, **given})


def test_request_becomes_the_http_request_of_its_client() -> None:
    sent = forwarded(request("deletecollection", namespace="a", body={"kind": "DeleteOptions"}))
    assert (sent.method, sent.path, sent.body) == (
        "DELETE",
        "/apis/g/v1/namespaces/a/flunders",
        b'{"kind":"DeleteOptions"}',
    )
    assert path_of(request("update", name="x", subresource="status")) == "/apis/g/v1/flunders/x/status"
    assert path_of(request("get", group="", resource="")) == "/api/v1"
    assert forwarded(request("list", options={"limit": "5"})).query == "limit=5"


def test_request_without_a_resource_is_judged_as_its_path() -> None:
    assert attributes_of(request("get", resource="")) == AccessAttributes("get", "/apis/g/v1")


def test_list_of_another_server_has_items_and_a_revision() -> None:
    body = b'{"items":[{"metadata":{"name":"x"}}],"metadata":{"resourceVersion":"9","continue":"c"}}'
    reply = reply_of(request("list"), 200, (), body)
    assert [item.obj for item in reply.items or ()] == [{"metadata": {"name": "x"}}]
    assert (reply.revision, reply.more) == (9, "c")


def test_refusal_of_another_server_has_the_words_of_a_client_and_the_pause() -> None:
    reply = reply_of(request("get"), 503, [("retry-After", "3"), ("Content-Type", "text/plain")], b"away\n")
    assert (reply.code, reply.reason, reply.headers) == (503, "ServiceUnavailable", {"Retry-After": "3"})
    assert reply.message == "the server is currently unable to handle the request (get flunders.g)"
    assert reply.obj["details"]["causes"][0]["message"] == "away"


def test_resources_of_a_document_are_those_without_subresources() -> None:
    versions = [Delegated("g", name, {"spec": {"versionPriority": p}}) for name, p in (("v1", 1), ("v2", 9))]
    assert [each.version for each in in_order(versions)] == ["v2", "v1"]
    rows = [
        {"name": "flunders", "kind": "Flunder", "namespaced": True, "verbs": ["delete", "list"]},
        {"name": "flunders/status", "namespaced": True, "verbs": ["delete"]},
        {"name": "nodes", "namespaced": False, "verbs": ["delete"]},
    ]
    found, cluster_wide = served(versions[0], {"resources": rows})
    assert (found.namespaced, cluster_wide.namespaced) == (True, False)
    assert (found.group_resource, found.verbs, found.api_version) == (
        "flunders.g",
        ("delete", "list"),
        "g/v1",
    )


def test_listed_objects_have_keys_and_revisions() -> None:
    one = b'{"metadata": {"name": "x", "namespace": "a", "resourceVersion": "7"}}'
    other = b'{"metadata": {"name": "y", "resourceVersion": "v"}}'
    reply = reply_of(request("list"), 200, (), b'{"items": [%b, %b]}' % (one, other))
    assert reply.items is not None
    first, second = reply.items
    assert (first.key, first.rev, second.key, second.rev > 0) == ("a/x", 7, "/y", True)
