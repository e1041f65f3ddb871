"""Options of the scheduler.

Turns `--name value` pairs, and the fields of its configuration file under their own names, into
`SchedulerOptions`, by `parse_scheduler`.

Holds: every field has the effect it names; the limits between the election's times are checked.

Mirrors  kubernetes v1.25 cmd/kube-scheduler/app/options and pkg/scheduler/apis/config: defaults of
         v1.
Differs  some fields of the configuration file are options too, for the only profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sim.dataclass import dataclass
from sim.ident import NAMES, Names
from sim.options.base import (
    document,
    duration,
    integer,
    more_than,
    option,
    parse,
    raw_option,
    string,
    with_default,
    within,
)
from sim.options.features.gates import feature_gates
from sim.options.groups.client import ClientFlags
from sim.options.groups.election import ElectionFlags
from sim.options.groups.metrics import MetricsFlags
from sim.options.groups.serving import ServerFlags
from sim.units import SECOND

if TYPE_CHECKING:
    from sim.options.scheduling.profiles import ProfileSpec


def _named(value: str) -> str | None:
    return None if value else "must not be empty: no pod names such a scheduler"


@dataclass(frozen=True, slots=True)
class SchedulerOptions(ClientFlags, ServerFlags, MetricsFlags, ElectionFlags):
    """The options of one scheduler process."""

    leader_elect_resource_name: str = with_default(
        ElectionFlags, "leader_elect_resource_name", "{short}-scheduler"
    )
    secure_port: int = with_default(ServerFlags, "secure_port", 10259)

    config: Mapping[str, Any] = option("config", document, {})
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
        if self.config:
            _ = self.profiles
        self.check_client()
        self.check_election()
        self.check_server()

    def bind_timeout_of(self, profile: ProfileSpec) -> int:
        """The longest wait for the volumes of a pod of a profile, in microseconds."""
        given_s = profile.bind_timeout_s
        return self.bind_timeout_us if given_s is None else given_s * SECOND

    @property
    def profiles(self) -> tuple[ProfileSpec, ...]:
        """The profiles, of which each schedules the pods that name it."""
        from sim.options.scheduling.profiles import ProfileSpec  # only a scheduler needs it

        if not self.config:
            return (ProfileSpec(self.scheduler_name),)
        from sim.options.scheduling.configuration import profiles_in  # for few clusters

        return profiles_in(self.config)


def parse_scheduler(
    given: Mapping[str, object],
    *,
    names: Names = NAMES["orch"],
    place: str = "",
    places: Mapping[str, str] | None = None,
) -> SchedulerOptions:
    """The options that flags and the configuration file that they name give.  Raises InputError."""
    if raw_option(given, "config"):
        from sim.options.scheduling.configuration import with_configuration

        given, places = with_configuration(given, names, place, places)
    return parse(SchedulerOptions, given, names=names, place=place, places=places)
