"""Audit events: their fields at each level and stage."""

from typing import Any

import pytest

from sim.api.audit.arrivals import arrival_of, uri_of
from sim.api.audit.events import (
    Arrival,
    Record,
    attempted,
    decision_annotations,
    deprecation_annotations,
)
from sim.api.audit.policy import Level, Scope
from sim.api.auth.attributes import AccessAttributes, Decision, Opinion
from sim.api.scheme.scheme import Scheme
from sim.api.store import Item
from sim.api.types import Reply, Request, UserInfo
from sim.ident import NAMES

N = NAMES["kubernetes"]
SCHEME = Scheme(N)
ANN = UserInfo("ann", ("dev",), "u1", {"b": ("2",), "a": ("1", "3")})
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default", "uid": "p1", "managedFields": [{"manager": "m"}]},
}
CREATE = AccessAttributes("create", "", "", "v1", "pods", "", "default")
AT_US = 1_000_000_000_000_123


def record(
    level: Level, attributes: AccessAttributes = CREATE, *omitted: str, managed: bool = True
) -> Record:
    arrival = Arrival(attributes, ANN, "/uri?x=1", AT_US, ("10.0.0.1",), "agent")
    return Record(N, "id-1", Scope(level, omitted, not managed), arrival)


def test_event_of_the_arrival_has_the_fields_in_upstreams_order() -> None:
    event = record(Level.METADATA).event("RequestReceived", AT_US + 5)
    assert event == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "id-1",
        "stage": "RequestReceived",
        "requestURI": "/uri?x=1",
        "verb": "create",
        "user": {"username": "ann", "uid": "u1", "groups": ["dev"], "extra": {"a": ["1", "3"], "b": ["2"]}},
        "sourceIPs": ["10.0.0.1"],
        "userAgent": "agent",
        "objectRef": {"resource": "pods", "namespace": "default", "apiVersion": "v1"},
        "requestReceivedTimestamp": "2001-09-09T01:46:40.000123Z",
        "stageTimestamp": "2001-09-09T01:46:40.000123Z",
    }
    assert list(event)[:4] == ["kind", "apiVersion", "level", "auditID"]


@pytest.mark.parametrize(
    ("level", "fields"),
    [
        (Level.METADATA, set()),
        (Level.REQUEST, {"requestObject"}),
        (Level.REQUEST_RESPONSE, {"requestObject", "responseObject"}),
    ],
)
def test_level_decides_which_objects_an_event_holds(level: Level, fields: set[str]) -> None:
    made = record(level)
    made.request_body(POD, "create")
    made.respond(Reply(201, item=Item("k", {**POD, "x": 1}, 1, 1)), SCHEME.resource("pods"))
    event = made.event("ResponseComplete", AT_US + 5)
    assert event is not None
    assert {"requestObject", "responseObject"} & set(event) == fields
    assert event["responseStatus"] == {"metadata": {}, "code": 201}
    assert event["stageTimestamp"] == "2001-09-09T01:46:40.000128Z"
    assert (event["objectRef"]["name"], event["objectRef"]["uid"]) == ("a", "p1")


def test_managed_fields_are_left_out_of_objects_and_lists() -> None:
    made = record(Level.REQUEST_RESPONSE, managed=False)
    made.request_body(POD, "create")
    made.respond(Reply(200, body={"kind": "PodList", "items": [POD]}), None)
    event = made.event("ResponseComplete", AT_US)
    assert event is not None
    assert "managedFields" not in event["requestObject"]["metadata"]
    assert "managedFields" not in event["responseObject"]["items"][0]["metadata"]
    assert "managedFields" in POD["metadata"]
    with_them = record(Level.REQUEST_RESPONSE)
    with_them.request_body(POD, "create")
    event = with_them.event("RequestReceived", AT_US)
    assert event is not None
    assert "managedFields" in event["requestObject"]["metadata"]


def test_list_is_recorded_with_its_kind_and_metadata() -> None:
    made = record(Level.REQUEST_RESPONSE, AccessAttributes("list", "", "", "v1", "pods"))
    page = Reply(200, items=[Item("k", POD, 7, 7)], revision=7, more="c", remaining=2)
    made.respond(page, SCHEME.resource("pods"))
    event = made.event("ResponseComplete", AT_US)
    assert event is not None
    assert event["responseObject"]["kind"] == "PodList"
    metadata = {"resourceVersion": "7", "continue": "c", "remainingItemCount": 2}
    assert event["responseObject"]["metadata"] == metadata
    assert "kind" not in event["responseObject"]["items"][0]


def test_patch_is_recorded_as_it_was_sent() -> None:
    made = record(Level.REQUEST, AccessAttributes("patch", "", "", "v1", "pods", "", "default", "a"))
    made.request_body(b'[{"op":"remove","path":"/x"}]', "patch")
    event = made.event("ResponseComplete", AT_US)
    assert event is not None
    assert event["requestObject"] == [{"op": "remove", "path": "/x"}]


def test_body_that_is_no_json_is_not_recorded() -> None:
    made = record(Level.REQUEST)
    made.request_body(b"{", "create")
    made.request_body(b"[" * 100_000, "create")
    event = made.event("ResponseComplete", AT_US)
    assert event is not None
    assert "requestObject" not in event


