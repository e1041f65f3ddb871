"""The condition NetworkUnavailable of a node, as those write it that set up its network.

Mirrors  kubernetes v1.25 component-helpers/node/util/conditions.go (SetNodeCondition),
         cloud-provider/controllers/route/route_controller.go (updateNetworkingCondition).
"""

from __future__ import annotations

from sim.api.objects import condition_status
from sim.api.types import Obj
from sim.units import format_time

TYPE = "NetworkUnavailable"


def network_patch(node: Obj, available: bool, reason: str, message: str, now_us: int) -> Obj | None:
    """The patch of a node's status that shows if its network is there; None if it does so already."""
    status = "False" if available else "True"
    if condition_status(node, TYPE) == status:
        return None
    now = format_time(now_us)
    condition = {
        "type": TYPE,
        "status": status,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    return {"status": {"conditions": [condition]}}
