"""What servers register about their storage, and how it is removed."""

from __future__ import annotations

from sim.api.kinds.apiserverinternal.encodings import encodings, registered, with_servers, without_servers
from sim.api.types import Obj
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def server(name: str, version: str) -> Obj:
    return {"apiServerID": name, "encodingVersion": version, "decodableVersions": [version]}


def test_table_holds_every_stored_resource_with_its_versions() -> None:
    found = {each.name: each for each in encodings(NAMING)}
    assert len(found) == 48
    assert found["core.events"].decodable == ("v1", "events.k8s.io/v1")
    definitions = found["apiextensions.k8s.io.customresourcedefinitions"]
    assert definitions.version == "apiextensions.k8s.io/v1beta1"
    assert definitions.decodable == ("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1")
    assert found["core.pods"].shown == "pods" and found["batch.jobs"].shown == "jobs.batch"


def test_registration_adds_a_server_once_and_names_the_common_version() -> None:
    jobs = next(each for each in encodings(NAMING) if each.name == "batch.jobs")
    first = registered({"metadata": {"name": "batch.jobs"}}, "a", jobs, NOW)
    assert first["status"]["commonEncodingVersion"] == "batch/v1"
    assert registered(first, "a", jobs, LATER) is first
    both = registered(first, "b", jobs, LATER)
    assert [each["apiServerID"] for each in both["status"]["storageVersions"]] == ["a", "b"]
    (condition,) = both["status"]["conditions"]
    assert (condition["status"], condition["lastTransitionTime"]) == ("True", NOW)


def test_servers_that_differ_have_no_common_version() -> None:
    agreed = with_servers({}, [server("a", "v1")], NOW)
    split = with_servers(agreed, [server("a", "v1"), server("b", "v2")], LATER)
    (condition,) = split["status"]["conditions"]
    assert (condition["reason"], condition["lastTransitionTime"]) == ("CommonEncodingVersionUnset", LATER)
    assert "commonEncodingVersion" not in split["status"]
    moved = with_servers(agreed, [server("a", "v2")], LATER)
    assert moved["status"]["conditions"][0]["lastTransitionTime"] == LATER


def test_removal_of_the_last_server_leaves_nothing() -> None:
    found = with_servers({}, [server("a", "v1"), server("b", "v2")], NOW)
    left = without_servers(found, ("a",), LATER)
    assert left is not None and left["status"]["commonEncodingVersion"] == "v2"
    assert without_servers(found, ("a", "b"), LATER) is None
