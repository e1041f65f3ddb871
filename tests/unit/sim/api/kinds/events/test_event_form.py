"""Events in both groups' forms, over one store."""

from __future__ import annotations

from typing import Any

from sim.api.kinds.events.event_form import to_core, to_newer
from tests.unit.sim.api.golden_api import Api

CORE, NEWER = "/api/v1/namespaces/golden-ns/events", "/apis/events.k8s.io/v1/namespaces/golden-ns/events"
NEW_EVENT: dict[str, Any] = {
    "metadata": {"name": "b"},
    "eventTime": "2020-01-01T00:00:00.000000Z",
    "regarding": {"kind": "Pod", "name": "q", "namespace": "golden-ns"},
    "note": "n",
    "reason": "S",
    "action": "A",
    "type": "Warning",
    "reportingController": "example.com/c",
    "reportingInstance": "i",
}
OLD_EVENT: dict[str, Any] = {
    "metadata": {"name": "a"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "golden-ns"},
    "message": "m",
    "reason": "R",
    "count": 2,
    "source": {"component": "kubelet", "host": "n"},
    "firstTimestamp": "2020-01-01T00:00:00Z",
    "type": "Normal",
}


def test_nothing_is_lost_on_the_way_there_and_back() -> None:
    stored = Api().ask("POST", CORE, OLD_EVENT).obj
    assert to_core(to_newer(stored, "events.k8s.io/v1")) == stored


def test_an_event_of_one_group_is_read_through_the_other_in_its_form() -> None:
    api = Api()
    assert api.ask("POST", NEWER, NEW_EVENT).code == 201
    core = api.ask("GET", f"{CORE}/b").obj
    assert (core["message"], core["involvedObject"]["name"], core["source"]) == ("n", "q", {})
    assert "note" not in core and core["apiVersion"] == "v1"
    assert api.ask("POST", CORE, OLD_EVENT).code == 201
    newer = api.ask("GET", f"{NEWER}/a").obj
    assert (newer["note"], newer["deprecatedCount"], newer["eventTime"]) == ("m", 2, None)
    assert "reportingController" not in newer


def test_refusals_of_the_newer_group_name_the_core_kind() -> None:
    reply = Api().ask("POST", NEWER, {**NEW_EVENT, "type": "Odd"})
    assert reply.code == 422
    assert reply.message == 'Event "b" is invalid: type: Invalid value: "": has invalid value: Odd'


def test_a_write_through_the_other_group_ends_what_was_owned_in_its_form() -> None:
    api = Api()
    created = api.ask("POST", NEWER, NEW_EVENT)
    assert created.item is not None and created.item.managed[0].api_version == "events.k8s.io/v1"
    patched = api.ask("PATCH", f"{CORE}/b", {"message": "x"}, "application/merge-patch+json")
    assert patched.item is not None
    assert [(m.api_version, m.fields) for m in patched.item.managed] == [("v1", {"f:message": {}})]


def test_an_apply_through_the_other_group_ends_what_was_owned_in_its_form() -> None:
    api = Api()
    api.ask("POST", NEWER, NEW_EVENT)
    applied = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "b", "labels": {"a": "b"}}}
    reply = api.ask("PATCH", f"{CORE}/b?fieldManager=ap", applied, "application/apply-patch+yaml")
    assert reply.item is not None
    assert [(m.manager, m.api_version) for m in reply.item.managed] == [("ap", "v1")]
