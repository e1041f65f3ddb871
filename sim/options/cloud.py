"""The one cloud there is: what `--cloud-provider` may say, and how its instances are called.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/plugins.go (InitCloudProvider), cloud.go (GetInstanceProviderID).
Differs  there is no provider but the simulated one; with `external` nothing here would ask it.
"""

from __future__ import annotations

from typing import Any

from sim.options.base import option, string

CLOUD = "orrery"


def _known(value: str) -> str | None:
    if value in ("", CLOUD):
        return None
    if value == "external":
        return f"there is no cloud controller manager here: the simulated cloud is {CLOUD}"
    return f"unknown cloud provider: the simulated one is {CLOUD}"


def cloud_provider(effect: str) -> Any:
    """The option; "" is none."""
    return option("cloud-provider", string, "", effect, check=_known)


def provider_id(node: str) -> str:
    """Of the instance that a node is, for good."""
    return f"{CLOUD}://{node}"
