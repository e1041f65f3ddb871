"""The configuration file of the scheduler: fields, profiles, plugins and arguments."""

from __future__ import annotations

from typing import Any

import pytest

from sim.app.daemons.written_configuration import whole_configuration
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.scheduler import SchedulerOptions, parse_scheduler
from sim.options.scheduling.configuration import accepted_types
from sim.options.scheduling.profiles import MOST, RATIO, DefaultSpread

KUBERNETES = NAMES["kubernetes"]
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def read(fields: dict[str, Any], **flags: Any) -> SchedulerOptions:
    given = {"config": {**HEAD, **fields}, **{name.replace("_", "-"): value for name, value in flags.items()}}
    return parse_scheduler(given, names=KUBERNETES, places={"config": "--config"})


def profile(**fields: Any) -> dict[str, Any]:
    return {"profiles": [fields]}


def arguments(name: str, **args: Any) -> dict[str, Any]:
    return profile(pluginConfig=[{"name": name, "args": args}])


@pytest.mark.parametrize("version", ["v1", "v1beta3"])
@pytest.mark.parametrize("naming", sorted(NAMES))
def test_both_versions_are_read_in_both_namings(version: str, naming: str) -> None:
    names = NAMES[naming]
    head = {
        "apiVersion": f"{names.short}scheduler.config.{names.group_domain}/{version}",
        "kind": f"{names.short.capitalize()}SchedulerConfiguration",
    }
    options = parse_scheduler({"config": {**head, "podMaxBackoffSeconds": 20}}, names=names)
    assert options.pod_max_backoff_us == 20_000_000


def test_fields_become_options_and_flags_of_election_win() -> None:
    options = read(
        {
            "leaderElection": {"leaderElect": True, "leaseDuration": "30s", "retryPeriod": "1s"},
            "clientConnection": {"qps": 7.5, "burst": 9},
            "percentageOfNodesToScore": 30,
            "podInitialBackoffSeconds": 2,
            "parallelism": 4,
        },
        leader_elect_lease_duration="40s",
    )
    assert options.leader_elect_lease_duration_us == 40_000_000
    assert options.leader_elect_retry_period_us == 1_000_000
    assert (options.api_qps, options.api_burst) == (7.5, 9)
    assert (options.percentage_of_nodes_to_score, options.pod_initial_backoff_us) == (30, 2_000_000)
    assert [one.name for one in options.profiles] == ["default-scheduler"]


def test_plugins_are_merged_as_sets_by_extension_point() -> None:
    options = read(
        profile(
            schedulerName="mine",
            plugins={
                "multiPoint": {
                    "enabled": [{"name": "TaintToleration", "weight": 7}],
                    "disabled": [{"name": "ImageLocality"}],
                },
                "score": {
                    "enabled": [{"name": "NodeResourcesFit", "weight": 5}],
                    "disabled": [{"name": "PodTopologySpread"}],
                },
                "filter": {"disabled": [{"name": "NodeUnschedulable"}]},
                "postFilter": {"disabled": [{"name": "*"}]},
            },
        )
    )
    (found,) = options.profiles
    assert found.name == "mine"
    assert found.weights == {
        "NodeResourcesFit": 5,
        "TaintToleration": 7,
        "NodeAffinity": 2,
        "VolumeBinding": 1,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
    }
    assert found.filters is not None
    assert "NodeUnschedulable" not in found.filters
    assert {"PodTopologySpread", "NodeName"} <= found.filters
    assert not found.preempts


