"""The condition Available of APIServices."""

from typing import Any

import pytest

from sim.api.aggregation.availability import (
    PASSED,
    Condition,
    discovery_path,
    from_discovery,
    from_objects,
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
