"""Options of the scheduler.

Turns `--name value` pairs, and the fields of its configuration file under their own names, into
`SchedulerOptions`, by `parse_scheduler`.

Holds: every field has the effect it names; the limits between the election's times are checked.

Mirrors  kubernetes v1.25 cmd/kube-scheduler/app/options and pkg/scheduler/apis/config: defaults of
         v1.
Differs  configuration fields are options (the file itself is not read); profiles and plugin sets
         are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sim.dataclass import dataclass
from sim.options.base import (
    duration,
    integer,
    more_than,
    option,
    parse,
    string,
    with_default,
    within,
)
from sim.options.client_flags import ClientFlags
from sim.options.election import ElectionFlags
from sim.options.features.gates import feature_gates
from sim.options.serving import ServerFlags


def _named(value: str) -> str | None:
    return None if value else "must not be empty: no pod names such a scheduler"


@dataclass(frozen=True, slots=True)
class SchedulerOptions(ClientFlags, ElectionFlags):
    """The options of one scheduler process."""

    leader_elect_resource_name: str = with_default(
        ElectionFlags, "leader_elect_resource_name", "{short}-scheduler"
    )
    secure_port: int = with_default(ServerFlags, "secure_port", 10259)

    feature_gates: Mapping[str, str] = feature_gates("SchedulerOptions")

    # --- configuration ---
    scheduler_name: str = option("scheduler-name", string, "default-scheduler", check=_named)
    percentage_of_nodes_to_score: int = option(
        "percentage-of-nodes-to-score", integer, 0, check=within(0, 100)
    )
    pod_initial_backoff_us: int = option("pod-initial-backoff", duration, "1s", check=more_than(0))
    pod_max_backoff_us: int = option("pod-max-backoff", duration, "10s")

    pod_max_unschedulable_us: int = option(
        "pod-max-in-unschedulable-pods-duration", duration, "5m0s", check=more_than(0)
    )

    bind_timeout_us: int = option("bind-timeout", duration, "10m0s", check=more_than(0))

    def __post_init__(self) -> None:
        if self.pod_max_backoff_us < self.pod_initial_backoff_us:
            raise ValueError("pod-max-backoff must not be less than pod-initial-backoff")
        self.check_client()
        self.check_election()
        self.check_server()


parse_scheduler = partial(parse, SchedulerOptions)
