"""Group versions that other servers answer: paths, order of /apis, headers."""

from typing import Any

from sim.api.aggregation.delegation import (
    Delegated,
    Forwarded,
    discovery_failure,
    forwarded_headers,
    group_version_of,
    is_discovery,
    merged_groups,
)
from sim.api.types import UserInfo


def delegated(group: str, version: str, priority: int, version_priority: int = 100) -> Delegated:
    spec: dict[str, Any] = {"groupPriorityMinimum": priority, "versionPriority": version_priority}
    return Delegated(group, version, {"spec": spec})


def test_path_below_a_group_version_names_it() -> None:
    assert group_version_of("/apis/g/v1") == ("g", "v1")
    assert group_version_of("/apis/g/v1/namespaces/a/pods/b") == ("g", "v1")
    assert group_version_of("/api/v1/pods") == ("", "v1")
    assert group_version_of("/openapi/v3/apis/g/v1") == ("g", "v1")
    for path in ("/apis", "/apis/g", "/api", "/openapi/v3", "/healthz"):
        assert group_version_of(path) is None
    assert is_discovery("/apis/g/v1/")
    assert not is_discovery("/apis/g/v1/pods")


def test_groups_are_ordered_by_priority_and_versions_by_theirs() -> None:
    own = {"agg": ["v1"], "apps": ["v1"], "batch": ["v1"], "defined.io": ["v1"]}
    rank = {"agg": 1, "apps": 17_800, "batch": 17_400}
    others = [
        delegated("metrics", "v1beta1", 100),
        delegated("between", "v1", 17_500),
        delegated("batch", "v2", 1, 200),
        delegated("low", "v1", 5, 1),
        delegated("low", "v2", 5, 2),
    ]
    assert merged_groups(own, rank, others, "agg") == {
        "agg": ["v1"],
        "apps": ["v1"],
        "between": ["v1"],
        "batch": ["v1", "v2"],
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
    )
    user = UserInfo("ann", ("a", "b"), "", {"Scope/x%": ("1",)})
    request = Forwarded("GET", "/apis/g/v1", "", sent, b"", user)
    assert forwarded_headers(request, "10.0.0.9") == (
        ("accept", "a"),
        ("X-Forwarded-For", "10.0.0.9"),
        ("X-Remote-User", "ann"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Scope%2Fx%25", "1"),
    )


def test_discovery_names_the_unavailable_group_versions() -> None:
    text = discovery_failure(["z/v1", "a/v1"])
    problem = "the server is currently unable to handle the request"
    assert text == f"unable to retrieve the complete list of server APIs: a/v1: {problem}, z/v1: {problem}"
