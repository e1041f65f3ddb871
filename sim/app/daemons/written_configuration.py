"""The whole configuration of a scheduler, as its program writes it.

Turns the options of a scheduler into the content of a configuration file of v1 that gives the same
options.

Mirrors  kubernetes v1.25 cmd/kube-scheduler/app/options/configfile.go: LogOrWriteConfig.
Differs  plugins of a profile that does not have all of the default are listed by extension point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.ident import Names
from sim.options.scheduler import SchedulerOptions
from sim.options.scheduling.configuration import accepted_types, connection_flags, group_of, kind_of
from sim.options.scheduling.fields import Reading
from sim.options.scheduling.plugins import EVERY, EXTENDED, MULTI_POINT, SCORE, WEIGHTS, enabled_plugins
from sim.options.scheduling.profiles import ProfileSpec
from sim.units import SECOND, format_duration


def whole_configuration(options: SchedulerOptions, names: Names) -> dict[str, Any]:
    """The content of the file."""
    given = options.config.get("profiles")
    listed: list[Mapping[str, Any]] = given if isinstance(given, list) and given else [{}]
    version = f"{group_of(names)}/v1"
    connection = connection_flags(options.config, names)
    return {
        "apiVersion": version,
        "kind": kind_of(names),
        "parallelism": options.config.get("parallelism", 16),
        "leaderElection": {
            "leaderElect": options.leader_elect,
            "leaseDuration": format_duration(options.leader_elect_lease_duration_us),
            "renewDeadline": format_duration(options.leader_elect_renew_deadline_us),
            "retryPeriod": format_duration(options.leader_elect_retry_period_us),
            "resourceLock": options.leader_elect_resource_lock,
            "resourceName": options.leader_elect_resource_name,
            "resourceNamespace": options.leader_elect_resource_namespace,
        },
        "clientConnection": {
            f"{names.short}config": connection.get(f"{names.short}config", ""),
            "acceptContentTypes": accepted_types(options.config),
            "contentType": connection.get(f"{names.short}-api-content-type", names.media_json),
            "qps": options.api_qps,
            "burst": options.api_burst,
        },
        "percentageOfNodesToScore": options.percentage_of_nodes_to_score,
        "podInitialBackoffSeconds": options.pod_initial_backoff_us // SECOND,
        "podMaxBackoffSeconds": options.pod_max_backoff_us // SECOND,
        "profiles": [
            {
                "schedulerName": profile.name,
                "plugins": _plugins(one.get("plugins")),
                "pluginConfig": _arguments(profile, options.bind_timeout_of(profile) // SECOND, version),
            }
            for profile, one in zip(options.profiles, listed, strict=True)
        ],
    }


def _plugins(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The plugins of a profile: those of the default, or those that are enabled at each point."""
    if not given:
        return {MULTI_POINT: {"enabled": [_entry(name, WEIGHTS.get(name, 0)) for name in EXTENDED]}}
    enabled, weights = enabled_plugins(given, Reading(), "plugins")
    found: dict[str, Any] = {MULTI_POINT: {"disabled": [_entry(EVERY, 0)]}}
    for point, names in enabled.items():
        entries = [_entry(name, weights[name] if point == SCORE else 0) for name in names]
        found |= {point: {"enabled": entries}} if entries else {}
    return found


def _entry(name: str, weight: int) -> dict[str, Any]:
    return {"name": name, "weight": weight} if weight else {"name": name}


def _arguments(profile: ProfileSpec, bind_timeout_s: int, version: str) -> list[dict[str, Any]]:
    """The arguments of all plugins that take some."""
    fit, (percentage, least) = profile.fit, profile.candidates
    strategy: dict[str, Any] = {
        "type": fit.strategy,
        "resources": [_entry(name, weight) for name, weight in fit.resources],
    }
    if fit.shape:
        points = [{"utilization": utilization, "score": score} for utilization, score in fit.shape]
        strategy["requestedToCapacityRatio"] = {"shape": points}
    constraints = [
        {
            "maxSkew": one.max_skew,
            "topologyKey": one.topology_key,
            "whenUnsatisfiable": "DoNotSchedule" if one.is_hard else "ScheduleAnyway",
        }
        for one in profile.spread or ()
    ]
    found: dict[str, dict[str, Any]] = {
        "DefaultPreemption": {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": least},
        "InterPodAffinity": {"hardPodAffinityWeight": profile.required_weight},
        "NodeAffinity": {"addedAffinity": dict(profile.affinity)} if profile.affinity else {},
        "NodeResourcesBalancedAllocation": {"resources": [_entry(name, 1) for name in profile.balanced]},
        "NodeResourcesFit": {
            "ignoredResources": sorted(fit.ignored),
            "ignoredResourceGroups": sorted(fit.ignored_groups),
            "scoringStrategy": strategy,
        },
        "PodTopologySpread": {
            "defaultingType": "System" if profile.spread is None else "List",
            "defaultConstraints": constraints,
        },
        "VolumeBinding": {"bindTimeoutSeconds": bind_timeout_s},
    }
    return [
        {"name": name, "args": {"apiVersion": version, "kind": f"{name}Args", **fields}}
        for name, fields in found.items()
    ]
