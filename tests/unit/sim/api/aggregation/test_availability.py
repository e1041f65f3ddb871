"""The condition Available of APIServices."""

from typing import Any

import pytest

from sim.api.aggregation.availability import (
    PASSED,
    Condition,
    discovery_path,
    from_discovery,
    from_objects,
    is_available,
    with_available,
)

REFERENCE = {"namespace": "ns", "name": "s", "port": 443}
SERVICE: dict[str, Any] = {"spec": {"type": "ClusterIP", "ports": [{"port": 443, "name": "https"}]}}
READY = {"subsets": [{"addresses": [{"ip": "1"}], "ports": [{"name": "https"}]}]}


@pytest.mark.parametrize(
    ("service", "endpoints", "reason", "message"),
    [
        (None, READY, "ServiceNotFound", 'service/s in "ns" is not present'),
        (
            {"spec": {"ports": [{"port": 80}]}},
            READY,
            "ServicePortError",
            'service/s in "ns" is not listening on port 443',
        ),
        ({"spec": {}}, READY, "ServicePortError", 'service/s in "ns" is not listening on port 443'),
        (
            SERVICE,
            {},
            "MissingEndpoints",
            'endpoints for service/s in "ns" have no addresses with port name "https"',
        ),
        (SERVICE, None, "EndpointsNotFound", 'cannot find endpoints for service/s in "ns"'),
        (
            SERVICE,
            {"subsets": [{"notReadyAddresses": [{}], "ports": [{"name": "https"}]}]},
            "MissingEndpoints",
            'endpoints for service/s in "ns" have no addresses with port name "https"',
        ),
    ],
)
def test_objects_without_a_server_make_it_unavailable(
    service: Any, endpoints: Any, reason: str, message: str
) -> None:
    found = from_objects(REFERENCE, service, endpoints, outside=False)
    assert found == Condition("False", reason, message)


def test_discovery_decides_if_the_objects_name_a_server() -> None:
    assert from_objects(REFERENCE, SERVICE, READY, outside=False) is None
    assert from_objects(REFERENCE, SERVICE, None, outside=True) is None
    assert from_objects(REFERENCE, {"spec": {"type": "ExternalName"}}, None, outside=False) is None


def test_discovery_request_decides_by_its_code_or_its_failure() -> None:
    url = "https://10.0.0.1:443/apis/g/v1"
    assert discovery_path({"group": "g", "version": "v1"}) == "/apis/g/v1"
    assert discovery_path({"version": "v1"}) == "/api/v1"
    assert from_discovery(url, 200, "") == PASSED
    start = f"failing or missing response from {url}: "
    assert from_discovery(url, 404, "").message == f"{start}bad status from {url}: 404"
    assert from_discovery(url, 0, "EOF") == Condition(
        "False", "FailedDiscoveryCheck", f'{start}Get "{url}": EOF'
    )


def test_transition_time_changes_with_the_status_only() -> None:
    first = with_available({"spec": {}}, PASSED, "t1")
    assert first is not None
    assert with_available(first, PASSED, "t2") is None
    other = with_available(first, Condition("True", "Local", "x"), "t2")
    assert other is not None
    assert other["status"]["conditions"][0]["lastTransitionTime"] == "t1"
    down = with_available(first, Condition("False", "MissingEndpoints", "x"), "t2")
    assert down is not None
    assert down["status"]["conditions"][0]["lastTransitionTime"] == "t2"


@pytest.mark.parametrize(
    ("conditions", "available"),
    [
        (None, False),
        ([], False),
        ([{"type": "Other", "status": "True"}], False),
        ([{"type": "Available", "status": "True"}], True),
        ([{"type": "Available", "status": "False"}], False),
        ([{"type": "Available"}], False),
    ],
)
def test_available_is_what_the_condition_says(conditions: Any, available: bool) -> None:
    assert is_available({"status": {"conditions": conditions}}) is available
    assert not is_available({})


@pytest.mark.parametrize(
    ("ports", "subset", "is_there"),
    [
        ([{"port": 443}], {"addresses": [{}], "ports": [{}]}, True),
        ([{"port": 443}], {"addresses": [{}], "ports": [{"name": "https"}]}, False),
        ([{"port": 443}], {"addresses": [{}]}, False),
        ([{"port": 443}], {"addresses": [], "ports": [{}]}, False),
        (
            [{"port": 80}, {"port": 443, "name": "b"}],
            {"addresses": [{}], "ports": [{"name": "a"}, {"name": "b"}]},
            True,
        ),
    ],
)
def test_an_address_of_the_named_port_is_needed(ports: Any, subset: Any, is_there: bool) -> None:
    found = from_objects(REFERENCE, {"spec": {"ports": ports}}, {"subsets": [{}, subset]}, outside=False)
    assert (found is None) is is_there


def test_a_reference_without_port_means_443() -> None:
    reference = {"namespace": "ns", "name": "s"}
    assert from_objects(reference, SERVICE, READY, outside=False) is None
    none = from_objects(reference, {}, READY, outside=False)
    assert none is not None
    assert none.reason == "ServicePortError"


@pytest.mark.parametrize(("code", "passes"), [(199, False), (200, True), (299, True), (300, False)])
def test_codes_of_success_pass(code: int, passes: bool) -> None:
    assert (from_discovery("u", code, "") == PASSED) is passes


def test_other_conditions_stay_and_a_new_one_has_the_time_of_now() -> None:
    other = {"type": "Other", "status": "True"}
    old = {"type": "Available", "status": "True"}
    made = with_available({"status": {"conditions": [old, other], "x": 1}}, PASSED, "t")
    assert made is not None
    assert made["status"]["x"] == 1
    assert [each["type"] for each in made["status"]["conditions"]] == ["Other", "Available"]
    assert made["status"]["conditions"][1]["lastTransitionTime"] is None
    first = with_available({}, PASSED, "t")
    assert first is not None
    assert first["status"]["conditions"][0]["lastTransitionTime"] == "t"
