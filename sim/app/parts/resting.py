"""Clusters that become steady: `run_until_steady`, and the instants at which that is noticed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sim.api.store import Change
from sim.app.parts.ports import BuiltCluster
from sim.app.plain_plan import checked_us
from sim.check.monitors import Monitor
from sim.check.monitors.quiet import QUIET_DEFAULT, Quiet, quiet_resource
from sim.check.writes import is_heartbeat
from sim.dataclass import dataclass
from sim.kernel import Kernel
from sim.kernel.causes import without_cause
from sim.units import SECOND, Virtual


@dataclass(frozen=True, slots=True)
class Rest:
    """How a wait for a steady cluster ended; false if the limit came first.

    took_s: virtual seconds until the last write
    still_changes: what was written in the end, in words; "" if the cluster is steady
    """

    took_s: float
    still_changes: str = ""

    def __bool__(self) -> bool:
        return not self.still_changes


def notice(kernel: Kernel, monitors: Sequence[Monitor], advance: Callable[[int], None]) -> None:
    """Call `advance` at each instant at which a monitor may change, to the end of the run."""
    every_us = min((monitor.wait_us for monitor in monitors), default=0)

    def look(_: object = None) -> None:
        now_us = kernel.now_us
        advance(now_us)
        due_us = [one.due_us for one in monitors if one.due_us is not None]
        kernel.call_at(Virtual(min([now_us + every_us, *due_us])), look)

    if monitors:
        with without_cause(kernel):
            look()


async def until_steady(
    cluster: BuiltCluster, quiet: str | int = QUIET_DEFAULT, limit: str | int = "1h"
) -> Rest:
    """Run until nothing but heartbeats was written for `quiet`, at most for `limit`.

    The result says how long it took until the last write, or what still changes.
    """
    quiet_us, limit_us, kernel = checked_us(quiet), checked_us(limit), cluster.kernel
    start_us = last_us = kernel.now_us
    silence = Quiet(quiet_resource(quiet_us), lambda _: None, cluster.names, start_us)

    def see(change: Change) -> None:
        nonlocal last_us
        silence.advance(change.at_us)
        resource = change.item.key.split("/", 3)[2]
        silence.see(resource, change)
        last_us = last_us if is_heartbeat(resource, change) else change.at_us

    forget = cluster.observe(see, sorted(silence.sources()))
    end_us = start_us + limit_us
    try:
        while silence.due_us is not None and kernel.now_us < end_us:
            stop_us = Virtual(min(silence.due_us, end_us))
            await kernel.run_until(stop_us)
            if kernel.now_us < stop_us:  # a user has stopped it
                break
            silence.advance(stop_us)
    finally:
        forget()
    return Rest((last_us - start_us) / SECOND, silence.unrest(kernel.now_us))
