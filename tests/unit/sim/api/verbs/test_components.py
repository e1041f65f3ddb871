"""GET of componentstatuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sim.api.kinds.tables import cells
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api

PATH = "/api/v1/componentstatuses"


def api(*down: str) -> Api:
    made = Api()
    made.registry = replace(made.registry, unreachable=lambda: down)
    return made


def listed(api: Api, query: str = "") -> list[Any]:
    reply = api.ask("LIST", PATH + query)
    assert reply.items is not None
    return [item.obj for item in reply.items]


def test_component_statuses_list_the_parts_of_the_control_plane():
    found = listed(api())
    assert [obj["metadata"]["name"] for obj in found] == ["controller-manager", "scheduler", "etcd-0"]
    assert found[1]["conditions"] == [{"type": "Healthy", "status": "True", "message": "ok"}]
    assert found[2]["conditions"][0]["message"] == '{"health":"true","reason":""}'


def test_component_that_does_not_answer_is_unhealthy():
    condition = listed(api("scheduler"))[1]["conditions"][0]
    assert condition["status"] == "False"
    assert condition["message"] == (
        'Get "https://127.0.0.1:10259/healthz": dial tcp 127.0.0.1:10259: connect: connection refused'
    )


def test_component_status_is_read_by_name():
    assert api().ask("GET", f"{PATH}/etcd-0").obj["kind"] == "ComponentStatus"
    missing = api().ask("GET", f"{PATH}/nope")
    assert missing.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Component not found: nope",
        "code": 500,
    }


def test_component_statuses_are_selected_by_name_and_have_no_labels():
    found = listed(api(), "?fieldSelector=metadata.name%3Dscheduler")
    assert [obj["metadata"]["name"] for obj in found] == ["scheduler"]
    assert listed(api(), "?labelSelector=a") == []


def test_table_of_component_statuses_shows_the_health():
    asked = api("scheduler")
    resource = asked.scheme.resource("componentstatuses")
    rows = [cells(resource, obj, 0, NAMES["kubernetes"])[:2] for obj in listed(asked)]
    assert rows == [["controller-manager", "Healthy"], ["scheduler", "Unhealthy"], ["etcd-0", "Healthy"]]
    assert cells(resource, {"metadata": {"name": "x"}}, 0, NAMES["kubernetes"]) == ["x", "Unknown", "", ""]
    assert resource.storage_version_hash == ""
