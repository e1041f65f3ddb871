"""Options of the controller manager about the networks of nodes: pod CIDRs and routes.

Holds: networks that contradict each other are refused with upstream's words.

Mirrors  kubernetes v1.25 cmd/kube-controller-manager/app/core.go (startNodeIpamController,
         startRouteController, setNodeCIDRMaskSizes),
         pkg/controller/nodeipam/node_ipam_controller.go, ipam/cidrset/cidr_set.go; the second
         family of services comes after a comma (app/options/options.go).
Differs  what upstream finds at the start of the controller, and ends the process for, is refused
         when the options are read. The allocator types IPAMFromCluster and IPAMFromCloud, which
         only one provider offers, and MultiCIDRRangeAllocator, behind an alpha gate, are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from sim.dataclass import dataclass
from sim.options.base import boolean, duration, integer, more_than, one_of, option, string, within

Network = IPv4Network | IPv6Network
RANGE_ALLOCATOR, CLOUD_ALLOCATOR = "RangeAllocator", "CloudAllocator"
MASK_SIZES: Mapping[int, int] = {4: 24, 6: 64}  # defaultNodeMaskCIDRIPv4, defaultNodeMaskCIDRIPv6
FAMILIES_MAX = 2
PARTS_MAX_BITS = 16  # clusterSubnetMaxDiff: bits between the masks of an IPv6 cluster and its nodes
# The same for IPv4, where upstream's bound is the size of an address.
_MASK = within(0, 128)


def network(text: str) -> Network:
    """The network of a CIDR; host bits are ignored.  Raises ValueError."""
    return ip_network(text.strip(), strict=False)


def _networks(name: str, text: str) -> tuple[Network, ...]:
    """The networks of a text, one of each family at most."""
    result = []
    for part in text.split(",") if text.strip() else ():
        try:
            result.append(network(part))
        except ValueError:
            raise ValueError(f"{name}: invalid CIDR address: {part.strip()}") from None
    if len(result) > FAMILIES_MAX:
        raise ValueError(f"{name}: len of clusters is:{len(result)} > more than max allowed of 2")
    if len(result) == FAMILIES_MAX and result[0].version == result[1].version:
        raise ValueError(f"{name}: the two CIDRs are not dual stack, which needs one of each IP family")
    return tuple(result)


def _mask_size(family: str) -> Any:
    return option(f"node-cidr-mask-size{family}", integer, 0, check=_MASK)


@dataclass(frozen=True)  # without slots: it is one of several bases
class NodeNetworkFlags:
    """What nodeipam and route are given."""

    allocate_node_cidrs: bool = option("allocate-node-cidrs", boolean, False)
    cidr_allocator_type: str = option(
        "cidr-allocator-type", string, RANGE_ALLOCATOR, check=one_of(RANGE_ALLOCATOR, CLOUD_ALLOCATOR)
    )
    cluster_cidr: str = option("cluster-cidr", string, "")
    service_cluster_ip_range: str = option("service-cluster-ip-range", string, "")
    node_cidr_mask_size: int = _mask_size("")
    node_cidr_mask_size_ipv4: int = _mask_size("-ipv4")
    node_cidr_mask_size_ipv6: int = _mask_size("-ipv6")
    configure_cloud_routes: bool = option("configure-cloud-routes", boolean, True)
    route_reconciliation_period_us: int = option(
        "route-reconciliation-period", duration, "10s", check=more_than(0)
    )

    @property
    def cluster_networks(self) -> tuple[Network, ...]:
        """The networks of `cluster-cidr`."""
        return _networks("cluster-cidr", self.cluster_cidr)

    @property
    def service_networks(self) -> tuple[Network, ...]:
        """The networks of `service-cluster-ip-range`."""
        return _networks("service-cluster-ip-range", self.service_cluster_ip_range)

    @property
    def mask_sizes(self) -> tuple[int, ...]:
        """The mask size of a node's pod CIDR, for each of the cluster's networks."""
        entry = {4: self.node_cidr_mask_size_ipv4, 6: self.node_cidr_mask_size_ipv6}
        return tuple(
            self.node_cidr_mask_size or entry[one.version] or MASK_SIZES[one.version]
            for one in self.cluster_networks
        )

    @property
    def takes_ranges_of_cloud(self) -> bool:
        """True if nodes get the pod CIDRs that the cloud has for their instances."""
        return self.cidr_allocator_type == CLOUD_ALLOCATOR

    @property
    def gives_ranges(self) -> bool:
        """True if nodes get ranges of the cluster's networks."""
        return self.allocate_node_cidrs and not self.takes_ranges_of_cloud

    def check_networks(self, cloud_provider: str) -> None:
        """Raises ValueError if the options contradict each other.

        Quirk: networks without `allocate-node-cidrs` are read and have no effect.
        """
        networks, _ = self.cluster_networks, self.service_networks
        if not self.allocate_node_cidrs:
            return
        if self.takes_ranges_of_cloud:
            if not cloud_provider:
                raise ValueError(
                    "cidr-allocator-type is set to 'CloudAllocator' but cloud provider is not configured"
                )
            if self.configure_cloud_routes and not networks:
                raise ValueError("configure-cloud-routes needs cluster-cidr")
            return
        if not networks:
            raise ValueError("cluster-cidr must be given if allocate-node-cidrs is set")
        self._check_masks([one.version for one in networks])
        for network, size in zip(networks, self.mask_sizes, strict=True):
            if size > network.max_prefixlen:
                raise ValueError(f"node-cidr-mask-size is {size}, more than an address has bits")
            if network.prefixlen > size:
                raise ValueError(
                    "cluster-cidr: mask size of cluster CIDR must be less than or equal to "
                    "--node-cidr-mask-size configured for CIDR family"
                )
            if network.version == 6 and size - network.prefixlen > PARTS_MAX_BITS:
                raise ValueError(
                    "cluster-cidr: New CIDR set failed; the node CIDR size is too big: at most "
                    f"{PARTS_MAX_BITS} bits may lie between the mask sizes of cluster and node"
                )

    def _check_masks(self, versions: list[int]) -> None:
        """Mirrors setNodeCIDRMaskSizes."""
        if self.node_cidr_mask_size and len(versions) > 1:
            raise ValueError("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")
        by_family = {4: self.node_cidr_mask_size_ipv4, 6: self.node_cidr_mask_size_ipv6}
        if self.node_cidr_mask_size and any(by_family.values()):
            raise ValueError(
                "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if "
                "--node-cidr-mask-size is set"
            )
        for family, size in by_family.items():
            if size and family not in versions:
                raise ValueError(
                    f"usage of --node-cidr-mask-size-ipv{family} is not allowed for a single-stack "
                    f"IPv{versions[0]} cluster"
                )
