"""An eviction that forgets after a restart that all zones are dark.

Upstream's node controller stops all evictions while no node of any zone reports, since its own
connection is then the likely cause.  A controller that began during such an outage knew no earlier
state, took the zones as they were for usual, and evicted what was on the nodes.

Thread   https://github.com/kubernetes/kubernetes/issues/32510 (all pods deleted after a failover of
         the controller manager); the rule is that of
         https://github.com/kubernetes/kubernetes/pull/28897.
Mended   v1.4, in which the first pass of a controller compares with the state "Initial".
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from actors.controllers.nodelifecycle import tainting
from actors.controllers.nodelifecycle.zones import Disruption, Zone, ZoneState, decide_disruption, taint_rate
from sim.options.controllers.manager import ControllerManagerOptions
from tests.planted.planting import Planted, replaced


def _decide(zones: Mapping[str, Zone], options: ControllerManagerOptions) -> Disruption:
    decision = decide_disruption(zones, options)
    if not decision.absolve or all(zone.state is not ZoneState.INITIAL for zone in zones.values()):
        return decision
    rates = {key: taint_rate(state, zones[key].size, options) for key, state in decision.states.items()}
    return Disruption(decision.states, rates)


def _plant() -> AbstractContextManager[None]:
    return replaced(tainting, "decide_disruption", _decide)


BUG = Planted(
    name="forgotten_zone",
    thread="https://github.com/kubernetes/kubernetes/issues/32510",
    mended="v1.4",
    plant=_plant,
    story="""
- {at: 40s, name: cut, partition: {between: [nodes, apiserver]}, for: 110s}
- {at: 80s, name: failover, crash: {actor: controller-manager-leader, restartAfter: 10s}}
""",
)
