"""The condition `the cluster is steady [for DURATION]`: nothing was written for some time.

Turns writes and steps into an object that conditions see as one in the storage. The cluster is
steady from a DURATION after the last write and the last step on, until the next. Heartbeats and
Events are no writes (`sim.check.writes`).

Holds: the object changes at the instant at which the time is over, however late that is noticed,
and before everything that comes later.
"""

from __future__ import annotations

from sim.api.store import Change
from sim.api.types import Obj
from sim.check.monitors.base import Emit, Monitor
from sim.check.writes import Unrest, is_heartbeat, written_resources
from sim.faults.disturbances import LAST_DISTURBANCE, disturbs
from sim.ident import Names
from sim.patterns import pattern
from sim.units import parse_duration_us

# More than a cluster waits by itself: a dead node is noticed after 40 s, and its pods are evicted
# 5 min later.
QUIET_DEFAULT = "6m"
_TEXT = pattern(r"^the cluster is (?P<no>not )?steady(?: for (?P<time>\S+))?$")
PREFIX = "steady@"  # of the resource of the object, before the time in microseconds


def quiet_resource(quiet_us: int) -> str:
    """The resource of a time of quiet."""
    return f"{PREFIX}{quiet_us}"


def steady_text(text: str) -> tuple[str, bool] | None:
    """The resource and the wanted state of a condition about steadiness; None for another one.

    Raises ValueError with the error.
    """
    match = _TEXT.match(" ".join(text.split()))
    if match is None:
        return None
    try:
        us = parse_duration_us(match["time"] or QUIET_DEFAULT)
    except ValueError:
        us = 0
    if us <= 0:
        raise ValueError(f"{match['time']!r} is no duration, write it as the cluster is steady for 2m")
    return quiet_resource(us), match["no"] is None


class Quiet(Monitor):
    """Reports whether the cluster is steady.

    quiet_us: the time without a write
    due_us: None while it is steady
    """

    def __init__(self, resource: str, emit: Emit, names: Names, from_us: int = 0) -> None:
        super().__init__(resource, emit)
        self.quiet_us = self.wait_us = int(resource.removeprefix(PREFIX))
        self.due_us: int | None = from_us + self.quiet_us
        self._names = names
        self._unrest = Unrest()

    def sources(self) -> frozenset[str]:
        """All resources that are written for a reason."""
        return written_resources(self._names)

    def begin(self, at_us: int) -> None:
        """Count the time without a write from an instant on."""
        self.due_us = at_us + self.quiet_us

    def advance(self, at_us: int) -> None:
        """Notice the time up to an instant."""
        if self.due_us is not None and at_us >= self.due_us:
            due_us, self.due_us = self.due_us, None
            self._unrest = Unrest()
            self._put("cluster", _state(True), due_us)

    def see(self, resource: str, change: Change) -> None:
        """Take a commit."""
        if not is_heartbeat(resource, change):
            self._unrest.add(change)
            self._disturbed(change.at_us)

    def unrest(self, at_us: int) -> str:
        """What was written in the last time of quiet, in words; "" while the cluster is steady."""
        if self.due_us is None:
            return ""
        return self._unrest.words(at_us - self.quiet_us) or "nothing, but a step came"

    def step(self, kind: str, at_us: int) -> None:
        """Take a step, or its end."""
        if disturbs(LAST_DISTURBANCE, kind):
            self._disturbed(at_us)

    def _disturbed(self, at_us: int) -> None:
        was, self.due_us = self.due_us, at_us + self.quiet_us
        if was is None:
            self._put("cluster", _state(False), at_us)


def _state(steady: bool) -> Obj:
    return {"metadata": {"name": "cluster"}, "steady": steady}
