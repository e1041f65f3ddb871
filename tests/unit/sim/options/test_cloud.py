"""Options about the cloud: its configuration, and a cloud that is left to others."""

from __future__ import annotations

from typing import Any

import pytest

from actors.cloud.networks import CloudError, Networks
from sim.errors import InputError
from sim.options.controllers.manager import parse_controller_manager

ON: dict[str, Any] = {"cloud-provider": "orrery"}


def test_configuration_of_the_cloud_is_read() -> None:
    config = {"callTime": "2s", "loadBalancerQuota": 3, "loadBalancerAddresses": "203.0.113.0/30"}
    settings = parse_controller_manager({**ON, "cloud-config": config}).cloud_settings
    assert (settings.call_us, settings.quota) == (2_000_000, 3)
    networks = Networks(settings.addresses)
    made = [networks.ensure("c", {"metadata": {"uid": uid}, "spec": {}}, (), None) for uid in "ab"]
    assert made == ["203.0.113.1", "203.0.113.2"]
    with pytest.raises(CloudError, match="no address is left"):
        networks.ensure("c", {"metadata": {"uid": "c"}, "spec": {}}, (), None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cloud-config": {"callTime": "1s"}}, "cloud-config has no effect without a cloud provider"),
        ({**ON, "cloud-config": {"calls": 1}}, "unknown field 'calls'"),
        ({**ON, "cloud-config": {"callTime": 5}}, "callTime is 5, wanted a duration"),
        ({**ON, "cloud-config": {"loadBalancerQuota": -1}}, "must be at least 0"),
        ({**ON, "cloud-config": {"loadBalancerAddresses": "fd00::/64"}}, "wanted a network of 4 IPv4"),
        ({**ON, "external-cloud-volume-plugin": "orrery"}, "unless cloud-provider is external"),
        ({"cloud-provider": "external", "external-cloud-volume-plugin": "aws"}, "unknown cloud provider"),
    ],
)
def test_configuration_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_controller_manager(given)
    assert message in str(refused.value)


def test_external_cloud_takes_the_loops_of_clouds_away_and_can_still_be_used() -> None:
    given = {
        "cloud-provider": "external",
        "allocate-node-cidrs": True,
        "cidr-allocator-type": "CloudAllocator",
        "configure-cloud-routes": False,
    }
    with pytest.raises(InputError, match="cloud provider is not configured"):
        parse_controller_manager(given)
    options = parse_controller_manager({**given, "external-cloud-volume-plugin": "orrery"})
    assert [n for n in ("cloud-node-lifecycle", "nodeipam", "route", "service") if options.starts(n)] == [
        "nodeipam"
    ]
