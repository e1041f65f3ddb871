"""The only cloud provider: values of `--cloud-provider`, its configuration, and the names of its
instances.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/plugins.go (InitCloudProvider,
         IsExternal), cloud.go (GetInstanceProviderID),
         cmd/kube-controller-manager/app/cloudproviders.go (createCloudProvider).
Differs  there is no provider but the simulated one; its configuration is a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

from sim.dataclass import dataclass
from sim.options.base import duration, integer, option, string

CLOUD, EXTERNAL = "orrery", "external"
ADDRESSES = "198.18.0.0/15"  # reserved for benchmarks (RFC 2544): no real address
ADDRESSES_MIN = 4


def known_cloud(value: str) -> str | None:
    """The error of a name that is no cloud."""
    return None if value in ("", CLOUD) else f"unknown cloud provider: the simulated one is {CLOUD}"


def _known_or_external(value: str) -> str | None:
    return None if value == EXTERNAL else known_cloud(value)


def cloud_provider() -> Any:
    """The option; "" for no provider."""
    return option("cloud-provider", string, "", check=_known_or_external)


def provider_id(node: str) -> str:
    """The permanent provider id of a node's instance."""
    return f"{CLOUD}://{node}"


@dataclass(frozen=True, slots=True)
class CloudSettings:
    """The configuration of the simulated cloud.

    call_us: duration of each call
    quota: how many load balancers there may be; None: any number
    addresses: the network of load balancers
    """

    call_us: int = 0
    quota: int | None = None
    addresses: str = ADDRESSES


def read_settings(given: Mapping[str, Any]) -> CloudSettings:
    """The configuration from the content of its file.  Raises ValueError."""
    readers = {"callTime": duration, "loadBalancerQuota": integer, "loadBalancerAddresses": _network}
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in readers:
            raise ValueError(f"cloud-config: unknown field {name!r}; known are {', '.join(readers)}")
        try:
            found[name] = readers[name](value)
        except ValueError as wanted:
            raise ValueError(f"cloud-config: {name} is {value!r}, wanted {wanted}") from None
    quota = found.get("loadBalancerQuota")
    if quota is not None and quota < 0:
        raise ValueError("cloud-config: loadBalancerQuota must be at least 0")
    return CloudSettings(found.get("callTime", 0), quota, found.get("loadBalancerAddresses", ADDRESSES))


def _network(value: object) -> str:
    text = value if isinstance(value, str) else ""
    try:
        size = IPv4Network(text).num_addresses
    except ValueError:
        size = 0
    if size < ADDRESSES_MIN:
        raise ValueError(f"a network of {ADDRESSES_MIN} IPv4 addresses at least, such as {ADDRESSES}")
    return text
