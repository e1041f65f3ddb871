"""Leader election options, the same for every daemon that leads by a lease.

Mirrors  kubernetes v1.25 component-base/config/options/leaderelectionconfig.go, client-go
         leaderelection (limits), resourcelock (kinds of lock).
"""

from __future__ import annotations

from sim.dataclass import dataclass
from sim.options.base import boolean, duration, one_of, option, string
from sim.patterns import pattern
from sim.units import SECOND

# What the API takes, roughly: it has the last word.
_NAME = pattern(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# client-go leaderelection.JitterFactor: the renew deadline must leave room for one jittered retry
JITTER_FACTOR = 1.2


@dataclass(frozen=True)  # without slots: it is one of several bases
class ElectionFlags:
    """A daemon gives `leader_elect_resource_name` a default of its own."""

    leader_elect: bool = option("leader-elect", boolean, True)
    leader_elect_lease_duration_us: int = option("leader-elect-lease-duration", duration, "15s")
    leader_elect_renew_deadline_us: int = option("leader-elect-renew-deadline", duration, "10s")
    leader_elect_retry_period_us: int = option("leader-elect-retry-period", duration, "2s")
    leader_elect_resource_lock: str = option(
        "leader-elect-resource-lock",
        string,
        "leases",
        check=one_of("leases", "endpointsleases", "configmapsleases"),
    )
    leader_elect_resource_name: str = option("leader-elect-resource-name", string, "")
    leader_elect_resource_namespace: str = option("leader-elect-resource-namespace", string, "{short}-system")

    def check_election(self) -> None:
        """Raises ValueError if the times contradict each other; not called without leader election."""
        if not self.leader_elect:
            return
        if not self.leader_elect_retry_period_us:
            raise ValueError("leader-elect-retry-period must be greater than 0")
        for field, name in (
            ("name", self.leader_elect_resource_name),
            ("namespace", self.leader_elect_resource_namespace),
        ):
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"leader-elect-resource-{field} is {name!r}, which is no valid name of a lock object"
                )
        # Its whole seconds are stored, and the API takes no zero.
        if self.leader_elect_lease_duration_us < SECOND:
            raise ValueError(
                "leader-elect-lease-duration must be at least 1s, since a lease holds whole seconds"
            )
        if self.leader_elect_lease_duration_us <= self.leader_elect_renew_deadline_us:
            raise ValueError("leader-elect-lease-duration must be greater than leader-elect-renew-deadline")
        if self.leader_elect_renew_deadline_us <= JITTER_FACTOR * self.leader_elect_retry_period_us:
            raise ValueError(
                "leader-elect-renew-deadline must be greater than 1.2 times leader-elect-retry-period"
            )
