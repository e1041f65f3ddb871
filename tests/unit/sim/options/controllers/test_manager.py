"""Options of the controller manager: what is read, what is refused, and with which words."""

from __future__ import annotations

import pytest

from sim.errors import InputError
from sim.ident import NAMES
from sim.options.controllers.manager import (
    ControllerManagerOptions,
    controller_enabled,
    parse_controller_manager,
)


def test_defaults_are_those_of_the_specification() -> None:
    options = ControllerManagerOptions()
    assert options == parse_controller_manager({})
    assert options.node_monitor_grace_period_us == 40_000_000
    assert options.node_eviction_rate == 0.1
    assert options.leader_elect_resource_name == "orch-controller-manager"


def test_the_naming_set_decides_names_and_defaults() -> None:
    options = parse_controller_manager({"kube-api-qps": "7.5"}, names=NAMES["kubernetes"])
    assert options.api_qps == 7.5
    assert options.leader_elect_resource_namespace == "kube-system"
    with pytest.raises(InputError, match="unknown option kube-api-qps"):
        parse_controller_manager({"kube-api-qps": 5})


def test_values_come_as_text_or_as_yaml_values() -> None:
    options = parse_controller_manager(
        {"--node-monitor-period": "1m30s", "concurrent-gc-syncs": 3, "controllers": ["*", "-podgc"]}
    )
    assert (options.node_monitor_period_us, options.concurrent_gc_syncs) == (90_000_000, 3)
    assert options.runs("namespace")
    assert not options.runs("podgc")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"node-monitor-perid": "5s"},
            "unknown option node-monitor-perid (did you mean 'node-monitor-period'?)",
        ),
        (
            {"contention-profiling": "true"},
            "option contention-profiling has no effect here: a simulated process",
        ),
        ({"node-monitor-period": 5}, 'option node-monitor-period is 5, wanted a duration such as "40s"'),
        ({"node-monitor-period": "-5s"}, 'wanted a duration such as "40s"'),
        ({"node-monitor-period": "0s"}, "must be more than 0"),
        ({"min-resync-period": "-1s"}, 'wanted a duration such as "40s"'),
        ({"unhealthy-zone-threshold": "nan"}, "wanted a number"),
        ({"node-eviction-rate": "1e400"}, "wanted a number"),
        ({"leader-elect": "maybe"}, "wanted true or false"),
        ({"concurrent-statefulset-syncs": 0}, "must be between 1 and 10000"),
        ({"concurrent-service-endpoint-syncs": 0}, "must be between 1 and 50"),
        ({"concurrent-gc-syncs": 10_001}, "must be at most 10000"),
        ({"concurrent-gc-syncs": 1 << 31}, "wanted a whole number of 32 bits"),
        ({"resource-quota-sync-period": "1us"}, "must be at least 1ms"),
        ({"concurrent-gc-syncs": True}, "wanted a whole number"),
        ({"controllers": "*,-nope"}, '"nope" is not in the list of known controllers'),
        ({"leader-elect-renew-deadline": "15s"}, "must be greater than leader-elect-renew-deadline"),
        ({"leader-elect-retry-period": "9s"}, "must be greater than 1.2 times leader-elect-retry-period"),
        ({"leader-elect-retry-period": "0s"}, "leader-elect-retry-period must be greater than 0"),
        (
            {
                "leader-elect-lease-duration": "999ms",
                "leader-elect-renew-deadline": "500ms",
                "leader-elect-retry-period": "100ms",
            },
            "leader-elect-lease-duration must be at least 1s",
        ),
        ({"leader-elect-resource-name": ""}, "leader-elect-resource-name is '', which is no valid name"),
        ({"leader-elect-resource-name": "My Lock"}, "leader-elect-resource-name is 'My Lock', which is no"),
        ({"leader-elect-resource-namespace": ""}, "leader-elect-resource-namespace is '', which is no"),
        ({"leader-elect-resource-lock": "endpoints"}, "must be one of leases"),
    ],
)
def test_what_is_wrong_is_refused_at_its_place(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_controller_manager(given, place="plan.yaml:7")
    assert message in str(refused.value)
    assert refused.value.place == "plan.yaml:7"


def test_the_place_of_one_option_wins() -> None:
    with pytest.raises(InputError) as refused:
        parse_controller_manager({"nope": 1}, place="plan.yaml", places={"nope": "plan.yaml:9:3"})
    assert refused.value.place == "plan.yaml:9:3"


def test_rule_between_options_is_reported_at_the_place_of_one_of_them() -> None:
    given = {"controllers": "*", "leader-elect-renew-deadline": "20s"}
    places = {"controllers": "plan.yaml:8", "leader-elect-renew-deadline": "plan.yaml:9"}
    with pytest.raises(InputError, match="must be greater than leader-elect-renew-deadline") as refused:
        parse_controller_manager(given, place="plan.yaml:7", places=places)
    assert refused.value.place == "plan.yaml:9"


def test_election_options_are_unchecked_without_leader_election() -> None:
    parse_controller_manager({"leader-elect": False, "leader-elect-retry-period": "0s"})
    parse_controller_manager({"leader-elect": False, "leader-elect-lease-duration": "1s"})


def test_the_first_entry_that_names_a_controller_wins() -> None:
    assert controller_enabled("podgc", ("podgc", "-podgc", "*"))
    assert not controller_enabled("podgc", ("-podgc", "podgc", "*"))
    assert not controller_enabled("podgc", ("namespace",))
    assert not controller_enabled("tokencleaner", ("*",))
    assert controller_enabled("tokencleaner", ("*", "tokencleaner"))


def test_files_of_one_signer_leave_the_other_signers_without_authority() -> None:
    queues = (
        "csrsigning-serving",
        "csrsigning-agent-client",
        "csrsigning-client",
        "csrsigning-legacy-unknown",
    )
    assert all(ControllerManagerOptions().signs(queue) for queue in queues)
    given = {"cluster-signing-kubelet-client-cert-file": "a", "cluster-signing-kubelet-client-key-file": "b"}
    options = parse_controller_manager(given, names=NAMES["kubernetes"])
    assert [queue for queue in queues if options.signs(queue)] == ["csrsigning-agent-client"]
    assert options.signing_files()["csrsigning-agent-client"] == ("a", "b")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"cluster-signing-cert-file": "a"}, "the certificate and the key of all signers need each other"),
        (
            {
                "cluster-signing-cert-file": "a",
                "cluster-signing-key-file": "b",
                "cluster-signing-legacy-unknown-cert-file": "a",
                "cluster-signing-legacy-unknown-key-file": "b",
            },
            "cluster-signing-cert-file cannot be given with files of one signer",
        ),
    ],
)
def test_signing_files_that_contradict_are_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(InputError, match=text):
        parse_controller_manager(given)