def test_arguments_of_plugins_are_read_with_their_defaults() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    ratio = {
        "type": RATIO,
        "resources": [{"name": "cpu", "weight": 3}],
        "requestedToCapacityRatio": {"shape": shape},
    }
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    given = {
        "NodeResourcesFit": {"scoringStrategy": ratio, "ignoredResourceGroups": ["example.com"]},
        "PodTopologySpread": {"defaultingType": "List", "defaultConstraints": [constraint]},
        "InterPodAffinity": {"hardPodAffinityWeight": 5},
        "NodeAffinity": {"addedAffinity": affinity},
        "NodeResourcesBalancedAllocation": {"resources": [{"name": "memory", "weight": 1}]},
        "VolumeBinding": {"bindTimeoutSeconds": 30},
        "DefaultPreemption": {"minCandidateNodesAbsolute": 7},
    }
    config = [{"name": name, "args": args} for name, args in given.items()]
    options = read(profile(pluginConfig=config))
    (found,) = options.profiles
    assert (found.fit.strategy, found.fit.resources, found.fit.shape) == (
        RATIO,
        (("cpu", 3),),
        ((0, 0), (100, 10)),
    )
    assert found.fit.ignored_groups == {"example.com"}
    assert found.spread == (DefaultSpread("zone", 1, True),)
    assert (found.required_weight, found.affinity, found.balanced) == (5, affinity, ("memory",))
    assert (options.bind_timeout_of(found), found.candidates) == (30_000_000, (10, 7))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"apiVersion": "kubescheduler.config.k8s.io/v1beta1"}, "is registered for version"),
        ({"podInitialBackoffSecond": 1}, 'strict decoding error: unknown field "podInitialBackoffSecond"'),
        ({"parallelism": 0}, "parallelism: Invalid value: 0: should be an integer value greater than zero"),
        ({"parallelism": "a"}, "wanted an int32"),
        ({"percentageOfNodesToScore": 101}, "not in valid range [0-100]"),
        (
            {"podInitialBackoffSeconds": 0},
            "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        ),
        ({"podMaxBackoffSeconds": 0}, "must be greater than or equal to PodInitialBackoffSeconds"),
        ({"leaderElection": {"resourceLock": "endpointsleases"}}, 'resourceLock value must be "leases"'),
        ({"leaderElection": {"leaseDuration": "5s"}}, "must be greater than leader-elect-renew-deadline"),
        ({"extenders": [{"urlPrefix": "http://a"}]}, "programs that extend a scheduler are not called here"),
        ({"profiles": [{}, {"schedulerName": "a"}]}, "profiles[0].schedulerName: Required value"),
        ({"profiles": [{"schedulerName": "a"}] * 2}, 'profiles[1].schedulerName: Duplicate value: "a"'),
        (profile(plugin={}), 'unknown field "profiles[0].plugin"'),
        (profile(plugins={"filter": {"enabled": [{"name": "X"}]}}), 'FilterPlugin "X" does not exist'),
        (
            profile(plugins={"filter": {"enabled": [{"name": "ImageLocality"}]}}),
            'plugin "ImageLocality" does not extend FilterPlugin plugin',
        ),
        (profile(plugins={"bind": {"disabled": [{"name": "*"}]}}), "at least one bind plugin is needed"),
        (profile(plugins={"queueSort": {"disabled": [{"name": "*"}]}}), "at least one queue sort plugin"),
        (
            profile(plugins={"preFilter": {"disabled": [{"name": "NodePorts"}]}}),
            "NodePorts is enabled at filter",
        ),
        (profile(pluginConfig=[{"name": "X", "args": {"a": 1}}]), "X takes no arguments"),
        (profile(pluginConfig=[{"name": "NodeAffinity"}] * 2), 'Duplicate value: "NodeAffinity"'),
        (arguments("NodeAffinity", kind="XArgs"), "has to match plugin args"),
        (arguments("InterPodAffinity", hardPodAffinityWeight=101), "not in valid range [0, 100]"),
        (arguments("InterPodAffinity", weight=1), 'unknown field "profiles[0].pluginConfig[0].args.weight"'),
        (arguments("NodeResourcesFit", scoringStrategy={"type": "X"}), 'Unsupported value: "X"'),
        (arguments("NodeResourcesFit", scoringStrategy={"type": RATIO}), "must be specified when type is"),
        (
            arguments(
                "NodeResourcesFit",
                scoringStrategy={"type": MOST, "resources": [{"name": "a", "weight": 101}]},
            ),
            "resource weight of a not in valid range (0, 100]",
        ),
        (
            arguments("NodeResourcesFit", ignoredResourceGroups=["a/b"]),
            "resource group name can't contain '/'",
        ),
        (arguments("NodeResourcesBalancedAllocation", resources=[{"name": "a", "weight": 2}]), "must be 1"),
        (
            arguments("PodTopologySpread", defaultConstraints=[{"maxSkew": 1}]),
            "when .defaultConstraints are not empty",
        ),
        (arguments("PodTopologySpread", defaultingType="X"), 'Unsupported value: "X"'),
        (
            arguments("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
            "same time",
        ),
        (arguments("VolumeBinding", bindTimeoutSeconds=-1), "should not be a negative value"),
        (arguments("VolumeBinding", shape=[]), "unexpected field `shape`"),
    ],
)
def test_what_cannot_be_is_refused_at_the_option(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as refused:
        read(fields)
    assert text in str(refused.value)
    assert "--config" in str(refused.value)


def test_a_flag_that_the_file_can_say_is_refused_beside_it() -> None:
    with pytest.raises(InputError, match="has no effect beside a configuration file"):
        read({}, scheduler_name="mine")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"clientConnection": {"acceptContentTypes": "application/json"}},
        {"podMaxBackoffSeconds": 60, "leaderElection": {"leaseDuration": "1m10s", "leaderElect": False}},
        {
            "profiles": [
                {"schedulerName": "a"},
                {
                    "schedulerName": "b",
                    "plugins": {
                        "score": {
                            "disabled": [{"name": "*"}],
                            "enabled": [{"name": "ImageLocality", "weight": 4}],
                        },
                        "filter": {"disabled": [{"name": "NodeName"}]},
                    },
                    "pluginConfig": [
                        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": MOST}}},
                        {"name": "PodTopologySpread", "args": {"defaultingType": "List"}},
                        {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 5}},
                    ],
                },
            ]
        },
    ],
)
def test_the_whole_configuration_gives_the_same_options_again(fields: dict[str, Any]) -> None:
    options = read(fields)
    whole = whole_configuration(options, KUBERNETES)
    again = parse_scheduler({"config": whole}, names=KUBERNETES)
    assert accepted_types(whole) == accepted_types(options.config)
    for one, other in zip(options.profiles, again.profiles, strict=True):
        assert one._replace(bind_timeout_s=other.bind_timeout_s) == other
        assert options.bind_timeout_of(one) == again.bind_timeout_of(other)
    assert again.pod_max_backoff_us == options.pod_max_backoff_us
    assert again.leader_elect_lease_duration_us == options.leader_elect_lease_duration_us
