"""The request by which whoever is about to delete a pod says so in its status (gate PodDisruptionConditions)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.client.client import PATCH_TYPES
from sim.machinery.disruption import status_patch

if TYPE_CHECKING:
    from sim.client.client import Client
    from sim.machinery.api import Request

Obj = dict[str, Any]


def status_request(client: Client, pod: Obj, wanted: Obj) -> Request | None:
    """To bring the status of a pod there; None if it is there."""
    body, meta = status_patch(pod, wanted), pod["metadata"]
    if body is None:
        return None
    kind = PATCH_TYPES["strategic"]
    return client.request(
        "patch", "pods", meta["namespace"], meta["name"], subresource="status", body=body, content_type=kind
    )
