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
from dataclasses import dataclass

from sim.ident import NAMES, Names
from sim.options.base import (
    at_least,
    duration,
    integer,
    more_than,
    number,
    option,
    parse,
    string,
    within,
)
from sim.options.client_flags import ClientFlags
from sim.options.election import ElectionFlags
from sim.options.features.gates import OF_SPREAD, OF_VOLUMES, POD_DISRUPTION, feature_gates
from sim.options.refusals import CLIENT, HELP, LOGS, OLD_LOGS, PROFILE, SERVER, refusals
from sim.options.serving import secure_port

# Known upstream, and without effect in this program.
WITHOUT_EFFECT = refusals(
    {
        HELP: "help version",
        LOGS: f"logging-format v vmodule {OLD_LOGS}",
        CLIENT: """
            {short}-api-content-type authentication-{short}config
        """,
        PROFILE: "profiling contention-profiling",
        SERVER: """
            authentication-skip-lookup authentication-token-webhook-cache-ttl
            authentication-tolerate-lookup-failure authorization-webhook-cache-authorized-ttl
            authorization-webhook-cache-unauthorized-ttl http2-max-streams-per-connection
            permit-address-sharing permit-port-sharing requestheader-client-ca-file
            requestheader-allowed-names requestheader-username-headers requestheader-group-headers
            requestheader-extra-headers-prefix tls-sni-cert-key
            cert-dir client-ca-file tls-cert-file tls-private-key-file tls-cipher-suites tls-min-version write-config-to
        """,
        "deprecated upstream, replaced by leader-elect-resource-name and leader-elect-resource-namespace": """
            lock-object-name lock-object-namespace
        """,
        "a scenario configures the scheduler by its options": "config",
    }
)


def _named(value: str) -> str | None:
    return None if value else "must not be empty: no pod names such a scheduler"


@dataclass(frozen=True, slots=True)
class SchedulerOptions(ClientFlags, ElectionFlags):
    """The options of one scheduler process."""

    api_qps: float = option("{short}-api-qps", number, 50)
    api_burst: int = option("{short}-api-burst", integer, 100, check=at_least(1))

    leader_elect_resource_name: str = option("leader-elect-resource-name", string, "{short}-scheduler")
    secure_port: int = secure_port(10259)

    feature_gates: Mapping[str, str] = feature_gates(POD_DISRUPTION, *OF_SPREAD, *OF_VOLUMES)

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


def parse_scheduler(
    given: Mapping[str, object],
    *,
    names: Names = NAMES["orch"],
    place: str = "",
    places: Mapping[str, str] | None = None,
) -> SchedulerOptions:
    """The options from names (with or without `--`) to texts or YAML values; InputError names the
    place.
    """
    return parse(SchedulerOptions, given, names=names, place=place, known=WITHOUT_EFFECT, places=places)
