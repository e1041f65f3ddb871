"""A node's lease that is lost on clock skew.

The node controller compared the time that an agent had written with its own clock.  A controller
with a clock far enough ahead took every node for dead.

Thread   https://github.com/kubernetes/kubernetes/issues/6193
Mended   v0.15 (https://github.com/kubernetes/kubernetes/pull/6217): only times of the controller's
         own clock are compared, of when a change was seen.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from actors.controllers.nodelifecycle.decide import Health, renew_time
from actors.controllers.nodelifecycle.loop import NodeLifecycle
from sim.api.types import Obj
from tests.planted.planting import Planted, replaced, together

_monitor, _examine = NodeLifecycle._monitor_node_health, NodeLifecycle._examine


def _age_us(loop: NodeLifecycle, health: Health) -> tuple[int, int | None]:
    """How old the lease is by the controller's clock, and the time in it."""
    renewed = renew_time(loop._leases.newest(health.lease_key))
    return (0, None) if renewed is None else (loop._ctx.wall_us() - renewed, renewed)


async def _monitor_all(loop: NodeLifecycle) -> None:
    for health in loop._health.values():
        if _age_us(loop, health)[0] > loop._options.node_monitor_grace_period_us:
            loop._agenda.names[health.name] = None
    await _monitor(loop)


async def _examine_by_lease(loop: NodeLifecycle, health: Health, node: Obj | None) -> None:
    age_us, renewed = _age_us(loop, health)
    if age_us > loop._options.node_monitor_grace_period_us:
        loop._renewals.read(health)
        health.renewed, health.probe_us = renewed, loop._ctx.now_us() - age_us
    await _examine(loop, health, node)


def _plant() -> AbstractContextManager[None]:
    return together(
        replaced(NodeLifecycle, "_monitor_node_health", _monitor_all),
        replaced(NodeLifecycle, "_examine", _examine_by_lease),
    )


BUG = Planted(
    name="foreign_clock",
    thread="https://github.com/kubernetes/kubernetes/issues/6193",
    mended="v0.15",
    plant=_plant,
    story="""
- {at: 60s, name: ahead, clock: {actor: controller-manager-leader, offset: 60s}, for: 30s}
""",
)
