"""The request by which a component other than the node's agent changes a pod's status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.api.types import Obj
from sim.client.client import PATCH_TYPES

if TYPE_CHECKING:
    from sim.api.types import Request
    from sim.client.client import Client


def status_request(client: Client, pod: Obj, body: Obj) -> Request:
    """A patch of the status of a pod; `body`: a strategic merge patch."""
    meta, kind = pod["metadata"], PATCH_TYPES["strategic"]
    return client.request(
        "patch", "pods", meta["namespace"], meta["name"], subresource="status", body=body, content_type=kind
    )