def test_refusal_gives_the_status_of_the_response() -> None:
    made = record(Level.METADATA)
    body = {"kind": "Status", "status": "Failure", "message": "m", "reason": "Forbidden", "code": 403}
    made.respond(Reply(403, body=body), None)
    event = made.event("ResponseComplete", AT_US)
    assert event is not None
    expected = {"metadata": {}, "status": "Failure", "message": "m", "reason": "Forbidden", "code": 403}
    assert event["responseStatus"] == expected
    assert "responseObject" not in event


def test_request_for_a_path_has_no_objects() -> None:
    made = record(Level.REQUEST_RESPONSE, AccessAttributes("get", "/version"))
    made.respond(Reply(200, body={"major": "1"}), None)
    event = made.event("ResponseComplete", AT_US)
    assert event is not None
    assert not {"objectRef", "responseObject"} & set(event)


def test_omitted_stage_gives_no_event() -> None:
    made = record(Level.METADATA, CREATE, "RequestReceived")
    assert made.event("RequestReceived", AT_US) is None
    assert made.event("ResponseComplete", AT_US) is not None


def test_panic_and_early_close_have_a_status() -> None:
    made = record(Level.METADATA)
    made.panic("boom")
    event = made.event("Panic", AT_US)
    assert event is not None
    assert event["responseStatus"]["message"] == "APIServer panic'd: boom"
    closed = record(Level.METADATA)
    closed.close_early()
    event = closed.event("ResponseComplete", AT_US)
    assert event is not None
    assert event["responseStatus"]["message"] == "Connection closed early"


def test_impersonated_user_and_annotations_are_recorded_once() -> None:
    made = record(Level.METADATA)
    made.impersonate(UserInfo("bob", ("ops",)))
    made.annotate({"z": "1", "a": "2"})
    made.annotate({"z": "3"})
    event = made.event("ResponseComplete", AT_US)
    assert event is not None
    assert event["impersonatedUser"] == {"username": "bob", "groups": ["ops"]}
    assert list(event["annotations"].items()) == [("a", "2"), ("z", "1")]


def test_slow_request_records_its_latency_but_a_watch_does_not() -> None:
    slow = record(Level.METADATA).event("ResponseComplete", AT_US + 600_000, 450_000)
    assert slow is not None
    latencies = {"apiserver.latency.k8s.io/etcd": "450ms", "apiserver.latency.k8s.io/total": "600ms"}
    assert slow["annotations"] == latencies
    for attributes, taken_us in ((CREATE, 500_000), (AccessAttributes("watch", resource="pods"), 900_000)):
        event = record(Level.METADATA, attributes).event("ResponseComplete", AT_US + taken_us, 450_000)
        assert event is not None
        assert "annotations" not in event


def test_long_user_agent_is_cut() -> None:
    arrival = Arrival(CREATE, None, "/", AT_US, (), "x" * 1025)
    event = Record(N, "i", Scope(Level.METADATA), arrival).event("RequestReceived", AT_US)
    assert event is not None
    assert event["userAgent"] == "x" * 1024 + "...TRUNCATED"
    assert event["user"] == {}


def test_opinion_and_deprecation_become_annotations() -> None:
    assert decision_annotations(N, Opinion(Decision.ALLOW, "why")) == {
        "authorization.k8s.io/decision": "allow",
        "authorization.k8s.io/reason": "why",
    }
    for decision in (Decision.DENY, Decision.NO_OPINION):
        found = decision_annotations(N, Opinion(decision))
        assert found["authorization.k8s.io/decision"] == "forbid"
    old = SCHEME.find("autoscaling", "v2beta2", "horizontalpodautoscalers")
    assert deprecation_annotations(N, old) == {"k8s.io/deprecated": "true", "k8s.io/removed-release": "1.26"}
    assert deprecation_annotations(N, SCHEME.resource("pods")) == {}
    never_removed = SCHEME.resource("componentstatuses")
    assert deprecation_annotations(N, never_removed) == {"k8s.io/deprecated": "true"}


@pytest.mark.parametrize(
    ("headers", "query", "certificate", "says"),
    [
        ([], {}, False, "Authentication failed, no credentials provided"),
        ([("authorization", "Bearer x")], {}, False, "Authentication failed, attempted: bearer"),
        (
            [("authorization", "Basic x")],
            {"access_token": "t"},
            True,
            "Authentication failed, attempted: basic, access_token, x509",
        ),
        ([("authorization", "Bearer")], {}, False, "Authentication failed, no credentials provided"),
    ],
)
def test_failed_authentication_names_what_was_offered(
    headers: list[tuple[str, str]], query: dict[str, str], certificate: bool, says: str
) -> None:
    assert attempted(headers, query, certificate) == says


def test_request_in_the_process_has_the_uri_that_it_would_have_over_http() -> None:
    listed = Request(
        verb="watch",
        resource="deployments",
        group="apps",
        namespace="a",
        options={"resourceVersion": "3", "fieldSelector": "x=y"},
        user=ANN,
    )
    uri = "/apis/apps/v1/namespaces/a/deployments?fieldSelector=x%3Dy&resourceVersion=3&watch=true"
    assert uri_of(listed) == uri
    status = Request(verb="update", resource="pods", namespace="a", name="p", subresource="status", user=ANN)
    assert uri_of(status) == "/api/v1/namespaces/a/pods/p/status"
    space = Request(verb="get", resource="namespaces", name="a", user=ANN)
    assert uri_of(space) == "/api/v1/namespaces/a"
    arrival = arrival_of(space, 5, "10.0.0.9")
    assert (arrival.attributes.namespace, arrival.source_ips) == ("a", ("10.0.0.9",))
