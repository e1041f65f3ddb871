"""GET of componentstatuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Opinion
from sim.api.kinds.core.component_status import Answer
from sim.api.kinds.tables import cells
from sim.api.types import UserInfo
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api

PATH = "/api/v1/componentstatuses"


def api(**answers: Answer) -> Api:
    made = Api()
    made.registry = replace(made.registry, probed=lambda: answers)
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
    condition = listed(api(scheduler=Answer.REFUSED))[1]["conditions"][0]
    assert condition["status"] == "False"
    assert condition["message"] == (
        'Get "https://127.0.0.1:10259/healthz": dial tcp 127.0.0.1:10259: connect: connection refused'
    )


def test_probe_without_rights_is_a_failure_with_its_code():
    condition = listed(api(scheduler=Answer.FORBIDDEN))[1]["conditions"][0]
    assert condition["message"] == "HTTP probe failed with statuscode: 403"


def test_probe_is_reviewed_by_the_rights_of_unknown_users():
    class Denies:
        def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
            assert (user.groups, attributes.path) == (("system:unauthenticated",), "/healthz")
            return NO_OPINION

    asked = api(scheduler=Answer.REVIEWED)
    assert listed(asked)[1]["conditions"][0]["status"] == "True"
    asked.registry = replace(asked.registry, authorizer=Denies())
    assert listed(asked)[1]["conditions"][0]["status"] == "False"


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
    asked = api(scheduler=Answer.REFUSED)
    resource = asked.scheme.resource("componentstatuses")
    rows = [cells(resource, obj, 0, NAMES["kubernetes"])[:2] for obj in listed(asked)]
    assert rows == [["controller-manager", "Healthy"], ["scheduler", "Unhealthy"], ["etcd-0", "Healthy"]]
    assert cells(resource, {"metadata": {"name": "x"}}, 0, NAMES["kubernetes"]) == ["x", "Unknown", "", ""]
    assert resource.storage_version_hash == ""
