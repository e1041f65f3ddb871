"""Options about the networks of nodes: what contradicts, and what they amount to."""

from __future__ import annotations

import pytest

from sim.errors import InputError
from sim.options.controllers.manager import parse_controller_manager

ON = {"allocate-node-cidrs": True, "cluster-cidr": "10.0.0.0/16"}
DUAL = {**ON, "cluster-cidr": "10.0.0.0/16,fd00::/56"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"allocate-node-cidrs": True}, "cluster-cidr must be given if allocate-node-cidrs is set"),
        ({**ON, "cluster-cidr": "10.0.0/8"}, "cluster-cidr: invalid CIDR address: 10.0.0/8"),
        ({**ON, "cluster-cidr": "10.0.0.0/8,11.0.0.0/8"}, "are not dual stack"),
        ({**ON, "service-cluster-ip-range": "10.0.0.0/8,fd00::/64,fd01::/64"}, "len of clusters is:3 > more"),
        ({**ON, "node-cidr-mask-size": 12}, "mask size of cluster CIDR must be less than or equal"),
        ({**ON, "node-cidr-mask-size": 40}, "node-cidr-mask-size is 40, more than an address has bits"),
        ({**DUAL, "cluster-cidr": "10.0.0.0/16,fd00::/40"}, "the node CIDR size is too big"),
        (
            {**DUAL, "node-cidr-mask-size": 24},
            "usage of --node-cidr-mask-size is not allowed with dual-stack",
        ),
        (
            {**ON, "node-cidr-mask-size": 24, "node-cidr-mask-size-ipv4": 24},
            "is not allowed if --node-cidr-mask-size is set",
        ),
        (
            {**ON, "node-cidr-mask-size-ipv6": 64},
            "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster",
        ),
        ({**ON, "cidr-allocator-type": "IPAMFromCloud"}, "must be one of RangeAllocator, CloudAllocator"),
        ({**ON, "cidr-allocator-type": "CloudAllocator"}, "but cloud provider is not configured"),
        (
            {
                "allocate-node-cidrs": True,
                "cidr-allocator-type": "CloudAllocator",
                "cloud-provider": "orrery",
            },
            "configure-cloud-routes needs cluster-cidr",
        ),
        ({"route-reconciliation-period": "0s"}, "must be more than 0"),
    ],
)
def test_networks_that_contradict_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_controller_manager(given)
    assert message in str(refused.value)


def test_mask_sizes_go_by_family_and_have_defaults() -> None:
    assert parse_controller_manager(ON).mask_sizes == (24,)
    assert parse_controller_manager({**ON, "node-cidr-mask-size": 26}).mask_sizes == (26,)
    assert parse_controller_manager({**ON, "node-cidr-mask-size-ipv4": 20}).mask_sizes == (20,)
    assert parse_controller_manager(DUAL).mask_sizes == (24, 64)
    assert parse_controller_manager({**DUAL, "node-cidr-mask-size-ipv6": 60}).mask_sizes == (24, 60)


def test_loops_of_networks_and_of_the_cloud_start_with_what_they_need() -> None:
    cloud = {"cloud-provider": "orrery"}

    def started(**given: object) -> list[str]:
        options = parse_controller_manager({**given})
        return [
            name
            for name in ("cloud-node-lifecycle", "garbagecollector", "nodeipam", "route", "service")
            if options.starts(name)
        ]

    assert started() == ["garbagecollector"]
    assert started(**ON) == ["garbagecollector", "nodeipam"]
    assert started(**cloud) == ["cloud-node-lifecycle", "garbagecollector", "service"]
    assert started(**cloud, **ON, **{"enable-garbage-collector": False}) == [
        "cloud-node-lifecycle",
        "nodeipam",
        "route",
        "service",
    ]
    assert "route" not in started(**cloud, **ON, **{"configure-cloud-routes": False})


@pytest.mark.parametrize("name", ["cluster-cidr", "service-cluster-ip-range"])
def test_networks_without_allocation_are_accepted_and_ignored(name: str) -> None:
    options = parse_controller_manager({name: "10.0.0.0/8"})
    assert not options.allocate_node_cidrs
