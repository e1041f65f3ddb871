"""Group versions that other servers answer: paths, order of /apis, headers."""

from typing import Any

from sim.api.aggregation.delegation import (
    Delegated,
    Forwarded,
    Listed,
    discovery_failure,
    forwarded_headers,
    group_version_of,
    is_discovery,
    listed_for_discovery,
    merged_groups,
    passed_target,
)
from sim.api.types import UserInfo


def delegated(group: str, version: str, priority: int, version_priority: int = 100) -> Delegated:
    spec: dict[str, Any] = {"groupPriorityMinimum": priority, "versionPriority": version_priority}
    return Delegated(group, version, {"spec": spec})


def test_path_below_a_group_version_names_it() -> None:
    assert group_version_of("/apis/g/v1") == ("g", "v1")
    assert group_version_of("/apis/g/v1/namespaces/a/pods/b") == ("g", "v1")
    assert group_version_of("/api/v1/pods") == ("", "v1")
    for path in ("/apis", "/apis/g", "/api", "/openapi/v3", "/healthz"):
        assert group_version_of(path) is None
    assert is_discovery("/apis/g/v1/")
    assert not is_discovery("/apis/g/v1/pods")


def test_groups_are_ordered_by_priority_and_versions_by_theirs() -> None:
    own = [
        Listed("agg", "v1", 1, 15),
        Listed("apps", "v1", 17_800, 15),
        Listed("batch", "v1", 17_400, 15),
        Listed("defined.io", "v1", 1_000, 100),
    ]
    others = [
        delegated("metrics", "v1beta1", 100),
        delegated("between", "v1", 17_500),
        delegated("batch", "v2", 1, 200),
        delegated("low", "v1", 5, 1),
        delegated("low", "v2", 5, 2),
    ]
    assert merged_groups(own, others, "agg") == {
        "agg": ["v1"],
        "apps": ["v1"],
        "between": ["v1"],
        "batch": ["v2", "v1"],
        "defined.io": ["v1"],
        "metrics": ["v1beta1"],
        "low": ["v2", "v1"],
    }


def test_forwarded_request_names_its_user_and_no_other() -> None:
    sent = (
        ("authorization", "Bearer x"),
        ("x-remote-user", "root"),
        ("accept", "a"),
        ("connection", "close"),
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-host", "fake"),
    )
    user = UserInfo("ann", ("a", "b"), "", {"Scope/x%": ("1",)})
    request = Forwarded("GET", "/apis/g/v1", "", sent, b"", user, "10.0.0.9")
    assert forwarded_headers(request, "10.0.0.77:443") == (
        ("accept", "a"),
        ("X-Forwarded-For", "10.0.0.1, 10.0.0.9"),
        ("X-Forwarded-Uri", "/apis/g/v1"),
        ("X-Forwarded-Host", "10.0.0.77:443"),
        ("X-Forwarded-Proto", "https"),
        ("X-Remote-User", "ann"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Scope%2Fx%25", "1"),
    )


def test_request_to_change_the_protocol_keeps_its_headers_but_no_token() -> None:
    sent = (
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("authorization", "Bearer x"),
        ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.eA, v4.channel.k8s.io"),
    )
    request = Forwarded("GET", "/apis/g/v1/x", "", sent, b"", UserInfo("ann"), "::1")
    assert request.upgrades
    assert forwarded_headers(request, "host:443") == (
        *sent[:2],
        ("sec-websocket-protocol", "v4.channel.k8s.io"),
        ("X-Forwarded-For", "::1"),
        ("X-Remote-User", "ann"),
    )


def test_path_and_query_are_encoded_again_with_sorted_parameters() -> None:
    request = Forwarded("GET", "/apis/g/v1/a%2fb%20c", "z=1&b=x+y&z=0&a", (), b"", UserInfo("ann"))
    assert passed_target(request) == "/apis/g/v1/a/b%20c?a=&b=x+y&z=1&z=0"


def test_discovery_names_the_unavailable_group_versions() -> None:
    text = discovery_failure(["z/v1", "a/v1"])
    problem = "the server is currently unable to handle the request"
    assert text == f"unable to retrieve the complete list of server APIs: a/v1: {problem}, z/v1: {problem}"


def test_versions_of_one_priority_are_ordered_by_stability_and_number() -> None:
    names = ("v1", "v10", "v2beta1", "v2")
    found = merged_groups([Listed("a", "v1", 1, 1)], [delegated("g", name, 1) for name in names], "a")
    assert found["g"] == ["v10", "v2", "v1", "v2beta1"]


def test_local_api_services_without_a_served_version_are_listed() -> None:
    made = {"metadata": {"labels": {"auto": "onstart"}}, "spec": {"group": "g", "version": "v1"}}
    own = {"metadata": {}, "spec": {"group": "g", "version": "v1"}}
    elsewhere = {**made, "spec": {**made["spec"], "service": {"name": "s"}}}
    assert [listed_for_discovery(obj, "auto") is None for obj in (made, own, elsewhere)] == [
        True,
        False,
        False,
    ]
