"""The only cloud provider: values of `--cloud-provider`, and the names of its instances.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/plugins.go (InitCloudProvider), cloud.go
         (GetInstanceProviderID).
Differs  there is no provider but the simulated one; with `external` it is not used.
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
    """The option; "" for no provider."""
    return option("cloud-provider", string, "", effect, check=_known)


def provider_id(node: str) -> str:
    """The permanent provider id of a node's instance."""
    return f"{CLOUD}://{node}"
